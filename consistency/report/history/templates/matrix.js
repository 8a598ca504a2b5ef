// The matrix: operators by environments, and what the query leaves of it. The query and what is open stand in the address.

const D = JSON.parse($("data").textContent);
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const STATE = { failed: "fail", warned: "warn", passed: "pass", "not tested": "untested" };
const RANK = Object.fromEntries(D.ranks.map((name, i) => [name, i]));
const FIRST = 60, BUDGET = 20, NEWS = { new: "new", error_grew: "↗", untested: "lost", fixed: "fixed", error_shrank: "↘", tested: "back", transient: "not certain" };
const GOOD = ["fixed", "error_shrank", "tested"];

const operators = D.operators.map(([name, family, file, kinds, cells, past], id) => {
  const counts = kinds.map(() => ({}));
  const entries = cells.map(([kind, env, verdict, rho, cases, of, caseId, rest = {}]) => {
    const where = D.environments[env], [word, rank] = D.verdicts[verdict], state = STATE[rank];
    counts[kind][state] = (counts[kind][state] || 0) + 1;
    return {
      operator: name, family, dtype: kinds[kind][0], direction: kinds[kind][1], env, environment: where.name, label: where.label,
      backend: where.backend, verdict: word, rank: RANK[rank], state, rho, cases, of, caseId, kind: rest.kind || "", since: rest.since || "",
      because: D.texts[rest.because || 0], cause: D.texts[rest.cause || 0], agreement: D.texts[rest.agreement || 0], workaround: D.texts[rest.workaround || 0],
      sentence: D.texts[rest.sentence || 0], age: D.texts[rest.age || 0], expectation: D.texts[rest.expectation || 0], flaky: rest.flaky ?? null,
      night: rest.night || where.night, path: rest.path ? D.texts[rest.path] : where.path, files: rest.files || [], late: Boolean(rest.night),
      identity: where.identity, counts: counts[kind],
    };
  });
  return { id, name, family, file, entries, past };
});
const words = [...new Set(D.verdicts.map(([name]) => name))].sort();

const color = (e) => {
  if (e.state === "untested") return "none";
  if (e.state === "warn") return "hw";
  if (e.state === "fail") return e.rho === null || e.rho > 1e3 ? "h6" : e.rho > 10 ? "h5" : "h4";
  return !e.rho || e.rho < 0.03 ? "h0" : e.rho < 0.15 ? "h1" : e.rho < 0.5 ? "h2" : "h3";
};
const LEGEND = [["h0", "below 0.03"], ["h1", "0.15"], ["h2", "0.5"], ["h3", "1 × budget"], ["hw", "known or ill-conditioned"],
  ["h4", "fails"], ["h5", "above 10"], ["h6", "above 1,000, or no number"], ["none", "not tested"]];
const inShort = (e) => {
  if (e.state === "untested") return "–";
  if (e.rho === null) return e.state === "pass" ? "exact" : e.verdict;
  return e.rho === 0 ? "exact" : e.rho >= 1e6 ? "> 10⁶" : size(e.rho);
};
const inWords = (e) => {
  const number = e.rho === null || e.state === "untested" ? "" : `${size(e.rho)} × budget, `;
  const began = e.since ? `, since ${e.since}` : "";
  return `${e.operator} on ${e.environment}: ${number}${e.verdict} (${e.dtype} ${e.direction})${began}${e.kind ? `, ${e.kind}` : ""}`;
};
const weigh = (e) => e.rank * 1e12 + (e.rho === null ? (e.state === "fail" ? 1e11 : 0) : Math.min(e.rho, 1e10));
const worst = (list) => list.reduce((a, b) => weigh(b) > weigh(a) ? b : a);

