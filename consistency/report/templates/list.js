// The list of operators, and what opens below one.

let shownRows = FIRST;
const drawList = (left) => {
  const rows = left.slice(0, shownRows), fine = rows.filter((item) => item.rank < WARNED);
  const folded = !looking() && fine.length > 1 && left[0].rank >= WARNED;
  $("operators").replaceChildren(...(folded ? rows.filter((item) => item.rank >= WARNED) : rows).map(rowOf));
  if (folded) {
    const many = left.filter((item) => item.rank < WARNED).length;
    $("operators").append(make("details", { class: "fine" },
      make("summary", {}, `${count(many, "operator")} without a failure`), ...fine.map(rowOf)));
  }
  if (left.length > shownRows) {
    const more = make("button", { type: "button" }, `Show all ${count(left.length, "operator")}`);
    more.addEventListener("click", () => {
      const at = shownRows;
      shownRows = Infinity;
      drawList(left);
      document.querySelectorAll(".row button")[at]?.focus();
    });
    $("operators").append(make("p", { class: "more" }, more));
  }
  if (D.left_out) $("operators").append(make("p", { class: "quiet" },
      `${count(D.left_out, "operator")} more are in the bundle, and not in this page.`));
};
const inShort = (cell) => {
  if (cell.rank < 1) return "–";
  if (cell.rho === null) return D.verdicts[cell.verdict][0];
  return cell.rho === 0 ? "exact" : `${size(cell.rho)} ×`;
};
const rowOf = (item) => {
  const values = make("span", { class: "values" });
  for (const [b, cell] of [...item.cells].sort((a, c) => a[0] - c[0])) {
    const number = make("span", { class: cell.rank === FAILED ? "bad" : "" }, inShort(cell));
    values.append(make("span", {}, make("i", { class: `swatch ${color(cell)}` }), number,
      make("span", { class: "of" }, D.backends[b])));
  }
  const id = `op-${item.o.id}`;
  const button = make("button", { type: "button", "aria-expanded": "false", "aria-controls": id },
    make("span", { class: "title" }, item.o.name, make("span", { class: "family" }, item.o.family)), values);
  const panel = make("div", { class: "panel", id, hidden: "" });
  button.addEventListener("click", () => toggle(item, button, panel));
  const worst = item.rank === FAILED && (casesOf.get(item.o.id) || []).find((c) => item.cells.has(c.backend) && admits(c.verdict));
  if (worst) button.append(make("span", { class: "why" }, worst.sentence));
  const row = make("div", { class: "row" }, make("h3", {}, button), panel);
  row.dataset.op = item.o.id;
  return row;
};
const toggle = (item, button, panel, wanted = panel.hidden) => {
  button.setAttribute("aria-expanded", String(wanted));
  panel.hidden = !wanted;
  if (wanted) fill(panel, item);
  else panel.replaceChildren();
  if (state.op !== item.o.name) state.case = "";
  if (wanted) state.op = item.o.name;
  else if (state.op === item.o.name) state.op = state.case = "";
  writeAddress();
};
const open = (o, scroll) => {
  const left = filtered(), item = left.find((each) => each.o === o);
  if (!item) return; // the filters leave it out
  const find = () => document.querySelector(`.row[data-op="${o.id}"]`);
  if (!find()) {
    shownRows = Infinity;
    drawList(left);
  }
  const row = find(), fold = row.closest("details");
  if (fold) fold.open = true;
  const button = row.querySelector("button");
  toggle(item, button, row.querySelector(".panel"), true);
  const linked = state.case && row.querySelector(`.case[data-case="${CSS.escape(state.case)}"]`);
  if (linked) {
    linked.classList.add("linked");
    linked.scrollIntoView({ block: "start" });
  } else if (scroll) {
    row.scrollIntoView({ block: "start" });
    button.focus({ preventScroll: true });
  }
};
