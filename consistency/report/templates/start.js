// Everything together.

const update = (fresh = true) => {
  for (const key of KEYS) if (form.elements[key].value !== state[key]) form.elements[key].value = state[key];
  for (const chip of document.querySelectorAll("#chips button")) chip.setAttribute("aria-pressed",
      String(chip.dataset.verdict === state.verdict));
  const left = filtered();
  if (fresh) shownRows = FIRST;
  const results = left.reduce((sum, item) => sum + item.results, 0);
  const told = `${count(left.length, "operator")}, ${count(results, "result")}`;
  $("count").textContent = left.length ? told : "Nothing matches these filters.";
  drawMap(left);
  drawList(left);
  if (state.op && byName.has(state.op)) open(byName.get(state.op), false);
};
const changed = () => {
  for (const key of KEYS) state[key] = form.elements[key].value;
  writeAddress();
  update();
};
form.addEventListener("input", changed);
form.addEventListener("submit", (e) => e.preventDefault());
form.addEventListener("reset", (e) => {
  e.preventDefault();
  for (const key of [...KEYS, "op", "case"]) state[key] = "";
  writeAddress();
  update();
});
$("chips").addEventListener("click", (e) => {
  const chip = e.target.closest("button");
  if (!chip) return;
  state.verdict = state.verdict === chip.dataset.verdict ? "" : chip.dataset.verdict;
  writeAddress();
  update();
});
addEventListener("hashchange", () => {
  const before = state.op + state.case;
  readAddress();
  update();
  if (state.op && state.op + state.case !== before && byName.has(state.op)) open(byName.get(state.op), true);
});
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  update(false);
});

fillFilters();
drawLegend();
readAddress();
update();
if (state.op && byName.has(state.op)) open(byName.get(state.op), true);
