// An operator: its table and its pictures.

const fill = (panel, item) => {
  const groups = item.o.groups.filter((g) => item.cells.has(g.backend) && (!state.dtype || D.dtypes[g.kind >> 1] === state.dtype));
  const backends = [...new Set(groups.map((g) => g.backend))].sort((a, b) => a - b);
  const series = make("ul", { class: "series", "aria-hidden": "true" }, ...backends.map((b) => make("li", {}, make("i",
      { class: `dot s${b % 8}` }), D.backends[b])));
  const wanted = (kind) => !state.dtype || D.dtypes[kind >> 1] === state.dtype;
  const cases = (casesOf.get(item.o.id) || []).filter((c) => backends.includes(c.backend) && admits(c.verdict) && wanted(c.kind));
  const pictures = make("div", { class: "pictures" });
  panel.replaceChildren(series, pictures);
  const errors = make("div", {}, make("h4", {},
      item.o.byTerms ? "Error in ulp against n, the numbers accumulated" : "Error in ulp against size"));
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
  if (cases.length) panel.append(make("h4", {}, cases.some((c) => c.alike) ? "Worst cases" : "Largest error"),
      ...cases.map(caseOf));
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
  if (value >= 0.999e6) return `10${superscript(Math.round(Math.log10(value)))}`;
  return value >= 1 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(1)));
};
const superscript = (n) => [...String(n)].map((c) => c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]).join("");
const TENS = Math.log2(10);

const drawErrors = (box, o, groups) => {
  const points = groups.flatMap((g) => decode(g.points).map(([x, y, fails]) => ({ x, y: y ? y / PER_OCTAVE + LOWEST : null,
      b: g.backend, fails })));
  if (!points.length) {
    box.append(make("p", { class: "quiet" }, "Nothing was measured."));
    return;
  }
  const budgets = [...new Set(groups.map((g) => g.kind))].flatMap((kind) => decode(o.budgets[kind] || "")).map(([x, y]) => [x,
      y / PER_OCTAVE + LOWEST]);
  const width = Math.max(box.clientWidth, 240), height = 250, left = 46, right = 40, top = 10, bottom = 34;
  const ys = [...points.filter((p) => p.y !== null).map((p) => p.y), ...budgets.map((b) => b[1])];
  const lowest = Math.floor(Math.max(Math.min(-1, ...ys), -7) / TENS) * TENS, highest = Math.max(Math.ceil(Math.max(TENS,
      ...ys) / TENS), 1) * TENS;
  const most = Math.max(TENS, Math.ceil(Math.max(...points.map((p) => p.x)) / TENS) * TENS);
  const lane = 22, floor = height - bottom - lane;
  const X = (x) => left + (width - left - right) * x / most;
  const Y = (y) => y === null || y < lowest ? floor + lane - 5 : floor - (floor - top) * (y - lowest) / (highest - lowest);
  const against = o.byTerms ? "n" : "the number of elements";
  const label = `${o.name}: largest error of ${points.length} cases, in ulp, against ${against}, with the budget and lines for √n and n`;
  const svg = draw("svg", { width, height, role: "img", "aria-label": label });
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
    svg.append(p.fails ? draw("path", { class: `cross t${p.b % 8}`, d: `M${x} ${y}m-3.5-3.5l7 7m0-7l-7 7` }) : draw("circle",
        { class: `s${p.b % 8}`, cx: x, cy: y, r: 2.4, "fill-opacity": 0.75 }));
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
  box.append(svg, make("p", { class: "quiet small" },
      `${marks}Each case has a budget of its own, larger where sums cancel; the line is their mean.`));
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
    const words = counts.map((n,
        i) => n ? `${n} ${i ? i < D.bins.length ? `up to ${D.bins[i]}` : "above" : "exact"}` : "").filter(Boolean).join(", ");
    const svg = draw("svg", { width, height, role: "img",
        "aria-label": `${D.backends[b]}: ${count(all, "case")} by their largest error in ulp: ${words}` });
    svg.append(draw("text", { class: "strong", x: 0, y: 9 }, D.backends[b].length > 26 ? D.backends[b].slice(0,
        25) + "…" : D.backends[b]));
    share[at].forEach((part, i) => {
      const h = part ? Math.max((height - top - bottom) * part / highest, 1.5) : 0;
      if (h) svg.append(draw("rect", { class: `s${b % 8}`, x: (i * each + 1).toFixed(1), width: (each - 2).toFixed(1),
          y: (height - bottom - h).toFixed(1), height: h.toFixed(1) }));
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
  const svg = draw("svg", { width, height, role: "img",
      "aria-label": `float32 error divided by float64 error; rounding gives 2^29: ${said}` });
  svg.append(draw("rect", { class: "band", x: X(20), width: X(34) - X(20), y: top - 4, height: row * scalings.length + 8 }));
  svg.append(draw("line", { class: "budget", x1: X(29), x2: X(29), y1: top - 6, y2: height - 16 }));
  svg.append(draw("text", { class: "strong", x: X(29), y: 11, "text-anchor": "middle" }, "2²⁹: rounding"));
  for (const p of [0, 10, 20, 30, 40, 50, 60]) svg.append(draw("text", { x: X(p), y: height - 3,
      "text-anchor": p === 60 ? "end" : "middle" }, `2${superscript(p)}`));
  scalings.sort((a, b) => a.backend - b.backend).forEach((s, i) => {
    const y = top + row * i + row / 2, label = D.backends[s.backend];
    svg.append(draw("line", { class: "grid", x1: name, x2: width - right, y1: y, y2: y }));
    svg.append(draw("text", { x: 0, y: y + 4 }, label.length > 18 ? label.slice(0, 17) + "…" : label));
    svg.append(draw("circle", { class: `s${s.backend % 8}`, cx: X(Math.log2(s.ratio)), cy: y, r: 5 }));
  });
  box.append(svg, ...scalings.filter((s) => s.problem).map((s) => make("p", {}, `${D.backends[s.backend]}: ${s.problem}`)));
};
