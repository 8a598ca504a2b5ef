"""Tensors of positions that are given number by number."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from ..core.recipe import Literal
from .declare import Drawing


def positions(d: Drawing, numbers: Sequence[int], shape: Sequence[int]) -> Literal:
    """The numbers as an int64 tensor of that shape, in one of four cases every second number of
    its memory, where they stand in reverse order between. Shrinks to a contiguous tensor."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    if len(numbers) > 1 and d.choice(False, False, False, True):
        numbers = [each for pair in zip(numbers, numbers[::-1], strict=True) for each in pair]
        strides = [2 * stride for stride in strides]
    data = struct.pack(f"<{len(numbers)}q", *numbers)
    return Literal(data, "int64", tuple(shape), tuple(strides))


__all__ = ["positions"]
