"""How a backend misreads the layout of expanded inputs.

Whoever reads an expanded tensor as if it were contiguous leaves its memory, and what is found there
no simulation knows. So the case is repeated with one item of each expanded dimension: its other
strides are the same, and all that is misread lies in its memory.
"""

from __future__ import annotations

import torch

from ..core.model import Cause
from ..generate.literal_copies import literal_copy
from ..operators.refusals import REFUSALS
from ..reference import Reference
from .attribution import AttributionContext, explain
from .experiments import FlaggedResult

_MISREADINGS = frozenset({"strides-ignored", "offset-ignored"})


def cause_without_expansion(
    flagged: FlaggedResult, context: AttributionContext | None
) -> Cause | None:
    """Ignored strides or offsets that explain the error of the same case without its expansions;
    None where nothing is expanded, or neither explains it."""
    if context is None or flagged.direction == "backward" or flagged.operator.mutates:
        return None
    if not any(_expanded_dims(t) for t in flagged.reference.arguments.tensors):
        return None
    try:
        materials = literal_copy(
            flagged.materials, lambda tensor, _: _one_of_each(tensor), strided=True
        )
        reference = Reference(flagged.operator, materials, flagged.direction)
        outcome = flagged.rerun(materials=materials)
        if not outcome.ok or not reference.outcome.ok:
            return None
        smaller = AttributionContext(
            reference, outcome, flagged.judgment.output, special=context.special, everywhere=False
        )
        return explain(smaller, only=_MISREADINGS) if smaller.failing.any() else None
    except REFUSALS:
        return None


def _expanded_dims(tensor: torch.Tensor) -> list[int]:
    return [
        dim
        for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
        if size > 1 and stride == 0
    ]


def _one_of_each(tensor: torch.Tensor) -> torch.Tensor:
    for dim in _expanded_dims(tensor):
        tensor = tensor.narrow(dim, 0, 1)
    return tensor
