"""Which planted faults given cases of an operator × dtype notice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from consistency.core.model import Case
from consistency.engine import engine
from consistency.engine.run_options import PROFILES
from consistency.generate.exhaustive import is_exhaustive
from consistency.generate.shipped import cases as shipped
from consistency.operators.declare import Operator

from . import recomputed, results
from .selection import Item, candidate_of, play

FRESH = 5  # cases of a quick run that has no shipped ones


@dataclass
class Noticed:
    """Faults that showed in some case, and those that were noticed in one."""

    shown: set[Item] = field(default_factory=set)
    noticed: set[Item] = field(default_factory=set)
    cases: int = 0


def look(operator: Operator, cases: Iterable[Case], only: str = "") -> Noticed:
    """Plants every fault (or that one) into every case until it is noticed."""
    found = Noticed()
    faults = [*results.faults(), *recomputed.faults(operator)]
    chosen = [fault for fault in faults if not only or fault.name == only]
    for case in cases:
        candidate = candidate_of(operator, case, chosen)
        found.cases += 1
        if candidate is None:
            continue
        found.shown |= candidate.shown
        if set(candidate.likely) - found.noticed and play(candidate, found.noticed):
            found.shown |= candidate.shown
            found.noticed |= candidate.noticed
    return found


def compared(operator: Operator, dtype: str) -> dict[str, Any]:
    """One row: which faults show in the shipped cases or in some drawn ones, and which are
    ``noticed`` by the shipped ones, and by the drawn ones alone."""
    begin = look(operator, shipped.cases(operator, dtype))
    drawn = look(operator, fresh(operator, dtype, FRESH))
    return {
        "operator": operator.name,
        "dtype": dtype,
        "cases": begin.cases,
        "shown": _texts(begin.shown | drawn.shown),
        "noticed": _texts(begin.noticed),
        "drawn cases": drawn.cases,
        "noticed by drawn": _texts(drawn.noticed),
    }


def _texts(items: Iterable[Item]) -> list[str]:
    return sorted(map(": ".join, items))


def fresh(operator: Operator, dtype: str, count: int) -> list[Case]:
    return engine.draw(operator, dtype, count, 0)[0]


def quick(operator: Operator, dtype: str) -> list[Case]:
    """The cases of a quick run, without large and exhaustive ones."""
    begin = list(shipped.cases(operator, dtype))
    return [*begin, *engine.without(fresh(operator, dtype, PROFILES["quick"]), begin)]


def exhaustive(operator: Operator, dtype: str) -> list[Case]:
    """The exhaustive cases of a quick run."""
    config = engine.configure([operator], ["cpu"], [dtype], shipped=True)
    return [c for c in engine.further_cases(config, operator, dtype) if is_exhaustive(c)]
