"""The order of a run that may end before all of its cases: the best cases of every operator × dtype
come first, one family after another in turn; the others after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..core.model import Case
from ..operators.declare import Operator
from .config import RunConfig, examples_of, operator_dtypes
from .family_order import by_turns
from .unit_cases import (
    draw,
    exhaustive_cases,
    first_shipped_cases,
    fresh_after,
    shipped_cases,
    shipped_count,
    undrawn,
)
from .unit_cases import long_and_large_cases as long_cases
from .work_unit import NOT_BEGUN, WorkUnit

# Shipped cases are in the order of what they notice: of the planted faults that all of them notice,
# the first alone notices 81%, the first two 94%. A minute of two cores is enough for the first.
FIRST = 1
# Where nothing is shipped and a budget may be short: so many are drawn of each before the rest.
FEW = 3
# Of these, all exponents are swept among the first: that takes some 10 ms, of few operators.
SWEPT_FIRST = ("float32",)


def best_first(config: RunConfig, out_of_time: Callable[[], bool]) -> Iterator[WorkUnit]:
    """In three stages over all operators × dtypes: the first shipped cases, and sweeps of float32;
    the other shipped ones and exhaustive ones; fresh and long ones. When the time is over, what
    was not begun follows without cases, so that it is counted."""
    pairs = by_turns(operator_dtypes(config))
    parts = dict.fromkeys(((operator.name, dtype) for operator, dtype in pairs), 0)
    for number, stage in enumerate((_first, _rest, _further)):
        for operator, dtype in pairs:
            key = operator.name, dtype
            if out_of_time():
                if not parts[key]:
                    parts[key] = 1
                    yield WorkUnit(operator, dtype, (), NOT_BEGUN)
                continue
            unit = stage(config, operator, dtype)
            if unit is not None:
                more = number < 2 and _in_parts(config, operator, dtype)
                yield replace(unit, seed=config.seed, part=parts[key], more=more)
                parts[key] += 1


def _first(config: RunConfig, operator: Operator, dtype: str) -> WorkUnit | None:
    """The best cases; where the package brings none a few, or everything without a time budget."""
    swept = _swept_first(config, operator, dtype)
    begin = first_shipped_cases(config, operator, dtype, FIRST)
    if begin:
        return WorkUnit(operator, dtype, (*begin, *swept))
    if not _in_parts(config, operator, dtype):
        return undrawn(config, operator, dtype)
    few, problem = _few(config, operator, dtype)
    return WorkUnit(operator, dtype, (*few, *swept), problem)


def _few(config: RunConfig, operator: Operator, dtype: str) -> tuple[list[Case], str]:
    """What is drawn first where nothing is shipped, or why nothing can be."""
    return draw(operator, dtype, min(FEW, examples_of(config, dtype)), config.seed)


def _swept_first(config: RunConfig, operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The exhaustive case that comes among the first, if there is one."""
    if dtype not in SWEPT_FIRST or config.exhaustive:
        return ()
    return exhaustive_cases(config, operator, dtype)[:1]


def _in_parts(config: RunConfig, operator: Operator, dtype: str) -> bool:
    """Whether the cases of an operator × dtype come in several units."""
    return config.time_budget is not None or shipped_count(config, operator, dtype) > 0


def _rest(config: RunConfig, operator: Operator, dtype: str) -> WorkUnit | None:
    if not _in_parts(config, operator, dtype):
        return None
    begin = shipped_cases(config, operator, dtype)[FIRST:]
    first = _swept_first(config, operator, dtype)
    cases = (*begin, *exhaustive_cases(config, operator, dtype)[len(first) :])
    return WorkUnit(operator, dtype, cases) if cases else None


def _further(config: RunConfig, operator: Operator, dtype: str) -> WorkUnit | None:
    if not _in_parts(config, operator, dtype):
        return None
    begin = shipped_cases(config, operator, dtype) or _few(config, operator, dtype)[0]
    fresh = fresh_after(config, dtype, begin, long_cases(config, operator, dtype))
    return WorkUnit(operator, dtype, (), fresh=fresh)
