"""The order of a run that may end before all of its cases: the best cases of every operator × dtype
come first, one family after another in turn; the others after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..core.model import Case
from ..operators.declare import Operator
from .config import RunConfig, examples_of, operator_dtypes
from .family_order import by_turns
from .unit_cases import (
    UnitCases,
    cases_of,
    draw,
    exhaustive_cases,
    first_shipped_cases,
    fresh_cases,
    shipped_cases,
    shipped_count,
    without,
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
            found = stage(config, operator, dtype)
            if found.all or (found.problem and not parts[key]):
                more = number < 2 and _in_parts(config, operator, dtype)
                yield WorkUnit(
                    operator, dtype, found.all, found.problem, seed=config.seed, part=parts[key],
                    more=more,
                )  # fmt: skip
                parts[key] += 1


def _first(config: RunConfig, operator: Operator, dtype: str) -> UnitCases:
    """The best cases; where the package brings none a few, or everything without a time budget."""
    swept = _swept_first(config, operator, dtype)
    begin = first_shipped_cases(config, operator, dtype, FIRST)
    if begin:
        return UnitCases(begin, further=swept)
    if not _in_parts(config, operator, dtype):
        return cases_of(config, operator, dtype)
    few, problem = draw(operator, dtype, min(FEW, examples_of(config, dtype)), config.seed)
    return UnitCases((), tuple(few), swept, problem)


def _swept_first(config: RunConfig, operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The exhaustive case that comes among the first, if there is one."""
    if dtype not in SWEPT_FIRST or config.exhaustive:
        return ()
    return exhaustive_cases(config, operator, dtype)[:1]


def _in_parts(config: RunConfig, operator: Operator, dtype: str) -> bool:
    """Whether the cases of an operator × dtype come in several units."""
    return config.time_budget is not None or shipped_count(config, operator, dtype) > 0


def _rest(config: RunConfig, operator: Operator, dtype: str) -> UnitCases:
    if not _in_parts(config, operator, dtype):
        return UnitCases()
    begin = shipped_cases(config, operator, dtype)
    first = _swept_first(config, operator, dtype)
    return UnitCases(begin[FIRST:], further=exhaustive_cases(config, operator, dtype)[len(first) :])


def _further(config: RunConfig, operator: Operator, dtype: str) -> UnitCases:
    if not _in_parts(config, operator, dtype):
        return UnitCases()
    begin = shipped_cases(config, operator, dtype) or _first(config, operator, dtype).fresh
    fresh: tuple[Case, ...] = tuple(without(fresh_cases(config, operator, dtype)[0], begin))
    return UnitCases((), fresh, long_cases(config, operator, dtype))
