// Small helpers of all pages, also of the matrix. What came from bundles enters a page through textContent and setAttribute only.

const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== false && value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const draw = (tag, attributes = {}, text = "") => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
};
const size = (rho) => { // as format_factor of consistency/core/text.py
  if (rho >= 1e6) return "over 1,000,000";
  if (rho > 1 && rho < 1.05) return rho > 1.005 ? String(Number(rho.toPrecision(3))) : "just over 1";
  return rho >= 10 ? Math.round(rho).toLocaleString("en") : String(Number(rho.toPrecision(2)));
};
const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const copied = async (text, button) => {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    const area = make("textarea", { readonly: "" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = done ? "Copied" : "Select it";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
};
