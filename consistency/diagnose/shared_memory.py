"""How a backend misreads the layout of inputs whose elements share memory: expanded ones, windows
that overlap.

Whoever reads such a tensor as if it were contiguous leaves its memory, and what is found there no
simulation knows. So the case is repeated with other numbers behind them, as many as would be read:
the strides are the same, and all that is misread lies in their memory.
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


def cause_with_room_behind(
    flagged: FlaggedResult, context: AttributionContext | None
) -> Cause | None:
    """Ignored strides or offsets that explain the error of the same case with room behind its
    inputs; None where all of them have it, or neither explains the error."""
    if context is None or flagged.direction == "backward":
        return None
    if not any(_lacking(t) for t in flagged.reference.arguments.tensors):
        return None
    try:
        materials = literal_copy(
            flagged.materials, lambda tensor, _: _with_room(tensor), strided=True
        )
        reference = Reference(flagged.operator, materials, flagged.direction)
        outcome = flagged.rerun(materials=materials)
        if not outcome.ok or not reference.outcome.ok:
            return None
        roomy = AttributionContext(
            reference, outcome, flagged.judgment.output, special=context.special, everywhere=False
        )
        return explain(roomy, only=_MISREADINGS) if roomy.failing.any() else None
    except REFUSALS:
        return None


def _lacking(tensor: torch.Tensor) -> int:
    """How many elements of the tensor, read one after the other from its first one on, lie behind
    its memory."""
    held = tensor.untyped_storage().nbytes() // tensor.element_size()
    return max(tensor.numel() - held + int(tensor.storage_offset()), 0)


def _with_room(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements and strides, with elements of its own behind them, in another order."""
    lacking = _lacking(tensor)
    if not lacking:
        return tensor
    held = tensor.untyped_storage().nbytes() // tensor.element_size()
    memory = torch.as_strided(tensor, (held,), (1,), 0)
    further = tensor.reshape(-1).roll(1).flip(0)[:lacking]
    roomy = torch.cat([memory, further])
    return roomy.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
