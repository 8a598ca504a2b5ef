"""Two cases of a batch that differ in one number only: a kernel that was built for the first must
not be used for the second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..core.model import Case
from ..core.recipe import Arg
from ..operators.declare import Operator

# Their numbers are sizes, probabilities or parts of a program.
_FAMILIES = frozenset({"creation", "interpolate", "optimizers", "programs", "random", "signal"})
FEWEST = 4  # cases of a batch of which one is such a second case


def with_scalar_pair(operator: Operator, cases: Sequence[Case]) -> list[Case]:
    """The cases, where one takes a Python float that is no whole number: then the last is that one
    once more, with half of the number. No case is added."""
    if len(cases) < FEWEST or operator.family in _FAMILIES:
        return list(cases)
    for case in cases[:-1]:
        other = _with_other_number(case)
        if other is not None:
            return [*cases[:-1], other]
    return list(cases)


def _with_other_number(case: Case) -> Case | None:
    for position, value in enumerate(case.args):
        if (half := _half(value)) is not None:
            return replace(case, args=(*case.args[:position], half, *case.args[position + 1 :]))
    for name, value in case.kwargs.items():
        if (half := _half(value)) is not None:
            return replace(case, kwargs={**case.kwargs, name: half})
    return None


def _half(value: Arg) -> float | None:
    """Half of a number as a multiple of 1/64, as they are drawn; None for whole numbers, which may
    be orders or degrees, and where it would be 0."""
    if not isinstance(value, float) or not math.isfinite(value) or value == math.trunc(value):
        return None
    return math.trunc(32.0 * value) / 64.0 or None