let state = { q: "", op: "", env: "", a: "", b: "" }, shown = FIRST, rowsNow = [];
const readAddress = () => {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(state)) state[key] = said.get(key) || "";
};
const writeAddress = () => {
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(state).filter(([, value]) => value))}`);
};

const understood = () => {
  const field = $("q");
  try {
    const tests = parseQuery(state.q, D.names, words);
    $("wrong").textContent = "";
    field.removeAttribute("aria-invalid");
    return tests;
  } catch (error) {
    if (!(error instanceof Misunderstood)) throw error;
    $("wrong").textContent = error.message;
    field.setAttribute("aria-invalid", "true");
    return null;
  }
};
const filtered = (tests) => {
  const left = [];
  for (const o of operators) {
    const kept = tests.length ? o.entries.filter((e) => tests.every((test) => test(e))) : o.entries;
    if (!kept.length) continue;
    const cells = new Map();
    for (const e of kept) {
      if (!cells.has(e.env)) cells.set(e.env, []);
      cells.get(e.env).push(e);
    }
    left.push({ o, kept, cells });
  }
  return left;
};

// The worst × budget of an operator on an environment in a night; null where nothing ran, Infinity beyond the scale.
const valueOf = (c) => !c || c === "." ? null : 2 ** ((DIGITS.indexOf(c) - BUDGET) / 2);
const at = (o, env, night) => {
  const part = D.environments[env].parts.findIndex(([first, last]) => first <= night && night <= last);
  return part < 0 ? null : valueOf(o.past[env][part]);
};
const nightly = (v) => v === null ? "–" : v <= 2 ** -9 ? "exact" : `${v > 1 ? "≤ " : ""}${size(v)}`;
const comparing = () => state.a && state.b;
// Two nights differ where one of them fails or ran nothing, or by a factor of 4 and more.
const differs = (o, env) => {
  const [a, b] = [at(o, env, state.a), at(o, env, state.b)];
  if (a === null || b === null) return a !== b;
  return a > 1 !== b > 1 || Math.abs(Math.log2(a / b)) >= 2 && Math.max(a, b) > 2 ** -9;
};
const past = (text, fails) => {
  const svg = draw("svg", { viewBox: "0 0 84 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(draw("line", { x1: 0, x2: 84, y1: 4.5, y2: 4.5 }));
  const step = 84 / Math.max(text.length, 1);
  const y = (n) => (n > BUDGET ? 4.5 - Math.min((n - BUDGET) / 20, 1) * 4 : 5 + (BUDGET - n) * 0.42).toFixed(1);
  const paths = { under: "", over: "" };
  let before = "";
  [...text].forEach((c, i) => {
    if (c === ".") { before = ""; return; }
    const n = DIGITS.indexOf(c), name = n > BUDGET ? "over" : "under", x = (i * step).toFixed(1);
    paths[name] += before === name ? `V${y(n)}` : `M${x} ${y(n)}`;
    paths[name] += `H${((i + 1) * step).toFixed(1)}`;
    before = name;
  });
  for (const [name, d] of Object.entries(paths)) if (d) svg.append(draw("path", { class: name, d }));
  return svg;
};

const squareOf = (row, env) => {
  const entries = row.cells.get(env), where = D.environments[env];
  const node = make("button", { type: "button", class: "square", tabindex: "-1", "aria-pressed": "false" });
  node.dataset.env = env;
  node.append(make("span", { class: "label" }, where.name));
  if (!entries) {
    node.classList.add("away");
    node.setAttribute("aria-label", `${row.o.name} on ${where.name}: nothing`);
    node.append(make("span", {}, "·"));
    return node;
  }
  if (comparing()) {
    const [a, b] = [at(row.o, env, state.a), at(row.o, env, state.b)];
    const told = `${nightly(a)} → ${nightly(b)}`;
    node.classList.add(differs(row.o, env) ? "changed" : "ok", ...(b > 1 ? ["bad"] : []));
    node.setAttribute("aria-label", `${row.o.name} on ${where.name}: ${told} × budget`);
    node.append(make("span", { class: "size" }, told), past(row.o.past[env]));
    return node;
  }
  const e = worst(entries), news = entries.filter((each) => NEWS[each.kind]);
  node.setAttribute("aria-label", inWords(e));
  if (e.state === "fail") node.classList.add("bad");
  if (e.state === "pass" && !news.length || e.state === "untested") node.classList.add("ok");
  const told = make("span", { class: "size" }, make("i", { class: `swatch ${color(e)}` }), inShort(e));
  if (news.length) told.append(make("span", { class: `news ${GOOD.includes(news[0].kind) ? "good" : ""}` }, NEWS[news[0].kind]));
  else if (e.flaky !== null) told.append(make("span", { class: "news" }, "flaky"));
  node.append(told, row.o.past[env].length > 1 ? past(row.o.past[env]) : make("span"));
  return node;
};
const rowOf = (row) => {
  const o = row.o, line = make("div", { class: "line" });
  const title = make("button", { type: "button", class: "title", "aria-expanded": "false", "aria-controls": `op-${o.id}` }, o.name,
      make("small", {}, o.family));
  const squares = D.environments.map((_, env) => squareOf(row, env));
  line.append(title, ...squares);
  const passing = squares.filter((s) => s.classList.contains("ok")).length;
  if (passing) line.append(make("span", { class: "passing" }, `${count(passing, "environment")} more: passed, or not tested`));
  line.style.setProperty("--columns", D.environments.length);
  const detail = make("div", { class: "detail", id: `op-${o.id}`, hidden: "" });
  const one = make("div", { class: "one" }, line, detail);
  one.dataset.op = o.id;
  return one;
};
const commandOf = (e) => `consistency repro ${e.path} --id ${e.caseId} --backend ${D.environments[e.env].spec} --direction ${e.direction}`;
const caseOf = (e) => {
  const box = make("div", { class: "case" });
  const many = e.state === "untested" ? "" : ` · ${e.cases} of ${count(e.of, "case")}`;
  const number = e.rho === null || e.state === "untested" ? "" : `, ${e.rho === 0 ? "exact" : size(e.rho) + " × budget"}`;
  box.append(make("p", {}, make("b", {}, `${e.dtype} ${e.direction} · ${e.environment} · ${e.verdict}`), `${number}${many}`));
  if (e.sentence) box.append(make("p", {}, e.sentence));
  const list = make("dl"), add = (name, text) => { if (text) list.append(make("dt", {}, name), make("dd", {}, text)); };
  add("since", e.since && (e.because ? `${e.since}: ${e.because}` : `${e.since}, the first night there is`));
  add("how long", e.age);
  if (e.state === "fail") {
    const others = operators.find((o) => o.name === e.operator).entries.filter((x) => x !== e && x.state === "fail" &&
      x.dtype === e.dtype && x.direction === e.direction);
    add("also failing on", others.map((x) => x.environment + (x.because ? ` since ${x.since}` : "")).join(", "));
  }
  add("flaky", e.flaky !== null && `fails on ${Math.round(e.flaky * 100)}% of the nights`);
  add("cause", e.agreement ? `${e.cause} (${e.agreement})` : e.cause);
  add("work-around", e.workaround);
  add("expected", e.expectation);
  add("last seen", e.late && e.night);
  if (list.childNodes.length) box.append(list);
  const copy = make("button", { type: "button", class: "copy" }, "Copy");
  box.append(make("div", { class: "told-again" }, make("pre", { tabindex: "0", "aria-label": "The command that repeats it" }, commandOf(e)), copy));
  if (e.files.length) {
    const links = make("p", { class: "small" });
    for (const file of e.files) links.append(make("a", { href: file.split("/").map(encodeURIComponent).join("/") }, file.split("/").pop()), " ");
    box.append(links);
  }
  return box;
};
const MOST = 8;
const open = (row, env, scroll) => {
  const node = document.querySelector(`.one[data-op="${row.o.id}"]`);
  if (!node) return;
  const detail = node.querySelector(".detail");
  const chosen = (env === null ? row.kept.filter((e) => e.state === "fail" || NEWS[e.kind]) : row.cells.get(env) || []).sort((a, b) => weigh(b) - weigh(a));
  const list = chosen.length ? chosen : [...row.kept].sort((a, b) => weigh(b) - weigh(a)).slice(0, 1);
  const all = make("p", {}, make("a", { href: row.o.file }, `All nights of ${row.o.name}`));
  detail.replaceChildren(all, ...list.slice(0, MOST).map(caseOf));
  if (list.length > MOST) detail.append(make("p", { class: "quiet" }, `and ${list.length - MOST} more, on the operator's page`));
  detail.hidden = false;
  node.querySelector(".title").setAttribute("aria-expanded", "true");
  for (const square of node.querySelectorAll(".square")) square.setAttribute("aria-pressed", String(Number(square.dataset.env) === env));
  if (scroll) node.scrollIntoView({ block: "start" });
};
const close = (node) => {
  node.querySelector(".detail").hidden = true;
  node.querySelector(".detail").replaceChildren();
  node.querySelector(".title").setAttribute("aria-expanded", "false");
  for (const square of node.querySelectorAll(".square")) square.setAttribute("aria-pressed", "false");
};
const drawGrid = () => {
  const heads = make("div", { class: "heads" }, make("span"), ...D.environments.map((e) => make("span", {}, e.label, make("small", {}, e.backend), make("small", {}, e.known))));
  heads.style.setProperty("--columns", D.environments.length);
  $("grid").replaceChildren(...(rowsNow.length ? [heads] : []), ...rowsNow.slice(0, shown).map(rowOf));
  const first = $("grid").querySelector(".square");
  if (first) first.tabIndex = 0;
  if (rowsNow.length > shown) {
    const more = make("button", { type: "button" }, `Show all ${count(rowsNow.length, "operator")}`);
    more.addEventListener("click", () => {
      const at = shown;
      shown = Infinity;
      drawGrid();
      document.querySelectorAll(".title")[at]?.focus();
    });
    $("grid").append(make("p", { class: "more" }, more));
  }
  if (D.left_out) $("grid").append(make("p", { class: "quiet" }, `${count(D.left_out, "operator")} more have a page of their own, and no room here.`));
  const opened = rowsNow.find((row) => row.o.name === state.op);
  if (opened) open(opened, state.env === "" ? null : D.environments.findIndex((e) => e.name === state.env), false);
};
const update = () => {
  const tests = understood();
  if (!tests) return;
  rowsNow = filtered(tests);
  if (comparing()) rowsNow = rowsNow.filter((row) => [...row.cells.keys()].some((env) => differs(row.o, env)));
  const results = rowsNow.reduce((sum, row) => sum + row.kept.length, 0);
  const changed = comparing() ? ` with changes from ${state.a} to ${state.b}: the worst × budget of each night` : "";
  $("count").textContent = rowsNow.length ? `${count(rowsNow.length, "operator")}${changed || `, ${count(results, "cell")}`}` :
    comparing() ? `No operator has changed from ${state.a} to ${state.b}.` : "Nothing matches.";
  drawGrid();
};

