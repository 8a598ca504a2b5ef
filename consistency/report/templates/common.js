// What came from the bundle: read once. It enters the page through textContent and setAttribute only.
const D = JSON.parse(document.getElementById("data").textContent);
const RANK = Object.fromEntries(D.ranks.map((name, i) => [name, i]));
const FAILED = RANK["failed"], WARNED = RANK["warned"];
const DIRECTIONS = ["forward", "backward"];
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUE = new Map([...DIGITS].map((c, i) => [c, i]));
const PER_OCTAVE = 64, LOWEST = -12, FIRST = 60;

const kindName = (kind) => `${D.dtypes[kind >> 1]} ${DIRECTIONS[kind & 1]}`;
const operators = D.operators.map(([name, family, byTerms, groups, budgets], id) => ({
  id, name, family, byTerms, budgets, lower: name.toLowerCase(),
  groups: groups.map(([kind, backend, rho, counts, histogram, points]) => ({ kind, backend, rho, counts, histogram, points })),
}));
const byName = new Map(operators.map((o) => [o.name, o]));
const casesOf = new Map();
for (const row of D.cases) {
  const [operator, kind, backend, verdict, rho, sentence, told, recipe, command, workaround, cause, alike, files, small, id] = row;
  if (!casesOf.has(operator)) casesOf.set(operator, []);
  casesOf.get(operator).push({ operator: D.operators[operator][0], kind, backend, verdict, rho, sentence, told, recipe, command, workaround, cause, alike, files,
    small, id });
}
const scalingOf = new Map();
for (const [operator, backend, ratio, pairs, problem] of D.scaling) {
  if (!scalingOf.has(operator)) scalingOf.set(operator, []);
  scalingOf.get(operator).push({ backend, ratio, pairs, problem });
}

const rankOf = (verdict) => RANK[D.verdicts[verdict][1]];
