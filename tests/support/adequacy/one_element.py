"""Whether a quick run notices one element that is 1% off, in every operator × dtype × direction;
further cases where it does not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from consistency.core import dtypes
from consistency.core.model import Case
from consistency.engine.unit_cases import draw
from consistency.operators.declare import Operator

from .measure import quick
from .model import Fault, Healthy
from .noticing import CaseJudge, directions_of
from .results import ONE_OFF, faults, one_off, ordinary_elements
from .selection import MOST_ELEMENTS, Candidate, candidate_of, elements, play

SEEDS, COUNT = (103, 104, 105, 106, 107), 40  # cases of each, where those of a quick run miss it
SECONDS = 10.0  # CPU time for the further cases of one operator × dtype
PLACES = 8  # elements of a case in which the fault is planted
MOST_OF_THEM, ENOUGH = 0.5, 3  # of its elements; cases to choose from


def fault() -> Fault:
    return next(fault for fault in faults() if fault.name == ONE_OFF)


def measured(operator: Operator, dtype: str) -> dict[str, Any]:
    """One row: by direction that torch offers, whether the fault shows in a case of a quick run,
    and whether it is noticed in one; ``failing`` where torch's CPU itself passes none of them."""
    expected = directions_of(operator, dtype)
    shown, passed, noticed = set[str](), set[str](), set[str]()
    failing, offered, ran = set[str](), set[str](), False
    for case in quick(operator, dtype):
        candidate = candidate_of(operator, case, [fault()])
        if candidate is None:
            continue
        ran = True
        offered |= {item.direction for item in candidate.items}
        for item in candidate.items:
            direction = item.direction
            likely = {i: f for i, f in candidate.likely.items() if i[0] == direction}
            if not likely or direction in noticed:
                continue
            shown.add(direction)
            trial = Candidate(case, [item], likely)  # torch may be wrong in the other direction
            played = play(trial, set())
            noticed |= {direction for direction, _ in trial.noticed}
            (passed if played or CaseJudge(item).passes else failing).add(direction)
        if noticed == set(expected):
            break
    row: dict[str, Any] = {"operator": operator.name, "dtype": dtype}
    for direction in expected:
        if direction in offered or not ran:
            row[direction] = (
                "noticed" if direction in noticed
                else "none" if direction not in shown
                else "failing" if direction in failing - passed
                else "missed"
            )  # fmt: skip
    return row


def further(operator: Operator, dtype: str, directions: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Cases that notice the fault in ``directions``, each with the share of its elements in which
    it is noticed: the first in which that is at least half, or else the best of some."""
    until = time.process_time() + SECONDS
    missing = set(directions)
    best: dict[str, list[tuple[float, Case]]] = {direction: [] for direction in missing}
    for candidate in _promising(operator, dtype, missing):
        if not missing or time.process_time() > until:
            break
        wanted = {item: f for item, f in candidate.likely.items() if item[0] in missing}
        trial = Candidate(candidate.case, candidate.items, wanted)
        if not wanted or not play(trial, set()):
            continue
        for item in candidate.items:
            if (item.direction, ONE_OFF) in trial.noticed:
                found = best[item.direction]
                found.append((share(item), candidate.case))
                if found[-1][0] >= MOST_OF_THEM or len(found) == ENOUGH:
                    missing.discard(item.direction)
    for direction, found in best.items():
        if found:
            part, case = max(found, key=lambda pair: pair[0])
            yield {"direction": direction, "share": round(part, 3), "case": case.to_json()}


def share(item: Healthy) -> float:
    """The share of the ordinary elements, at most ``PLACES`` of them, in which it is noticed."""
    judge = CaseJudge(item)
    count = ordinary_elements(item)
    places = np.unique(np.linspace(0, count - 1, PLACES).astype(int)).tolist()
    changed = [one_off(item, 0, place) for place in places]
    told = [judge.notices(outcome) for outcome in changed if outcome is not None]
    return sum(told) / len(told)


def _promising(operator: Operator, dtype: str, directions: set[str]) -> Iterator[Candidate]:
    """Drawn cases in which the fault is planted. Of each seed the largest fault in steps of the
    format comes first, and of equal ones the smallest case."""
    for seed in SEEDS:
        cases, _ = draw(operator, dtype, COUNT, seed)
        small = [case for case in cases if elements(case) <= MOST_ELEMENTS]
        candidates = [candidate_of(operator, case, [fault()]) for case in small]
        ranked = [
            (-max(map(_steps, items), default=0.0), elements(c.case), number, c)
            for number, c in enumerate(candidates)
            if c is not None
            for items in [[i for i in c.items if i.direction in directions]]
        ]
        yield from (c for steps, _, _, c in sorted(ranked, key=lambda r: r[:3]) if steps)


def _steps(item: Healthy) -> float:
    """By how many steps of its format the element is off; in wide formats any number is enough."""
    outcome = one_off(item, 0)
    if outcome is None:
        return 0.0
    before, after = (o.outputs[0].tensor for o in (item.outcome, outcome))
    form = None if before is None else dtypes.form_of(dtypes.name_of(before.dtype))
    if before is None or after is None or form is None or before.is_complex():
        return 1.0
    numbers = [t.detach().double().reshape(-1).numpy() for t in (before, after)]
    with np.errstate(invalid="ignore"):
        off = np.nan_to_num(np.abs(numbers[1] - numbers[0]), nan=0.0)
    place = int(off.argmax())
    value = numbers[0][place : place + 1]
    return min(float(off[place] / dtypes.spacing(value, form, np.empty_like(value))[0]), 8.0)
