"""The cases of one operator × dtype in a run, in the order of what they notice: those that the
package brings, freshly drawn ones, exhaustive and long ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.model import Case
from ..errors import Untestable
from ..generate import exhaustive, search
from ..generate.large import ladder
from ..generate.large import shipped as long_cases
from ..generate.shipped import cases as shipped
from ..operators.declare import Operator
from .config import SOURCES, RunConfig, examples_of
from .work_unit import Fresh, WorkUnit

NO_LARGE_CASE = "no large case of it is known, or memory allows none"


def undrawn(config: RunConfig, operator: Operator, dtype: str) -> WorkUnit:
    """All cases of one operator × dtype in a run without a corpus; fresh ones are still to be
    drawn (:func:`drawn`)."""
    begin = shipped_cases(config, operator, dtype)
    further = further_cases(config, operator, dtype)
    if not config.examples:
        problem = "" if further else NO_LARGE_CASE
        return WorkUnit(operator, dtype, further, problem, seed=config.seed)
    fresh = fresh_after(config, dtype, begin, further)
    return WorkUnit(operator, dtype, begin, seed=config.seed, fresh=fresh)


def fresh_after(
    config: RunConfig, dtype: str, begin: Sequence[Case], further: tuple[Case, ...]
) -> Fresh:
    """As many examples as the run asks for, other than those that it begins with."""
    return Fresh(examples_of(config, dtype), tuple(case.id for case in begin), further)


def drawn(unit: WorkUnit) -> WorkUnit:
    """The unit with its fresh cases, or why there are none where it has no others."""
    if unit.fresh is None:
        return unit
    fresh = unit.fresh
    cases, problem = draw(unit.operator, unit.dtype, fresh.examples, unit.seed)
    others = (case for case in cases if case.id not in fresh.excluded)
    return replace(
        unit, cases=(*unit.cases, *others, *fresh.further), fresh=None,
        problem="" if unit.cases or fresh.excluded else problem,
    )  # fmt: skip


def large_cases(
    config: RunConfig, operator: Operator, dtype: str, stage: int = 0
) -> tuple[Case, ...]:
    """The large cases of one operator × dtype in one stage that memory allows."""
    if not config.memory or config.source != SOURCES[0]:
        return ()
    return tuple(ladder.cases(operator, dtype, config.memory, stage))


def further_cases(config: RunConfig, operator: Operator, dtype: str) -> tuple[Case, ...]:
    """What a run tries beside its examples: exhaustive cases, and large ones of the operator's
    first dtype; all large ones if there are no examples."""
    if not config.examples:
        stages = range(ladder.STAGES)
        return tuple(c for n in stages for c in large_cases(config, operator, dtype, n))
    return (
        *exhaustive_cases(config, operator, dtype),
        *long_and_large_cases(config, operator, dtype),
    )


def long_and_large_cases(config: RunConfig, operator: Operator, dtype: str) -> tuple[Case, ...]:
    """Moderately large cases, and the large ones of the operator's first dtype, if the run asks for
    them."""
    first = next((d for d in operator.dtypes if config.dtypes is None or d in config.dtypes), "")
    large = large_cases(config, operator, dtype) if dtype == first else ()
    if config.long and config.source == SOURCES[0]:
        return (*long_cases.cases(operator, dtype), *large)
    return large


def shipped_cases(config: RunConfig, operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The cases of one operator × dtype that the package brings: what a run begins with, beside its
    examples."""
    return shipped.cases(operator, dtype) if _ships(config) else ()


def first_shipped_cases(
    config: RunConfig, operator: Operator, dtype: str, most: int
) -> tuple[Case, ...]:
    """The first ``most`` of :func:`shipped_cases`."""
    return shipped.first_cases(operator, dtype, most) if _ships(config) else ()


def shipped_count(config: RunConfig, operator: Operator, dtype: str) -> int:
    """How many :func:`shipped_cases` there are; they are not read."""
    return shipped.count(operator, dtype) if _ships(config) else 0


def _ships(config: RunConfig) -> bool:
    return config.shipped and config.source == SOURCES[0] and config.examples > 0


def without(cases: Sequence[Case], others: Sequence[Case]) -> list[Case]:
    """The cases that are not among ``others``."""
    ids = {case.id for case in others}
    return [case for case in cases if case.id not in ids] if ids else list(cases)


def exhaustive_cases(config: RunConfig, operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The exhaustive cases of one operator × dtype that the run asks for, beside its examples."""
    if config.exhaustive is False or config.source != SOURCES[0] or not config.examples:
        return ()
    try:
        return tuple(exhaustive.cases(operator, dtype, all_kinds=config.exhaustive is True))
    except Exception:  # a ``sample`` that raises: drawing says so
        return ()


def draw(operator: Operator, dtype: str, examples: int, seed: int) -> tuple[list[Case], str]:
    """The cases of one operator × dtype, or none and why: a ``sample`` that raises affects only its
    operator."""
    try:
        cases = search.batch(operator, dtype, examples, seed)
    except Untestable as reason:
        return [], str(reason)
    except Exception as error:
        return (
            [],
            (
                f"no case could be drawn ({type(error).__name__}: {str(error)[:200]}); please "
                "report it"
            ),
        )
    return cases, "" if cases else "no case could be drawn in which anything could be told"
