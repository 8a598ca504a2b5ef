// The map of operators and backends.

const color = (cell) => {
  if (cell.rank < 1) return "none";
  if (cell.rank === WARNED) return "hw";
  if (cell.rank === FAILED) return cell.rho === null ? "h6" : cell.rho > 1e3 ? "h6" : cell.rho > 10 ? "h5" : "h4";
  const rho = cell.rho || 0;
  return rho < 0.03 ? "h0" : rho < 0.15 ? "h1" : rho < 0.5 ? "h2" : "h3";
};
const LEGEND = [["h0", "below 0.03"], ["h1", "0.15"], ["h2", "0.5"], ["h3", "1 × budget"], ["hw", "known or ill-conditioned"],
  ["h4", "fails"], ["h5", "above 10"], ["h6", "above 1,000, or no number"], ["none", "not tested"]];
const drawLegend = () => $("legend").append(...LEGEND.map(([name, words]) => make("span", {}, make("i",
    { class: `swatch ${name}` }), words)));

const inWords = (cell) => {
  const verdict = D.verdicts[cell.verdict][0];
  if (cell.rank < 1) return `${verdict}: not tested`;
  const number = cell.rho === null ? "" : `${size(cell.rho)} × budget, `;
  return `${number}${verdict} (${kindName(cell.kind)}), ${count(cell.many, "result")}`;
};

const drawMap = (left) => {
  const shown = state.backend ? [D.backends.indexOf(state.backend)] : D.backends.map((_, i) => i);
  const families = new Map();
  for (const item of [...left].sort((a,
      b) => a.o.family < b.o.family ? -1 : a.o.family > b.o.family ? 1 : b.rank - a.rank || b.rho - a.rho)) {
    if (!families.has(item.o.family)) families.set(item.o.family, []);
    families.get(item.o.family).push(item);
  }
  const grid = (headed) => {
    const map = make("div", { class: "map" });
    map.style.setProperty("--columns", shown.length);
    if (headed) map.append(make("span"), ...shown.map((b) => make("span", { class: "head" }, D.backends[b])));
    return map;
  };
  // What is wholly fine is folded, unless something is looked for, or nothing fails.
  const isFine = (items) => items.every((item) => shown.every((b) => !item.cells.get(b) || item.cells.get(b).rank < WARNED));
  const fine = [...families].filter(([, items]) => isFine(items)).map(([family]) => family);
  const folded = !looking() && fine.length > 1 && fine.length < families.size;
  const top = grid(true), below = folded ? grid(false) : top;
  for (const [family, items] of families) {
    const map = folded && fine.includes(family) ? below : top;
    map.append(make("span", { class: "name" }, family));
    for (const b of shown) {
      const cells = make("div", { class: "cells" });
      for (const item of items) {
        const cell = item.cells.get(b);
        if (!cell) continue;
        const text = `${item.o.name} on ${D.backends[b]}: ${inWords(cell)}`;
        const square = make("button", { type: "button", class: `cell ${color(cell)}`, tabindex: "-1", "aria-label": text });
        square.dataset.op = item.o.id;
        cells.append(square);
      }
      map.append(cells);
    }
  }
  $("heat").replaceChildren(top);
  if (folded) {
    const names = fine.slice(0, 6).join(", ") + (fine.length > 6 ? " …" : "");
    $("heat").append(make("details", { class: "fine" }, make("summary", {}, `${count(fine.length, "family", "families")} without a failure: ${names}`), below));
  }
  const first = top.querySelector(".cell");
  if (first) first.tabIndex = 0;
};

const heat = $("heat");
const tell = (square) => { $("told").textContent = square.getAttribute("aria-label"); };
heat.addEventListener("pointerover", (e) => { if (e.target.matches(".cell")) tell(e.target); });
heat.addEventListener("focusin", (e) => { if (e.target.matches(".cell")) tell(e.target); });
// A finger cannot point: the first touch of a square says its name, the second one opens it.
let pointer = "", touched = null;
heat.addEventListener("pointerdown", (e) => { pointer = e.pointerType; });
heat.addEventListener("click", (e) => {
  if (!e.target.matches(".cell")) return;
  const again = touched === e.target || pointer !== "touch" || e.detail === 0;
  touched = e.target;
  if (again) open(operators[e.target.dataset.op], true);
  else tell(e.target);
});
heat.addEventListener("keydown", (e) => {
  if (!e.target.matches(".cell")) return;
  const next = neighbor(e.target, e.key);
  if (!next) return;
  e.preventDefault();
  e.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
const neighbor = (square, key) => {
  const all = [...heat.querySelectorAll(".cell")].filter((cell) => cell.checkVisibility()), at = all.indexOf(square);
  if (key === "ArrowRight") return all[at + 1];
  if (key === "ArrowLeft") return all[at - 1];
  if (key === "Home") return all[0];
  if (key === "End") return all[all.length - 1];
  if (key !== "ArrowDown" && key !== "ArrowUp") return null;
  // The nearest one above or below: by where the squares really stand.
  const here = square.getBoundingClientRect(), sign = key === "ArrowDown" ? 1 : -1;
  let best = null, least = Infinity;
  for (const other of all) {
    const there = other.getBoundingClientRect(), dy = sign * (there.top - here.top);
    if (dy < 2) continue;
    const distance = dy * 4 + Math.abs(there.left - here.left);
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
};
