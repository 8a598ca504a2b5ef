"""Candidates of one dtype made from the cases of another: float32 has most of the cases that are
shipped, and kernels of half precision and of float64 are others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from consistency.core.dtypes import FORMATS
from consistency.core.model import Case
from consistency.core.recipe import DType, TensorRecipe

# Classes whose numbers are in the range of every format.
PLAIN = frozenset(
    {"uniform", "normal", "integers", "sparse", "cancelling", "tokens", "constant", "leading"}
)
LARGEST = 256.0  # up to which bfloat16 holds every whole number


def translated(cases: Iterable[Case], dtype: str) -> Iterator[Case]:
    """The cases whose tensors and numbers have a place in ``dtype``."""
    if dtype not in FORMATS:
        return
    for case in cases:
        if all(map(_is_plain, case.tensors)) and not _names_a_dtype(case):
            tensors = [
                replace(t, dtype=dtype)
                if isinstance(t, TensorRecipe) and t.dtype == case.dtype
                else t
                for t in case.tensors
            ]
            yield replace(case.with_tensors(tensors), dtype=dtype)


def _is_plain(tensor: object) -> bool:
    if not isinstance(tensor, TensorRecipe):
        return False
    numbers = [value for value in tensor.values[1:] if isinstance(value, (int, float))]
    small = tensor.dtype not in FORMATS or all(abs(number) <= LARGEST for number in numbers)
    # A third one is the length of what leads.
    return tensor.values[0] in PLAIN and (small or tensor.values[0] == "leading")


def _names_a_dtype(case: Case) -> bool:
    given: tuple[Any, ...] = (*case.args, *case.kwargs.values())
    return any(isinstance(argument, DType) for argument in given)