$("grid").addEventListener("click", (e) => {
  const node = e.target.closest(".one"), square = e.target.closest(".square"), title = e.target.closest(".title");
  if (!node || (!square && !title)) return;
  const row = rowsNow.find((each) => String(each.o.id) === node.dataset.op), env = square ? Number(square.dataset.env) : null;
  const name = env === null ? "" : D.environments[env].name;
  const isOpen = !node.querySelector(".detail").hidden && state.op === row.o.name && state.env === name;
  for (const other of document.querySelectorAll(".one")) if (!other.querySelector(".detail").hidden) close(other);
  state.op = isOpen ? "" : row.o.name;
  state.env = isOpen ? "" : name;
  if (!isOpen) open(row, env, false);
  writeAddress();
});
$("grid").addEventListener("keydown", (e) => {
  const square = e.target.closest(".square");
  if (!square || !e.key.startsWith("Arrow") && e.key !== "Home" && e.key !== "End") return;
  const here = Number(square.dataset.env), line = square.closest(".one"), last = D.environments.length - 1;
  const across = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: last }[e.key];
  const other = e.key === "ArrowDown" ? line.nextElementSibling : e.key === "ArrowUp" ? line.previousElementSibling : line;
  const next = other?.querySelectorAll(".square")[across ?? here];
  if (!next) return;
  e.preventDefault();
  square.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
const form = $("ask"), field = $("q");
field.addEventListener("input", () => { state.q = field.value; shown = FIRST; writeAddress(); update(); });
form.addEventListener("submit", (e) => e.preventDefault());
form.addEventListener("reset", (e) => {
  e.preventDefault();
  state = { q: "", op: "", env: "", a: "", b: "" };
  field.value = "";
  showNights();
  writeAddress();
  update();
});
$("examples").addEventListener("click", (e) => {
  if (!e.target.matches("button")) return;
  state.q = field.value = e.target.textContent;
  shown = FIRST;
  writeAddress();
  update();
});
const nights = $("nights"), dates = [...new Set(D.environments.flatMap((e) => e.parts.flat()))].sort();
const showNights = () => { for (const key of ["a", "b"]) nights.elements[key].value = state[key]; };
for (const key of ["a", "b"]) nights.elements[key].append(make("option", { value: "" }, "–"),
  ...[...dates].reverse().map((date) => make("option", { value: date }, date)));
nights.hidden = dates.length < 2;
nights.addEventListener("input", () => {
  for (const key of ["a", "b"]) state[key] = nights.elements[key].value;
  writeAddress();
  update();
});
nights.addEventListener("submit", (e) => e.preventDefault());
$("grid").addEventListener("pointermove", (e) => {
  const line = e.target.closest(".square")?.querySelector("svg"), node = e.target.closest(".one");
  if (!line || !node) return;
  const env = Number(line.closest(".square").dataset.env), o = operators[node.dataset.op];
  const box = line.getBoundingClientRect(), parts = D.environments[env].parts;
  const i = Math.min(Math.max(Math.floor((e.clientX - box.left) / box.width * parts.length), 0), parts.length - 1);
  const [first, last] = parts[i], v = valueOf(o.past[env][i]);
  const told = v === null ? "nothing was tested" : v > 1 ? `fails, up to ${size(v)} × budget` : `${nightly(v)} × budget`;
  $("told").textContent = `${o.name} on ${D.environments[env].name}, ${first === last ? first : `${first} to ${last}`}: ${told}`;
});
addEventListener("hashchange", () => { readAddress(); field.value = state.q; showNights(); update(); });
$("legend").append(...LEGEND.map(([name, text]) => make("span", {}, make("i", { class: `swatch ${name}` }), text)));
readAddress();
for (const key of ["a", "b"]) if (!dates.includes(state[key])) state[key] = "";
field.value = state.q;
showNights();
update();
