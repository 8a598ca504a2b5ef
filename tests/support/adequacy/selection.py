"""Chooses, for one operator × dtype, the cases that notice the most faults: at each step the case
that may notice the most of what is not noticed yet is judged with these faults planted."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from consistency.core.model import Case, Outcome
from consistency.core.recipe import TensorRecipe
from consistency.engine.unit_cases import draw
from consistency.generate.scalar_pairs import FEWEST, with_scalar_pair
from consistency.operators.declare import Operator

from . import recomputed, results
from .model import Fault, Healthy
from .noticing import CaseJudge, healthy
from .properties import properties
from .results import ONE_OFF

# Of these dtypes fewer candidates are drawn: most run the code of the others.
FEW = frozenset({"complex64", "complex128", "int16", "int8", "uint8", "bool", "int32"})
CANDIDATES, CANDIDATES_OF_FEW = 20, 12  # of one seed
SEEDS, SEEDS_OF_FLOAT32 = (101,), (101, 102)  # other cases than a run draws by default
FURTHER_SEEDS = (103,)  # where an element that is 1% off is not noticed
FURTHER_ATTEMPTS = 12
# The most cases of an operator × dtype; few of dtypes of which a run of everything draws few, and
# of those that take longest, because their reference is proved.
MOST = {
    "float64": 5, "bool": 4, "int32": 4, "complex64": 3,
    "complex128": 2, "int16": 2, "int8": 2, "uint8": 2,
}  # fmt: skip
MOST_OF_OTHERS = 7
PROPERTY = 0.25  # what one property is worth, beside faults of 1 and more
LEAST = 1.0  # what a case must add
MOST_ELEMENTS = 1 << 14  # of a case, all tensors together
Item = tuple[str, str]  # direction, name of the fault


@dataclass
class Candidate:
    """A case, its healthy results, the faults that may show in it, and its properties. Where it was
    judged: which faults ``shown`` and which were ``noticed``."""

    case: Case
    items: list[Healthy]
    likely: dict[Item, Fault] = field(default_factory=dict)
    properties: frozenset[str] = frozenset()
    shown: set[Item] = field(default_factory=set)
    noticed: set[Item] = field(default_factory=set)


@dataclass
class Selection:
    """The chosen cases, best first; which faults any candidate shows, and which are noticed."""

    cases: list[Case] = field(default_factory=list)
    shown: set[Item] = field(default_factory=set)
    noticed: set[Item] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)

    @property
    def missing(self) -> set[Item]:
        """Where an element that is 1% off is not noticed."""
        return {item for item in self.shown - self.noticed if item[1] == ONE_OFF}

    def add(self, candidate: Candidate) -> None:
        self.cases.append(candidate.case)
        self.noticed |= candidate.noticed
        self.reached |= candidate.properties


def candidates(operator: Operator, dtype: str, seeds: Iterable[int]) -> list[Case]:
    """Distinct drawn cases of moderate size."""
    found: dict[str, Case] = {}
    count = CANDIDATES_OF_FEW if dtype in FEW else CANDIDATES
    for seed in seeds:
        cases, _ = draw(operator, dtype, count, seed)
        found |= {case.id: case for case in cases if elements(case) <= MOST_ELEMENTS}
    return list(found.values())


def elements(case: Case) -> int:
    return sum(math.prod(t.base if isinstance(t, TensorRecipe) else t.shape) for t in case.tensors)


def most_of(dtype: str) -> int:
    """The most cases that are chosen for what they notice together."""
    return MOST.get(dtype, MOST_OF_OTHERS)


def select(operator: Operator, dtype: str) -> Selection:
    """The cases of one operator × dtype; none where no fault would be noticed. In float32 one more
    differs from another in one number only."""
    faults = [*results.faults(), *recomputed.faults(operator)]
    seeds = SEEDS_OF_FLOAT32 if dtype == "float32" else SEEDS
    found = _found(operator, candidates(operator, dtype, seeds), faults)
    selection = Selection()
    for c in found:
        selection.shown |= c.shown
    _choose(found, selection, most_of(dtype))
    if selection.missing:
        further = _found(operator, candidates(operator, dtype, FURTHER_SEEDS), faults)
        _complete([*found, *further], selection)
    if dtype == "float32":
        selection.cases += paired(operator, selection.cases)
    return selection


def paired(operator: Operator, cases: Sequence[Case]) -> list[Case]:
    """A case that differs from one of ``cases`` in one number only: a kernel that was built for the
    one must not be used for the other. None where no case has such a number."""
    filler = [Case(operator.name, "float32", cotangent=n) for n in range(FEWEST)]
    other = [c for c in with_scalar_pair(operator, [*cases, *filler], cases) if c not in filler]
    new = [case for case in other if case not in cases]
    sound = (healthy(operator, case) for case in new)
    return new if all(CaseJudge(item).passes for items in sound for item in items) else []


def _found(operator: Operator, cases: Iterable[Case], faults: Sequence[Fault]) -> list[Candidate]:
    return [c for case in cases if (c := candidate_of(operator, case, faults)) is not None]


def _choose(found: Sequence[Candidate], selection: Selection, most: int) -> None:
    waiting = list(found)
    misses: Counter[Item] = Counter()
    for _ in range(2 * most):
        if not waiting or len(selection.cases) == most:
            break
        gains = [
            (_gain(c, selection, misses), -elements(c.case), -n) for n, c in enumerate(waiting)
        ]
        best = max(gains)
        if best[0] < LEAST:
            break
        candidate = waiting.pop(-best[2])
        if not play(candidate, selection.noticed):
            continue
        selection.shown |= candidate.shown
        new = candidate.noticed - selection.noticed
        misses.update(i for i in candidate.likely if i not in selection.noticed | new)
        added = sum(candidate.likely[i].weight for i in new)
        added += PROPERTY * len(candidate.properties - selection.reached)
        if added >= LEAST:
            selection.add(candidate)


def _complete(found: Sequence[Candidate], selection: Selection) -> None:
    """Tries small cases for what is 1% off: the fewer terms, the smaller the budget."""
    waiting = sorted(found, key=lambda c: elements(c.case))
    attempts = FURTHER_ATTEMPTS
    for candidate in waiting:
        wanted = {i: f for i, f in candidate.likely.items() if i in selection.missing}
        if not wanted or not attempts or candidate.case in selection.cases:
            continue
        attempts -= 1
        trial = replace(candidate, likely=wanted, noticed=set())
        if play(trial, set()) and trial.noticed:
            selection.add(trial)


def candidate_of(operator: Operator, case: Case, faults: Sequence[Fault]) -> Candidate | None:
    """The case with the faults that may show in it; None where it does not return."""
    items = healthy(operator, case)
    if not items:
        return None
    candidate = Candidate(case, items, properties=properties(case))
    for item in items:
        for fault in faults:
            if fault.likely is None:
                if planted(fault, item) is None:
                    continue
                candidate.shown.add((item.direction, fault.name))
            elif not fault.likely(item):
                continue
            candidate.likely[item.direction, fault.name] = fault
    return candidate


def planted(fault: Fault, item: Healthy) -> Outcome | None:
    """The faulty outcome; None also where the fault cannot be planted into such results."""
    try:
        return fault.plant(item)
    except (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError):
        return None


def _gain(candidate: Candidate, selection: Selection, misses: Counter[Item]) -> float:
    """What a case may add; what other cases did not show or notice counts half as much for each."""
    faults = sum(
        fault.weight * 0.5 ** misses[item]
        for item, fault in candidate.likely.items()
        if item not in selection.noticed
    )
    return faults + PROPERTY * len(candidate.properties - selection.reached)


def play(candidate: Candidate, known: Container[Item]) -> bool:
    """Judges the case with each of its faults that is not ``known``. Returns whether a healthy
    backend passes and one that is wrong everywhere is noticed."""
    try:
        judges = [(item, CaseJudge(item)) for item in candidate.items]
    except Exception as error:  # a run would call the case inconclusive
        print(f"  judging failed: {candidate.case.line[:300]}: {error!r:.200}", file=sys.stderr)
        return False
    if not all(judge.passes for _, judge in judges) or not _tells(judges):
        return False
    for item, judge in judges:
        for (direction, name), fault in candidate.likely.items():
            if direction != item.direction or (direction, name) in known:
                continue
            faulty = planted(fault, item)
            if faulty is not None:
                candidate.shown.add((direction, name))
                if judge.notices(faulty):
                    candidate.noticed.add((direction, name))
    return True


def _tells(judges: Sequence[tuple[Healthy, CaseJudge]]) -> bool:
    """Whether it is noticed in some direction if everything is wrong."""
    for item, judge in judges:
        wrong = results.EVERYTHING.plant(item)
        if wrong is not None and judge.notices(wrong):
            return True
    return False
