"""Two cases of a batch that differ in one number only: a kernel that was built for the first must
not be used for the second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..core.model import Case
from ..core.recipe import Arg, TensorRecipe
from ..operators.declare import Operator
from .ordinary_cases import is_ordinary

# Their numbers are sizes, probabilities or parts of a program.
_FAMILIES = frozenset({"creation", "interpolate", "optimizers", "programs", "random", "signal"})
FEWEST = 4  # cases of a batch of which one is such a second case


def with_scalar_pair(
    operator: Operator, cases: Sequence[Case], kept: Sequence[Case] = ()
) -> list[Case]:
    """The cases, where one takes a Python float that is no whole number: then the last but those
    of ``kept`` is replaced by that one with half of the number. Rather one of ordinary numbers."""
    if len(cases) < FEWEST or (operator.derivative_of or operator).family in _FAMILIES:
        return list(cases)
    for position in sorted(range(len(cases)), key=lambda i: (not _is_usual(cases[i]), i)):
        other = _with_other_number(cases[position])
        places = [i for i, c in enumerate(cases) if i != position and c not in kept]
        if other is not None and places:
            return [*cases[: places[-1]], other, *cases[places[-1] + 1 :]]
    return list(cases)


def _is_usual(case: Case) -> bool:
    """Whether there are several numbers, and ordinary ones."""
    several = any(isinstance(t, TensorRecipe) and math.prod(t.base) > 1 for t in case.tensors)
    return several and is_ordinary(case)


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
