// State: in the address, so that a view can be sent; and what is left after filtering.
const KEYS = ["q", "family", "dtype", "verdict", "backend"];
const form = $("filters");
let state = {};

const readAddress = () => {
  const said = new URLSearchParams(location.hash.slice(1));
  state = { op: said.get("op") || "", case: said.get("case") || "" };
  for (const key of KEYS) state[key] = said.get(key) || "";
  for (const key of KEYS.slice(1)) if (![...form.elements[key].options].some((o) => o.value === state[key])) state[key] = "";
};
const writeAddress = () => {
  const said = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
  history.replaceState(null, "", `#${said}`);
};

// Whether the user looks for something: then nothing is folded away.
const looking = () => KEYS.some((key) => state[key]);

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

const admits = (verdict) => !state.verdict || D.verdicts[verdict][0] === state.verdict || D.verdicts[verdict][1] === state.verdict;

const filtered = () => {
  const text = state.q.trim().toLowerCase();
  const dtype = state.dtype ? D.dtypes.indexOf(state.dtype) : -1,
      backend = state.backend ? D.backends.indexOf(state.backend) : -1;
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
      if (rank > cell.rank || (rank === cell.rank && weight(rank, rho) > weight(rank, cell.rho))) Object.assign(cell, { rank,
          rho, verdict, kind: g.kind });
      cells.set(g.backend, cell);
    }
    if (!results) continue;
    let rank = -1, rho = 0;
    for (const c of cells.values()) if (c.rank > rank || (c.rank === rank && weight(c.rank, c.rho) > rho)) [rank,
        rho] = [c.rank, weight(c.rank, c.rho)];
    left.push({ o, cells, results, rank, rho });
  }
  return left.sort((a, b) => b.rank - a.rank || b.rho - a.rho || a.o.id - b.o.id);
};
const weight = (rank, rho) => rho === null ? (rank === FAILED ? Infinity : 0) : rho;
