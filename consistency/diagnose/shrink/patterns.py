"""Smaller parts of an exhaustive case: the worst element alone, then the aligned blocks of patterns
around it.

An element keeps its bit pattern and its cotangent: the cotangent's window ends at that element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...core import bits
from ...core.dtypes import FORMATS
from ...core.model import Case, Worst
from ...core.recipe import TensorRecipe
from ...generate.exhaustive import is_exhaustive, is_swept
from ...generate.materialize import prepare
from ...generate.patterns import width_of
from .tensor_edits import tensors_of, with_tensors

_BLOCKS = (16, 256, 4096, 1 << 16)  # elements: for kernels that differ by position


def parts(case: Case, worst: Worst | None) -> Iterator[Case]:
    """Parts of an exhaustive case that hold its worst element, the smallest first; none of any
    other case."""
    if worst is None or not is_exhaustive(case) or case.cotangents:
        return
    shape = _shape(case)
    if len(worst.index) < len(shape):
        return
    index = worst.index[: len(shape)]
    flat = sum(i * math.prod(shape[d + 1 :]) for d, i in enumerate(index))
    yield _element(case, index, flat, shape)
    if len(shape) == 1:
        for size in _BLOCKS:
            if size < shape[0]:
                yield _block(case, flat // size * size, size, shape[0])


def _shape(case: Case) -> tuple[int, ...]:
    """The shape of the swept tensors."""
    swept = next(t for t in case.tensors if is_swept(case, t))
    assert isinstance(swept, TensorRecipe)
    return tuple(swept.view[0][1:]) if swept.view else swept.base


def _element(case: Case, index: tuple[int, ...], flat: int, shape: tuple[int, ...]) -> Case:
    """The case of one element."""
    arguments = prepare(case).build()
    tensors = tensors_of(case)
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, TensorRecipe):
            continue
        whole = arguments.tensors[position]
        if is_swept(case, tensor):
            width = 8 * whole.element_size()
            pattern = int(bits.integers(whole[index].reshape(1)).item()) % (1 << width)
            tensors[position] = TensorRecipe((1,), tensor.dtype, ("every", pattern))
        elif tuple(whole.shape) == shape and not tensor.view:
            tensors[position] = _window(tensor, flat, 1, whole.numel())
    return _against(with_tensors(case, tensors), flat, 1, math.prod(shape))


def _block(case: Case, start: int, size: int, whole: int) -> Case:
    """The case of ``size`` elements from ``start`` on."""
    tensors = tensors_of(case)
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, TensorRecipe) or tensor.base != (whole,):
            continue
        if tensor.values[0] == "every":
            first, *step = tensor.values[1:] or (0,)
            first = (int(first) + start * int(*step or (1,))) % (
                1 << width_of(FORMATS[tensor.dtype])
            )
            tensors[position] = replace(tensor, base=(size,), values=("every", first, *step))
        else:
            tensors[position] = _window(tensor, start, size, whole)
    return _against(with_tensors(case, tensors), start, size, whole)


def _window(tensor: TensorRecipe, start: int, size: int, whole: int) -> TensorRecipe:
    return replace(tensor, base=(size,), stop=tensor.stop - whole + start + size)


def _against(case: Case, start: int, size: int, whole: int) -> Case:
    """The case with the cotangents that these elements had."""
    return replace(case, cotangent=case.cotangent and case.cotangent - whole + start + size)
