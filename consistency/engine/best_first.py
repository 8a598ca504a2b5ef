"""The order of a run that may end before all of its cases: the best cases of every operator × dtype
come first, the others after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..core.model import Case
from ..operators.declare import Operator
from .config import RunConfig, operator_dtypes
from .unit_cases import UnitCases, cases_of, exhaustive_cases, fresh_cases, shipped_cases, without
from .unit_cases import long_and_large_cases as long_cases
from .work_unit import NOT_BEGUN, WorkUnit

# Shipped cases are in the order of what they notice: of the planted faults that all of them notice,
# the first alone notices 81%, the first two 94%. A minute of two cores is enough for the first.
FIRST = 1
# What most programs compute with comes first.
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool", "complex64")
Pair = tuple[Operator, str]


def best_first(config: RunConfig, out_of_time: Callable[[], bool]) -> Iterator[WorkUnit]:
    """In three stages over all operators × dtypes: the first shipped cases; the other shipped ones
    and exhaustive ones; fresh and long ones. When the time is over, what was not begun follows
    without cases, so that it is counted."""
    pairs = sorted(operator_dtypes(config), key=lambda pair: _rank(pair[1]))
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
                more = number < 2 and bool(shipped_cases(config, operator, dtype))
                yield WorkUnit(
                    operator, dtype, found.all, found.problem, seed=config.seed, part=parts[key],
                    more=more,
                )  # fmt: skip
                parts[key] += 1


def _first(config: RunConfig, operator: Operator, dtype: str) -> UnitCases:
    """The best cases; everything where the package brings none."""
    begin = shipped_cases(config, operator, dtype)
    return UnitCases(begin[:FIRST]) if begin else cases_of(config, operator, dtype)


def _rest(config: RunConfig, operator: Operator, dtype: str) -> UnitCases:
    begin = shipped_cases(config, operator, dtype)
    if not begin:
        return UnitCases()
    return UnitCases(begin[FIRST:], further=exhaustive_cases(config, operator, dtype))


def _further(config: RunConfig, operator: Operator, dtype: str) -> UnitCases:
    begin = shipped_cases(config, operator, dtype)
    if not begin:
        return UnitCases()
    fresh: tuple[Case, ...] = tuple(without(fresh_cases(config, operator, dtype)[0], begin))
    return UnitCases((), fresh, long_cases(config, operator, dtype))


def _rank(dtype: str) -> int:
    return DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES)
