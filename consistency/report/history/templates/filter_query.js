// The language of the query box. consistency/report/history/filter_query.py reads the same one; tests hold the two together.

const TEXTS = ["operator", "family", "dtype", "direction", "verdict", "cause", "workaround", "kind", "environment", "label", "backend"];
const NUMBERS = ["rho", "flaky"], OTHERS = ["since", "count", "fingerprint"];
const STATES = ["pass", "warn", "fail", "untested"];
const KINDS = ["new", "error_grew", "untested", "fixed", "error_shrank", "tested", "flaky", "transient"];
const FORMER_WORDS = { drifted: "error_grew", calmed: "error_shrank", once: "transient" };
const TERM = /-?(?:[^\s":]+:)?(?:"[^"]*"|[^\s"]+)/g;
const MAX_LENGTH = 2000;

class Misunderstood extends Error {}

const distance = (a, b) => {
  const row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= Math.min(a.length, 40); i++) {
    let before = row[0];
    row[0] = i;
    for (let j = 1; j <= b.length; j++) {
      const here = Math.min(row[j] + 1, row[j - 1] + 1, before + (a[i - 1] !== b[j - 1] ? 1 : 0));
      before = row[j];
      row[j] = here;
    }
  }
  return row[b.length];
};
const suggestion = (word, known) => {
  let best = "", least = Math.max(Math.floor(word.length / 3), Math.min(2, Math.floor(word.length / 2))) + 1;
  for (const name of known) {
    const far = distance(word, name);
    if (far < least) [best, least] = [name, far];
  }
  return best ? `; did you mean ${best}?` : `; there are ${known.slice(0, 14).join(", ")}`;
};
const glob = (pattern) => {
  const parts = pattern.toLowerCase().split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
  const found = new RegExp(`^(?:${parts.join("[^]*")})$`, "u");
  return (text) => found.test(text);
};
const splitOff = (value) => {
  for (const sign of [">=", "<=", ">", "<", "="]) if (value.startsWith(sign)) return [sign, value.slice(sign.length)];
  return ["", value];
};
const compared = (sign, order) => ({ ">": order > 0, ">=": order >= 0, "<": order < 0, "<=": order <= 0 })[sign] ?? order === 0;
const versionOf = (text) => (String(text).match(/[0-9]+/g) || []).slice(0, 8).map((part) => Number(part.slice(0, 9)));
const orderOf = (a, b) => {
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (i >= a.length) return -1;
    if (i >= b.length) return 1;
    if (a[i] !== b[i]) return a[i] > b[i] ? 1 : -1;
  }
  return 0;
};

const counted = (value) => {
  const found = /^(>=|<=|>|<|=)?([0-9]+)\((\w+)\)$/.exec(value);
  if (!found || !STATES.includes(found[3])) throw new Misunderstood(
      `count:${value} is no count; write count:1(fail), count:>=2(warn); states are ${STATES.join(", ")}`);
  const [, sign, number, state] = found;
  return (e) => e.state === state && compared(sign || "", (e.counts[state] || 0) - Number(number));
};
const numeric = (key, value) => {
  const [sign, rest] = splitOff(value);
  if (!/^([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?)$/.test(rest)) throw new Misunderstood(
      `${key}:${value} is no number; write ${key}:>1`);
  const number = Number(rest);
  return (e) => e[key] !== null && e[key] !== undefined && compared(sign, (e[key] > number) - (e[key] < number));
};
const dated = (value) => {
  const [sign, rest] = splitOff(value);
  if (!/^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$/.test(rest)) throw new Misunderstood(
      `since:${value} is no date; write since:>=2026-11-01`);
  return (e) => {
    const short = (e.since || "").slice(0, rest.length);
    return short !== "" && compared(sign, (short > rest) - (short < rest));
  };
};
const ofIdentity = (key, value) => {
  const [sign, rest] = splitOff(value);
  if (sign && sign !== "=") {
    const wanted = versionOf(rest);
    if (!wanted.length) throw new Misunderstood(`${key}:${value} is no version; write ${key}:>=31`);
    return (e) => {
      const found = versionOf(e.identity[key] ?? "").slice(0, wanted.length);
      return found.length > 0 && compared(sign, orderOf(found, wanted));
    };
  }
  const patterns = rest.split(",").map(glob);
  return (e) => patterns.some((p) => p(String(e.identity[key] ?? "").toLowerCase()));
};
const testOf = (key, value, names, verdicts) => {
  if (key === "count") return counted(value);
  if (NUMBERS.includes(key)) return numeric(key, value);
  if (key === "since") return dated(value);
  if (key === "fingerprint") {
    const pattern = glob(`*${value}*`);
    return (e) => Object.entries(e.identity).some(([n, told]) => n.startsWith("fingerprint") && pattern(`${n} ${told}`.toLowerCase()));
  }
  if (TEXTS.includes(key)) {
    const known = { verdict: [...verdicts, ...STATES], kind: KINDS }[key] || [];
    const parts = value.split(",").map((part) => key === "kind" ? FORMER_WORDS[part] || part : part);
    for (const part of parts) if (known.length && !part.includes("*") && !known.includes(part)) throw new Misunderstood(
        `${part} is no ${key}${suggestion(part, known)}`);
    const patterns = parts.map(glob);
    if (key === "verdict") return (e) => patterns.some((p) => p(e.verdict) || p(e.state));
    return (e) => patterns.some((p) => p(String(e[key] ?? "").toLowerCase()));
  }
  if (names.includes(key)) return ofIdentity(key, value);
  throw new Misunderstood(`${key} is no key${suggestion(key, [...TEXTS, ...NUMBERS, ...OTHERS, ...names])}`);
};
const termOf = (term, names, verdicts) => {
  const negated = term.startsWith("-"), body = negated ? term.slice(1) : term;
  const at = body.indexOf(":");
  let key = at < 0 ? body : body.slice(0, at), value = at < 0 ? "" : body.slice(at + 1);
  if (at < 0 || key.startsWith('"')) [key, value] = ["operator", `*${body.replaceAll('"', "")}*`];
  value = value.replaceAll('"', "");
  if (!value) throw new Misunderstood(`${body} has nothing behind the colon`);
  const test = testOf(key, value, names, verdicts);
  return negated ? (e) => !test(e) : test;
};
// The tests that an entry must pass, all of them. Throws Misunderstood.
const parseQuery = (text, names, verdicts) => {
  if (text.length > MAX_LENGTH) throw new Misunderstood(`a query has at most ${MAX_LENGTH} characters`);
  if ((text.match(/"/g) || []).length % 2) throw new Misunderstood('a quotation mark " is not closed');
  return (text.match(TERM) || []).map((term) => termOf(term, names, verdicts));
};
