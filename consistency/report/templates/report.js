"use strict";
(() => {
  // What came from the bundle enters the page through textContent and setAttribute only.
  const D = JSON.parse(document.getElementById("data").textContent);
  const RANK = Object.fromEntries(D.ranks.map((name, i) => [name, i]));
  const FAILED = RANK["failed"], WARNED = RANK["warned"];
  const DIRECTIONS = ["forward", "backward"];
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const VALUE = new Map([...DIGITS].map((c, i) => [c, i]));
  const PER_OCTAVE = 64, LOWEST = -12, FIRST = 60;
  const SVG = "http://www.w3.org/2000/svg";

  const kindName = (kind) => `${D.dtypes[kind >> 1]} ${DIRECTIONS[kind & 1]}`;
  const operators = D.operators.map(([name, family, byTerms, groups, budgets], id) => ({
    id, name, family, byTerms, budgets, lower: name.toLowerCase(),
    groups: groups.map(([kind, backend, rho, counts, histogram, points]) => ({ kind, backend, rho, counts, histogram, points })),
  }));
  const byName = new Map(operators.map((o) => [o.name, o]));
  const casesOf = new Map();
  for (const row of D.cases) {
    const [operator, kind, backend, verdict, rho, sentence, told, recipe, command, workaround, cause, alike, files] = row;
    if (!casesOf.has(operator)) casesOf.set(operator, []);
    casesOf.get(operator).push({ kind, backend, verdict, rho, sentence, told, recipe, command, workaround, cause, alike, files });
  }
  const scalingOf = new Map();
  for (const [operator, backend, ratio, pairs, problem] of D.scaling) {
    if (!scalingOf.has(operator)) scalingOf.set(operator, []);
    scalingOf.get(operator).push({ backend, ratio, pairs, problem });
  }

  // --- small helpers -------------------------------------------------------------------------------------------------
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
  const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
  const size = (rho) => rho >= 1e6 ? "over 1,000,000" : rho >= 10 ? Math.round(rho).toLocaleString("en") : String(Number(rho.toPrecision(2)));
  const rankOf = (verdict) => RANK[D.verdicts[verdict][1]];

  // --- state: in the address, so that a view can be sent ---------------------------------------------------------------
  const KEYS = ["q", "family", "dtype", "verdict", "backend"];
  const form = $("filters");
  let state = {};

  const readAddress = () => {
    const said = new URLSearchParams(location.hash.slice(1));
    state = { op: said.get("op") || "" };
    for (const key of KEYS) state[key] = said.get(key) || "";
    for (const key of KEYS.slice(1)) if (![...form.elements[key].options].some((o) => o.value === state[key])) state[key] = "";
  };
  const writeAddress = () => {
    const said = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
    history.replaceState(null, "", `#${said}`);
  };

  const option = (value, text = value) => make("option", { value }, text);
  const fillFilters = () => {
    const found = { family: new Set(), backend: new Set(D.backends), dtype: new Set(D.dtypes), verdict: new Set() };
    for (const o of operators) {
      found.family.add(o.family);
      for (const g of o.groups) for (let i = 0; i < g.counts.length; i += 2) found.verdict.add(D.verdicts[g.counts[i]][0]);
    }
    for (const key of KEYS.slice(1)) form.elements[key].append(option("", "all"));
    form.elements.family.append(...[...found.family].sort().map((v) => option(v)));
    form.elements.dtype.append(...[...found.dtype].map((v) => option(v)));
    form.elements.backend.append(...[...found.backend].map((v) => option(v)));
    const groups = [...D.ranks].reverse().map((v) => option(v, `any ${v}`));
    form.elements.verdict.append(...groups, ...[...found.verdict].map((v) => option(v)));
  };

  // --- what is left after filtering ------------------------------------------------------------------------------------
  const admits = (verdict) => !state.verdict || D.verdicts[verdict][0] === state.verdict || D.verdicts[verdict][1] === state.verdict;

  const filtered = () => {
    const text = state.q.trim().toLowerCase();
    const dtype = state.dtype ? D.dtypes.indexOf(state.dtype) : -1, backend = state.backend ? D.backends.indexOf(state.backend) : -1;
    const left = [];
    for (const o of operators) {
      if ((text && !o.lower.includes(text)) || (state.family && o.family !== state.family)) continue;
      const cells = new Map();
      let results = 0;
      for (const g of o.groups) {
        if ((dtype >= 0 && g.kind >> 1 !== dtype) || (backend >= 0 && g.backend !== backend)) continue;
        let rank = -1, verdict = -1, many = 0;
        for (let i = 0; i < g.counts.length; i += 2) {
          if (!admits(g.counts[i])) continue;
          many += g.counts[i + 1];
          if (rankOf(g.counts[i]) > rank) [rank, verdict] = [rankOf(g.counts[i]), g.counts[i]];
        }
        if (!many) continue;
        results += many;
        const worst = g.counts.reduce((r, v, i) => i % 2 ? r : Math.max(r, rankOf(v)), -1);
        const rho = worst === rank ? g.rho : null; // a group's × budget is that of its worst rank
        const cell = cells.get(g.backend) || { rank: -1, rho: null, verdict: -1, many: 0, kind: g.kind };
        cell.many += many;
        if (rank > cell.rank || (rank === cell.rank && weight(rank, rho) > weight(rank, cell.rho))) Object.assign(cell, { rank, rho, verdict, kind: g.kind });
        cells.set(g.backend, cell);
      }
      if (!results) continue;
      let rank = -1, rho = 0;
      for (const c of cells.values()) if (c.rank > rank || (c.rank === rank && weight(c.rank, c.rho) > rho)) [rank, rho] = [c.rank, weight(c.rank, c.rho)];
      left.push({ o, cells, results, rank, rho });
    }
    return left.sort((a, b) => b.rank - a.rank || b.rho - a.rho || a.o.id - b.o.id);
  };
  const weight = (rank, rho) => rho === null ? (rank === FAILED ? Infinity : 0) : rho;

  // --- the map ---------------------------------------------------------------------------------------------------------
  const colour = (cell) => {
    if (cell.rank < 1) return "none";
    if (cell.rank === WARNED) return "hw";
    if (cell.rank === FAILED) return cell.rho === null ? "h6" : cell.rho > 1e3 ? "h6" : cell.rho > 10 ? "h5" : "h4";
    const rho = cell.rho || 0;
    return rho < 0.03 ? "h0" : rho < 0.15 ? "h1" : rho < 0.5 ? "h2" : "h3";
  };
  const LEGEND = [["h0", "below 0.03"], ["h1", "0.15"], ["h2", "0.5"], ["h3", "1 × budget"], ["hw", "known or ill-conditioned"],
    ["h4", "fails"], ["h5", "above 10"], ["h6", "above 1,000, or no number"], ["none", "not tested"]];
  const drawLegend = () => $("legend").append(...LEGEND.map(([name, words]) => make("span", {}, make("i", { class: `swatch ${name}` }), words)));

  const inWords = (cell) => {
    const verdict = D.verdicts[cell.verdict][0];
    if (cell.rank < 1) return `${verdict}: not tested`;
    const number = cell.rho === null ? "" : `${size(cell.rho)} × budget, `;
    return `${number}${verdict} (${kindName(cell.kind)}), ${count(cell.many, "result")}`;
  };

  const drawMap = (left) => {
    const shown = state.backend ? [D.backends.indexOf(state.backend)] : D.backends.map((_, i) => i);
    const families = new Map();
    for (const item of [...left].sort((a, b) => a.o.family < b.o.family ? -1 : a.o.family > b.o.family ? 1 : b.rank - a.rank || b.rho - a.rho)) {
      if (!families.has(item.o.family)) families.set(item.o.family, []);
      families.get(item.o.family).push(item);
    }
    const map = make("div", { class: "map" });
    map.style.setProperty("--columns", shown.length);
    map.append(make("span"), ...shown.map((b) => make("span", { class: "head" }, D.backends[b])));
    for (const [family, items] of families) {
      map.append(make("span", { class: "name" }, family));
      for (const b of shown) {
        const cells = make("div", { class: "cells" });
        for (const item of items) {
          const cell = item.cells.get(b);
          if (!cell) continue;
          const text = `${item.o.name} on ${D.backends[b]}: ${inWords(cell)}`;
          const square = make("button", { type: "button", class: `cell ${colour(cell)}`, tabindex: "-1", "aria-label": text });
          square.dataset.op = item.o.id;
          cells.append(square);
        }
        map.append(cells);
      }
    }
    $("heat").replaceChildren(map);
    const first = map.querySelector(".cell");
    if (first) first.tabIndex = 0;
  };

  const heat = $("heat");
  const tell = (square) => { $("told").textContent = square.getAttribute("aria-label"); };
  heat.addEventListener("pointerover", (e) => { if (e.target.matches(".cell")) tell(e.target); });
  heat.addEventListener("focusin", (e) => { if (e.target.matches(".cell")) tell(e.target); });
  heat.addEventListener("click", (e) => { if (e.target.matches(".cell")) open(operators[e.target.dataset.op], true); });
  heat.addEventListener("keydown", (e) => {
    if (!e.target.matches(".cell")) return;
    const next = neighbour(e.target, e.key);
    if (!next) return;
    e.preventDefault();
    e.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  const neighbour = (square, key) => {
    const all = [...heat.querySelectorAll(".cell")], at = all.indexOf(square);
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

  // --- the list --------------------------------------------------------------------------------------------------------
  let shownRows = FIRST;
  const drawList = (left) => {
    const rows = left.slice(0, shownRows).map(rowOf);
    $("operators").replaceChildren(...rows);
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
    if (D.left_out) $("operators").append(make("p", { class: "quiet" }, `${count(D.left_out, "operator")} more are in the bundle, and not in this page.`));
  };
  const rowOf = (item) => {
    const values = make("span", { class: "values" });
    for (const [b, cell] of [...item.cells].sort((a, c) => a[0] - c[0])) {
      const number = cell.rank < 1 ? "–" : cell.rho === null ? D.verdicts[cell.verdict][0] : cell.rho === 0 ? "exact" : `${size(cell.rho)} ×`;
      values.append(make("span", {}, make("i", { class: `swatch ${colour(cell)}` }), make("span", { class: cell.rank === FAILED ? "bad" : "" }, number),
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
    if (wanted) state.op = item.o.name;
    else if (state.op === item.o.name) state.op = "";
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
    const row = find(), button = row.querySelector("button");
    toggle(item, button, row.querySelector(".panel"), true);
    if (scroll) {
      row.scrollIntoView({ block: "start" });
      button.focus({ preventScroll: true });
    }
  };

  // --- an operator -------------------------------------------------------------------------------------------------------
  const fill = (panel, item) => {
    const groups = item.o.groups.filter((g) => item.cells.has(g.backend) && (!state.dtype || D.dtypes[g.kind >> 1] === state.dtype));
    const backends = [...new Set(groups.map((g) => g.backend))].sort((a, b) => a - b);
    const series = make("ul", { class: "series", "aria-hidden": "true" }, ...backends.map((b) => make("li", {}, make("i", { class: `dot s${b % 8}` }), D.backends[b])));
    const cases = (casesOf.get(item.o.id) || []).filter((c) => backends.includes(c.backend) && admits(c.verdict) && (!state.dtype || D.dtypes[c.kind >> 1] === state.dtype));
    const pictures = make("div", { class: "pictures" });
    panel.replaceChildren(series, pictures);
    const errors = make("div", {}, make("h4", {}, item.o.byTerms ? "Error in ulp against n, the numbers accumulated" : "Error in ulp against size"));
    const spread = make("div", {}, make("h4", {}, "Cases by their largest error, in ulp"));
    pictures.append(errors, spread);
    drawErrors(errors, item.o, groups);
    drawHistograms(spread, groups, backends);
    const scalings = (scalingOf.get(item.o.id) || []).filter((s) => backends.includes(s.backend));
    if (scalings.length) {
      const box = make("div", {}, make("h4", {}, "float32 error ÷ float64 error"));
      panel.append(box);
      drawScaling(box, scalings);
    }
    if (cases.length) panel.append(make("h4", {}, cases.some((c) => c.alike) ? "Worst cases" : "Largest error"), ...cases.map(caseOf));
    panel.append(make("h4", {}, "By dtype and direction"), tableOf(groups, backends));
  };

  const tableOf = (groups, backends) => {
    const kinds = [...new Set(groups.map((g) => g.kind))].sort((a, b) => a - b);
    const head = make("tr", {}, make("th", { scope: "col" }), ...backends.map((b) => make("th", { scope: "col" }, D.backends[b])));
    const body = kinds.map((kind) => make("tr", {}, make("th", { scope: "row" }, kindName(kind)), ...backends.map((b) => {
      const g = groups.find((each) => each.kind === kind && each.backend === b);
      if (!g) return make("td", {}, "");
      const parts = [], worst = g.counts.reduce((r, v, i) => i % 2 ? r : Math.max(r, rankOf(v)), 0);
      for (let i = 0; i < g.counts.length; i += 2) parts.push(`${g.counts[i + 1]} ${D.verdicts[g.counts[i]][0]}`);
      const number = worst && g.rho !== null && g.rho !== 0 ? `${size(g.rho)} × ` : "";
      const counts = parts.flatMap((part, i) => [make("span", { class: "of" }, i < parts.length - 1 ? `${part},` : part), " "]);
      return make("td", { class: worst === FAILED ? "bad" : "" }, number, ...counts);
    })));
    return make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Results by dtype and direction" },
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  };

  const decode = (text) => {
    const points = [];
    for (let i = 0; i + 3 < text.length; i += 4) {
      const [a, b, c, d] = [0, 1, 2, 3].map((j) => VALUE.get(text[i + j]));
      points.push([((a & 31) << 6 | b) / PER_OCTAVE, c << 6 | d, a >> 5]); // the highest bit tells what fails
    }
    return points;
  };
  const power = (octaves) => {
    const value = 2 ** octaves;
    return value >= 0.999e6 ? `10${superscript(Math.round(Math.log10(value)))}` : value >= 1 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(1)));
  };
  const superscript = (n) => [...String(n)].map((c) => c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
  const TENS = Math.log2(10);

  const drawErrors = (box, o, groups) => {
    const points = groups.flatMap((g) => decode(g.points).map(([x, y, fails]) => ({ x, y: y ? y / PER_OCTAVE + LOWEST : null, b: g.backend, fails })));
    if (!points.length) {
      box.append(make("p", { class: "quiet" }, "Nothing was measured."));
      return;
    }
    const budgets = [...new Set(groups.map((g) => g.kind))].flatMap((kind) => decode(o.budgets[kind] || "")).map(([x, y]) => [x, y / PER_OCTAVE + LOWEST]);
    const width = Math.max(box.clientWidth, 240), height = 250, left = 46, right = 40, top = 10, bottom = 34;
    const ys = [...points.filter((p) => p.y !== null).map((p) => p.y), ...budgets.map((b) => b[1])];
    const lowest = Math.floor(Math.max(Math.min(-1, ...ys), -7) / TENS) * TENS, highest = Math.max(Math.ceil(Math.max(TENS, ...ys) / TENS), 1) * TENS;
    const most = Math.max(TENS, Math.ceil(Math.max(...points.map((p) => p.x)) / TENS) * TENS);
    const lane = 22, floor = height - bottom - lane;
    const X = (x) => left + (width - left - right) * x / most;
    const Y = (y) => y === null || y < lowest ? floor + lane - 5 : floor - (floor - top) * (y - lowest) / (highest - lowest);
    const svg = draw("svg", { width, height, role: "img", "aria-label": `${o.name}: largest error of ${points.length} cases, in ulp, against ${o.byTerms ? "n" : "the number of elements"}, with the budget and lines for √n and n` });
    const everyX = Math.ceil(most / TENS / Math.max((width - left) / 60, 1)), everyY = Math.ceil((highest - lowest) / TENS / 7);
    for (let d = 0; d * TENS <= most + 1e-6; d += everyX) {
      svg.append(draw("line", { class: "grid", x1: X(d * TENS), x2: X(d * TENS), y1: top, y2: floor + lane }));
      svg.append(draw("text", { x: X(d * TENS), y: floor + lane + 15, "text-anchor": "middle" }, power(d * TENS)));
    }
    for (let y = lowest, i = 0; y <= highest + 1e-6; y += TENS, i++) {
      if (i % everyY) continue;
      svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: Y(y), y2: Y(y) }));
      svg.append(draw("text", { x: left - 7, y: Y(y) + 4, "text-anchor": "end" }, power(y)));
    }
    svg.append(draw("text", { x: left - 7, y: floor + lane - 1, "text-anchor": "end" }, "exact"));
    svg.append(draw("text", { x: width - right, y: height - 3, "text-anchor": "end" }, o.byTerms ? "n" : "elements"));
    // Half an ulp per rounding: √n if they are independent, n if they all add up.
    for (const [slope, name] of [[0.5, "½√n"], [1, "½n"]]) {
      const end = Math.min(most, (highest + 1) / slope);
      svg.append(draw("line", { class: "guide", x1: X(0), y1: Y(-1), x2: X(end), y2: Y(slope * end - 1) }));
      svg.append(draw("text", { x: Math.min(X(end) + 4, width - right + 4), y: Math.max(Y(slope * end - 1) + 4, top + 2) }, name));
    }
    for (const p of points) {
      const x = X(p.x).toFixed(1), y = Y(p.y === null ? null : Math.min(p.y, highest)).toFixed(1);
      svg.append(p.fails ? draw("path", { class: `cross t${p.b % 8}`, d: `M${x} ${y}m-3.5-3.5l7 7m0-7l-7 7` }) : draw("circle", { class: `s${p.b % 8}`, cx: x, cy: y, r: 2.4, "fill-opacity": 0.75 }));
    }
    const means = new Map();
    for (const [x, y] of budgets) {
      const [sum, n] = means.get(x) || [0, 0];
      means.set(x, [sum + y, n + 1]);
    }
    const line = [...means].sort((a, b) => a[0] - b[0]).map(([x, [sum, n]]) => [Math.min(x, most), sum / n]);
    if (line.length) {
      const path = line.map(([x, y]) => `${X(x).toFixed(1)},${Y(Math.min(y, highest)).toFixed(1)}`);
      if (path.length === 1) path.push(`${(X(line[0][0]) + 30).toFixed(1)},${path[0].split(",")[1]}`);
      const [endX, endY] = path[path.length - 1].split(",").map(Number);
      svg.append(draw("polyline", { class: "budget", points: path.join(" ") }));
      svg.append(draw("text", { class: "strong", x: Math.min(endX + 5, width - 42), y: endY - 6 }, "budget"));
    }
    const marks = points.some((p) => p.fails) ? "A cross fails. " : "";
    box.append(svg, make("p", { class: "quiet small" }, `${marks}Each case has a budget of its own, larger where sums cancel; the line is their mean.`));
  };

  const drawHistograms = (box, groups, backends) => {
    const bins = D.bins.length + 1, height = 92, bottom = 18, top = 14;
    const totals = new Map(backends.map((b) => [b, new Array(bins).fill(0)]));
    for (const g of groups) g.histogram.split(".").forEach((n, i) => { if (n) totals.get(g.backend)[i] += Number(n); });
    const rows = [...totals].filter(([, counts]) => counts.some((n) => n));
    if (!rows.length) {
      box.append(make("p", { class: "quiet" }, "Nothing was measured."));
      return;
    }
    const holder = make("div", { class: "histograms" });
    box.append(holder);
    const width = Math.min(Math.max((box.clientWidth - 22) / 2, 150), 240), each = (width - 4) / bins;
    const share = rows.map(([, counts]) => { const all = counts.reduce((a, n) => a + n, 0); return counts.map((n) => n / all); });
    const highest = Math.max(...share.flat());
    rows.forEach(([b, counts], at) => {
      const all = counts.reduce((a, n) => a + n, 0);
      const words = counts.map((n, i) => n ? `${n} ${i ? i < D.bins.length ? `up to ${D.bins[i]}` : "above" : "exact"}` : "").filter(Boolean).join(", ");
      const svg = draw("svg", { width, height, role: "img", "aria-label": `${D.backends[b]}: ${count(all, "case")} by their largest error in ulp: ${words}` });
      svg.append(draw("text", { class: "strong", x: 0, y: 9 }, D.backends[b].length > 26 ? D.backends[b].slice(0, 25) + "…" : D.backends[b]));
      share[at].forEach((part, i) => {
        const h = part ? Math.max((height - top - bottom) * part / highest, 1.5) : 0;
        if (h) svg.append(draw("rect", { class: `s${b % 8}`, x: (i * each + 1).toFixed(1), width: (each - 2).toFixed(1), y: (height - bottom - h).toFixed(1), height: h.toFixed(1) }));
      });
      svg.append(draw("line", { class: "axis", x1: 0, x2: width - 4, y1: height - bottom, y2: height - bottom }));
      for (const [i, label] of [[0, "0"], [1, "½"], [2, "1"], [5, "8"], [8, "64"], [bins - 1, "2¹⁶+"]]) {
        svg.append(draw("text", { x: (i + 0.5) * each, y: height - 5, "text-anchor": i === bins - 1 ? "end" : "middle" }, label));
      }
      holder.append(svg);
    });
  };

  const drawScaling = (box, scalings) => {
    const width = Math.min(Math.max(box.clientWidth, 240), 700), row = 18, top = 22, height = top + row * scalings.length + 20;
    const name = Math.min(Math.max(...scalings.map((s) => D.backends[s.backend].length)) * 7 + 10, 130), right = 14;
    const X = (octaves) => name + (width - name - right) * Math.min(Math.max(octaves, 0), 60) / 60;
    const said = scalings.map((s) => `${D.backends[s.backend]} 2^${Math.log2(s.ratio).toFixed(1)}`).join(", ");
    const svg = draw("svg", { width, height, role: "img", "aria-label": `float32 error divided by float64 error; rounding gives 2^29: ${said}` });
    svg.append(draw("rect", { class: "band", x: X(20), width: X(34) - X(20), y: top - 4, height: row * scalings.length + 8 }));
    svg.append(draw("line", { class: "budget", x1: X(29), x2: X(29), y1: top - 6, y2: height - 16 }));
    svg.append(draw("text", { class: "strong", x: X(29), y: 11, "text-anchor": "middle" }, "2²⁹: rounding"));
    for (const p of [0, 10, 20, 30, 40, 50, 60]) svg.append(draw("text", { x: X(p), y: height - 3, "text-anchor": p === 60 ? "end" : "middle" }, `2${superscript(p)}`));
    scalings.sort((a, b) => a.backend - b.backend).forEach((s, i) => {
      const y = top + row * i + row / 2, label = D.backends[s.backend];
      svg.append(draw("line", { class: "grid", x1: name, x2: width - right, y1: y, y2: y }));
      svg.append(draw("text", { x: 0, y: y + 4 }, label.length > 18 ? label.slice(0, 17) + "…" : label));
      svg.append(draw("circle", { class: `s${s.backend % 8}`, cx: X(Math.log2(s.ratio)), cy: y, r: 5 }));
    });
    box.append(svg, ...scalings.filter((s) => s.problem).map((s) => make("p", {}, `${D.backends[s.backend]}: ${s.problem}`)));
  };

  // --- a case ------------------------------------------------------------------------------------------------------------
  const quoted = (text) => D.windows ? `"${text.replaceAll('"', '\\"')}"` : `'${text.replaceAll("'", `'"'"'`)}'`;
  const commandOf = (c) => c.command.length > 1 ? c.command.join(quoted(c.recipe)) : c.command[0];
  const caseOf = (c) => {
    const box = make("div", { class: "case" });
    const verdict = D.verdicts[c.verdict][0];
    box.append(make("p", {}, make("b", {}, `${kindName(c.kind)} · ${D.backends[c.backend]} · ${verdict}`), c.alike > 1 ? ` ${count(c.alike, "case")} fail like this` : ""));
    box.append(make("p", {}, c.sentence));
    if (c.cause || c.workaround || c.files) {
      const list = make("dl");
      if (c.cause) list.append(make("dt", {}, "cause"), make("dd", {}, c.cause));
      if (c.workaround) list.append(make("dt", {}, "work-around"), make("dd", {}, c.workaround));
      if (c.files) list.append(make("dt", {}, "in the bundle"), make("dd", {}, c.files));
      box.append(list);
    }
    if (c.told) box.append(make("pre", {}, c.told));
    const command = commandOf(c), copy = make("button", { type: "button", class: "copy" }, "Copy");
    copy.addEventListener("click", () => copied(command, copy));
    box.append(make("div", { class: "told-again" }, make("pre", { tabindex: "0", "aria-label": "The command that repeats it" }, command), copy));
    if (c.recipe) box.append(make("details", {}, make("summary", {}, "Recipe"), make("pre", {}, c.recipe)));
    return box;
  };
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

  // --- together ------------------------------------------------------------------------------------------------------------
  const update = (fresh = true) => {
    for (const key of KEYS) if (form.elements[key].value !== state[key]) form.elements[key].value = state[key];
    for (const chip of document.querySelectorAll("#chips button")) chip.setAttribute("aria-pressed", String(chip.dataset.verdict === state.verdict));
    const left = filtered();
    if (fresh) shownRows = FIRST;
    const results = left.reduce((sum, item) => sum + item.results, 0);
    $("count").textContent = left.length ? `${count(left.length, "operator")}, ${count(results, "result")}` : "Nothing matches these filters.";
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
    for (const key of [...KEYS, "op"]) state[key] = "";
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
    const before = state.op;
    readAddress();
    update();
    if (state.op && state.op !== before && byName.has(state.op)) open(byName.get(state.op), true);
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
})();
