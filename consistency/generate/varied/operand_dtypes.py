"""One tensor of a call in another dtype than the others: what torch promotes, a kernel may read as
if it were not, and its bytes are then other numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...core.dtypes import ALL, INTEGER_RANGE, WIDE_UNSIGNED, floats
from ...core.model import Case
from ...core.recipe import TensorRecipe
from ..variations import with_tensor

MOST_TENSORS = 3
# Torch promotes no wide unsigned integers: it refuses them beside another dtype.
OTHERS = tuple(name for name in ALL if name not in WIDE_UNSIGNED)
SMALL = 9.0  # whole numbers that stand for fractions
# Classes whose numbers keep their meaning when they are rounded to a wider format.
ANY_FORMAT = frozenset({"uniform", "normal", "integers", "tokens"})


def of(case: Case, most: int = MOST_TENSORS) -> Iterator[Case]:
    """Each tensor of the case's dtype in turn, up to ``most``, in every other one; masks and
    indices keep theirs. Some pairs are refused by the call."""
    if sum(tensor.dtype == case.dtype for tensor in case.tensors) < 2:
        return  # it would be a case of another dtype
    if case.dtype in WIDE_UNSIGNED:
        return
    for number, tensor in enumerate(case.tensors[:most]):
        if not isinstance(tensor, TensorRecipe) or tensor.dtype != case.dtype or tensor.special:
            continue
        for dtype in OTHERS:
            values = values_in(tensor, dtype)
            if dtype != case.dtype and values is not None:
                kept = tensor.leaf and bool(tensor.base) and floats(dtype)
                other = replace(tensor, dtype=dtype, values=values, leaf=kept)
                yield with_tensor(case, number, other)


def values_in(tensor: TensorRecipe, dtype: str) -> tuple[Any, ...] | None:
    """The value class of the same numbers, or the nearest one, in another dtype; None where the
    tensor's numbers have a structure that this one cannot keep."""
    kind, *numbers = tensor.values
    if kind not in ANY_FORMAT:
        return None
    if dtype not in INTEGER_RANGE:
        return tensor.values
    low, high = -SMALL, SMALL
    if kind in ("uniform", "integers"):
        low, high = max(low, numbers[0]), min(high, numbers[1])
    least, most = INTEGER_RANGE[dtype]
    first, last = max(math.ceil(low), least), min(math.floor(high), most)
    return ("integers", first, last) if first <= last else None


__all__ = ["of", "values_in"]
