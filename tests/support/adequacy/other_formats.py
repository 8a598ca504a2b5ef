"""Candidates of one dtype made from the cases of another: float32 has most of the cases that are
shipped, and kernels of half precision, of complex numbers and of integers are others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from consistency.core.dtypes import FORMATS, floats
from consistency.core.model import Case
from consistency.core.recipe import DType, TensorRecipe
from consistency.generate.varied import operand_dtypes

# Classes whose numbers are in the range of every format.
PLAIN = frozenset(
    {"uniform", "normal", "integers", "sparse", "cancelling", "tokens", "constant", "leading"}
)
LARGEST = 256.0  # up to which bfloat16 holds every whole number


def translated(cases: Iterable[Case], dtype: str) -> Iterator[Case]:
    """The cases whose tensors and numbers have a place in ``dtype``."""
    for case in cases:
        if _names_a_dtype(case):
            continue
        tensors = [_in(dtype, t, t.dtype == case.dtype) for t in case.tensors]
        kept = [tensor for tensor in tensors if tensor is not None]
        if len(kept) == len(tensors):
            cotangent = case.cotangent if floats(dtype) else 0
            yield replace(case.with_tensors(kept), dtype=dtype, cotangent=cotangent)


def _in(dtype: str, tensor: object, own: bool) -> TensorRecipe | None:
    """The tensor in ``dtype`` where it has the case's ``own``; None where it has no place there."""
    if not isinstance(tensor, TensorRecipe) or not _is_plain(tensor):
        return None
    if not own or floats(dtype):
        return replace(tensor, dtype=dtype) if own else tensor
    values = None if tensor.special else operand_dtypes.values_in(tensor, dtype)
    return None if values is None else replace(tensor, dtype=dtype, values=values, leaf=False)


def _is_plain(tensor: TensorRecipe) -> bool:
    numbers = [value for value in tensor.values[1:] if isinstance(value, (int, float))]
    small = tensor.dtype not in FORMATS or all(abs(number) <= LARGEST for number in numbers)
    # A third one is the length of what leads.
    return tensor.values[0] in PLAIN and (small or tensor.values[0] == "leading")


def _names_a_dtype(case: Case) -> bool:
    given: tuple[Any, ...] = (*case.args, *case.kwargs.values())
    return any(isinstance(argument, DType) for argument in given)
