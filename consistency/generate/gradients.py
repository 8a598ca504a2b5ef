"""What every batch asks of gradients: cotangents in other layouts, inputs that track no gradient.

Programs do both all the time: what ``sum`` passes on on the way back is one number, expanded, and
the input of a model's first layer tracks nothing. Neither is drawn, because five cases would often
miss it: of each five cases of a batch, one is changed in each of these ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..core.model import Case
from ..operators.call_forms import empty
from ..operators.declare import Operator
from .long_transforms import transforms_long_dims
from .materialize import leaves as leaves_of
from .memory_safety import needs_every_gradient
from .ordinary_cases import is_ordinary

PERIOD = 5  # cases
# A batch of fewer stays as it was drawn: with every gradient in another layout, none would be in
# the usual one. A quick run draws so few, after shipped cases that have them.
FEWEST = 3


def with_cotangent_layouts(operator: Operator, cases: list[Case]) -> list[Case]:
    """The cases, of every five one with an expanded cotangent and another with a transposed one:
    those of ordinary numbers and most dimensions."""
    if not operator.differentiable:
        return cases
    changed = list(cases)
    for period in _periods(cases):
        chosen = sorted(period, key=lambda i: (not is_ordinary(cases[i]), -_rank(cases[i])))
        for i, layout in zip(chosen, ("expanded", "transposed"), strict=False):
            other = replace(cases[i], cotangent_layout=layout)
            if other.cotangent and not transforms_long_dims(operator, other):
                changed[i] = other
    return changed


def with_untracked_inputs(operator: Operator, cases: list[Case]) -> list[Case]:
    """The cases, of every five one with a tensor that tracks no gradient: the first one in the
    first five, which is the input as a rule, then each in turn. It is one of ordinary numbers and
    most leaves; where no case has two, all stay as they are."""
    if not operator.differentiable or operator.observe_gradients is not None:
        return cases  # what is observed of gradients is made of all of them
    changed = list(cases)
    for turn, period in enumerate(_periods(cases)):
        leaves = {i: _removable(operator, cases[i]) for i in period}
        i = max(period, key=_preference(cases, leaves))
        if len(leaves[i]) > 1:
            tensors = list(cases[i].tensors)
            without = leaves[i][turn % len(leaves[i])]
            tensors[without] = replace(tensors[without], leaf=False)
            changed[i] = cases[i].with_tensors(tensors)
    return changed


def _preference(
    cases: list[Case], leaves: dict[int, list[int]]
) -> Callable[[int], tuple[bool, bool, int, bool]]:
    def key(i: int) -> tuple[bool, bool, int, bool]:
        several = len(leaves[i]) > 1
        return several, is_ordinary(cases[i]), len(leaves[i]), not cases[i].cotangent_layout

    return key


def _periods(cases: list[Case]) -> Iterator[range]:
    if len(cases) < FEWEST:
        return
    for start in range(0, len(cases), PERIOD):
        yield range(start, min(start + PERIOD, len(cases)))


def _rank(case: Case) -> int:
    return max((len(empty(tensor).shape) for tensor in case.tensors), default=0)


def _removable(operator: Operator, case: Case) -> list[int]:
    """The positions of the tensors that track gradients, unless that may not change."""
    if needs_every_gradient(operator, case):
        return []
    return leaves_of(case, operator.leaves)
