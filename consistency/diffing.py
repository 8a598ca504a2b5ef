"""Two runs beside each other, like for like: what fails now, what no longer does, what errs more although it still passes.

Only cases that both runs judged on the same backend and in the same direction are compared. Whether errors have grown is asked of
all passing results of a group together, by a sign test on log ρ: it needs no scale, and a few odd cases do not move it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import bundle
from .errors import BundleError
from .model import VERDICTS, Verdict

Group = tuple[str, str, str, str]  # operator, dtype, direction, backend
KINDS = ("new", "changed", "drifted", "untested", "fixed", "calmed")
REGRESSIONS = ("new", "drifted", "untested")
UNLIKELY = 1e-9  # of no change at all, for one group: with 10,000 groups a night one false alarm in a hundred thousand nights
LEAST_SHIFT = math.log2(1.25)  # of the median: less is seen in the numbers, and is nobody's concern


@dataclass(frozen=True, slots=True)
class Seen:
    """As much of a result as is compared."""

    verdict: str
    fails: bool
    tested: bool
    rho: float
    explanation: str
    cause: str


@dataclass(frozen=True)
class Change:
    """What changed in one group (operator, dtype, direction, backend), over ``cases`` of the ``like`` that were compared.

    ``before`` and ``after`` are × budget: the worst of the cases concerned, of drifts the median. ``case`` is the id of the worst.
    """

    kind: str
    group: Group
    cases: int
    like: int
    before: float
    after: float
    words: str
    case: str

    @property
    def regression(self) -> bool:
        return self.kind in REGRESSIONS

    def to_json(self) -> dict[str, Any]:
        names = dict(zip(("operator", "dtype", "direction", "backend"), self.group, strict=True))
        numbers = {"cases": self.cases, "like_for_like": self.like, "before": self.before, "after": self.after}
        return {"kind": self.kind, **names, **numbers, "words": self.words, "case": self.case, "regression": self.regression}


@dataclass(frozen=True)
class Difference:
    """Two runs compared. ``environments``: by backend, what is not the same on both sides (name, old, new)."""

    old: Path
    new: Path
    like: int
    only_old: int
    only_new: int
    changes: tuple[Change, ...] = ()
    environments: Mapping[str, tuple[tuple[str, str, str], ...]] = field(default_factory=dict)

    @property
    def regressions(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.regression)


def difference(old: Path, new: Path) -> Difference:
    """Compare two bundles. Raises BundleError with file and line."""
    before, after = _results(old), _results(new)
    groups: dict[Group, list[tuple[str, Seen, Seen]]] = defaultdict(list)
    like = 0
    for (group, case), seen in after.items():
        earlier = before.get((group, case))
        if earlier is not None:
            groups[group].append((case, earlier, seen))
            like += 1
    changes = [change for group, pairs in groups.items() for change in _changes(group, pairs)]
    changes.sort(key=lambda c: (KINDS.index(c.kind), -c.after if c.after == c.after else 0.0, c.group))
    return Difference(old, new, like, len(before) - like, len(after) - like, tuple(changes), _environments(old, new))


def _results(folder: Path) -> dict[tuple[Group, str], Seen]:
    bundle.read_header(folder)
    path = folder / "results.jsonl"
    found: dict[tuple[Group, str], Seen] = {}
    for number, row in bundle.lines(path):
        try:
            if row.get("shrunk") is True:
                continue
            group = (_text(row["operator"]), _text(row["dtype"]), _text(row["direction"]), _text(row["backend"]))
            case = _text(row["case_id"])
            if row["verdict"] not in VERDICTS:
                raise ValueError(f"{row['verdict']!r:.40} is no verdict")
            verdict = Verdict(row["verdict"], allowed=row["verdict"] == "reduced-precision" and row.get("fails") is False)
            cause = (row.get("evidence") or {}).get("cause") or {}
            rho = float(row["metrics"].get("rho_max", 0.0))
            words, name = _text(row["explanation"]), _text(cause.get("name", ""))
            found[group, case] = Seen(verdict.value, verdict.fails, verdict.tested, rho, words, name)
        except KeyError as error:
            raise BundleError(f"{path}:{number}  damaged: it has no {error}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise BundleError(f"{path}:{number}  damaged: {str(error)[:100]}") from None
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value[:400]


def _changes(group: Group, pairs: Sequence[tuple[str, Seen, Seen]]) -> Iterator[Change]:
    like = len(pairs)

    def told(kind: str, chosen: Sequence[tuple[str, Seen, Seen]], words: str = "") -> Change:
        case, old, new = max(chosen, key=lambda pair: pair[2].rho if kind != "fixed" else pair[1].rho)
        return Change(kind, group, len(chosen), like, old.rho, new.rho, words or f"{new.verdict}: {new.explanation}", case)

    worse = [p for p in pairs if p[2].fails and not p[1].fails]
    better = [p for p in pairs if p[1].fails and not p[2].fails and p[2].tested]
    lost = [p for p in pairs if p[1].tested and not p[2].tested]
    other = [p for p in pairs if p[1].fails and p[2].fails and (p[1].verdict, p[1].cause) != (p[2].verdict, p[2].cause)]
    if worse:
        yield told("new", worse)
    if other:
        case, old, new = max(other, key=lambda pair: pair[2].rho)
        text = f"{old.verdict} ({old.cause or 'no cause'}) then, {new.verdict} ({new.cause or 'no cause'}) now"
        yield Change("changed", group, len(other), like, old.rho, new.rho, text, case)
    if lost:
        yield told("untested", lost)
    if better and not worse:
        yield told("fixed", better, f"was {better[0][1].verdict}: {better[0][1].explanation}")
    yield from _drift(group, [p for p in pairs if not p[1].fails and not p[2].fails and p[1].tested and p[2].tested], like)


def _drift(group: Group, pairs: Sequence[tuple[str, Seen, Seen]], like: int) -> Iterator[Change]:
    """Whether the errors of results that pass have grown or shrunk."""
    shifts = sorted(
        (math.log2(new.rho / old.rho), case, old.rho, new.rho) for case, old, new in pairs if old.rho > 0.0 and new.rho > 0.0
    )
    moved = [s for s in shifts if s[0] != 0.0]
    if not moved:
        return
    up = sum(s[0] > 0.0 for s in moved)
    chance = sign_test(up, len(moved))
    middle = shifts[len(shifts) // 2]
    if chance > UNLIKELY or abs(middle[0]) < LEAST_SHIFT:
        return
    direction = "grown" if middle[0] > 0.0 else "shrunk"
    old, new = (sorted(values)[len(shifts) // 2] for values in ([s[2] for s in shifts], [s[3] for s in shifts]))
    words = f"errors have {direction} by {2.0 ** abs(middle[0]):.2g}× (median), still within budget (p = {chance:.0e})"
    yield Change("drifted" if middle[0] > 0.0 else "calmed", group, len(moved), like, old, new, words, shifts[-1][1])


def sign_test(up: int, of: int) -> float:
    """Probability, two-sided, that so uneven a split comes from a fair coin; exact, in logarithms (Dixon and Mood 1946)."""
    if of == 0:
        return 1.0
    few = min(up, of - up)
    logs = [math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) - of * math.log(2.0) for k in range(few + 1)]
    top = max(logs)
    return min(2.0 * math.exp(top) * math.fsum(math.exp(value - top) for value in logs), 1.0)


def _environments(old: Path, new: Path) -> dict[str, tuple[tuple[str, str, str], ...]]:
    before, after = bundle.read_environment(old), bundle.read_environment(new)
    found = {}
    for backend in [*before, *(name for name in after if name not in before)]:
        then, now = before.get(backend, {}), after.get(backend, {})
        probed = [keys.pop("fingerprint", None) for keys in (then, now)]
        if all(isinstance(lines, dict) for lines in probed):  # what was not probed on both sides tells nothing
            then, now = ({**keys, **_lines(told)} for keys, told in zip((then, now), probed, strict=True))
        names = sorted({*then, *now})
        pairs = ((name, str(then.get(name, ""))[:400], str(now.get(name, ""))[:400]) for name in names)
        rows = tuple(pair for pair in pairs if pair[1] != pair[2])
        if rows:
            found[backend] = rows
    return found


def _lines(fingerprint: Any) -> dict[str, Any]:
    """What probes told, under names of its own; the hash differs wherever anything does."""
    return {f"fingerprint, {name}": text for name, text in list(fingerprint.items())[:100] if name != "hash"}
