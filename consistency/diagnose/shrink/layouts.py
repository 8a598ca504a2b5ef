"""Simpler layouts and dtypes: contiguous, offset 0, float32, as long as the case still fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...core import dtypes, recipe
from ...core.case_source import CALL, parse_source
from ...core.model import Case
from ...core.recipe import Literal
from .failure_predicate import Search
from .tensor_edits import (
    StridedLayout,
    TensorPiece,
    bits_of,
    literals_in,
    numbers_in,
    pieces_of,
    plain_layout,
    put,
    reals_of,
    size_of,
    tensors_of,
    with_tensors,
)


def simplify_layouts(search: Search) -> None:
    """Make all tensors contiguous at once, else each as simple as possible."""
    search.report("layout")
    if search.accept(_all_contiguous(search.case)):
        return
    for i, _ in list(literals_in(search.case)):
        while any(search.accept(candidate) for candidate in _simpler_cases(search.case, i)):
            pass


def _all_contiguous(case: Case) -> Case | None:
    """Every tensor contiguous; None if that needs more numbers (expanded or overlapping
    tensors)."""
    tensors = tensors_of(case)
    for i, tensor in literals_in(case):
        piece = pieces_of(tensor)
        tensors[i] = piece.laid(layout=plain_layout(len(tensor.shape))) or tensor
    plain = with_tensors(case, tensors)
    return plain if numbers_in(plain) <= numbers_in(case) else None


def _simpler_cases(case: Case, i: int) -> Iterator[Case]:
    tensors = tensors_of(case)
    tensor = tensors[i]
    assert isinstance(tensor, Literal)
    piece = pieces_of(tensor)
    if piece.layout.plain and size_of(tensor) == piece.elements.size:
        return
    for layout in _layouts(piece):
        candidate = piece.laid(layout=layout)
        if candidate is not None and _complexity(candidate) < _complexity(tensor):
            yield with_tensors(case, [*tensors[:i], candidate, *tensors[i + 1 :]])


def _complexity(tensor: Literal) -> tuple[int, ...]:
    """The distance of a layout from contiguous; every accepted step reduces it, so the search
    terminates."""
    layout = pieces_of(tensor).layout
    dims = [dim for dim in layout.order if tensor.shape[dim] > 1]
    inversions = sum(a > b for i, a in enumerate(dims) for b in dims[i + 1 :])
    has_explicit_strides = layout.strides is not None
    return (
        size_of(tensor),
        has_explicit_strides,
        len(layout.expanded),
        inversions,
        sum(layout.pads),
        layout.offset,
        sum(tensor.stride),
    )


def _layouts(piece: TensorPiece) -> Iterator[StridedLayout]:
    """Simpler layouts of a piece, the simplest first."""
    own, rank = piece.layout, piece.elements.ndim
    order = tuple(range(rank))
    yield plain_layout(rank)
    if own.strides is not None:
        yield replace(own, offset=0)
        return
    yield replace(own, pads=(0,) * rank, offset=0)
    yield replace(own, order=order)
    yield replace(own, expanded=frozenset(), pads=(0,) * rank)
    yield replace(own, offset=0)
    for dim in (d for d in order if own.pads[d]):
        for pad in sorted({0, 1, own.pads[dim] // 2} - {own.pads[dim]}):
            yield replace(own, pads=(*own.pads[:dim], pad, *own.pads[dim + 1 :]))
    if own.offset > 1:
        yield replace(own, offset=1)
        yield replace(own, offset=own.offset // 2)
    if len(piece.hidden) or own.offset:  # drops what follows the last element
        yield own


_SIMPLER_DTYPES = {
    "float64": "float32",
    "float16": "float32",
    "bfloat16": "float32",
    "complex128": "complex64",
}


def simplify_dtype(search: Search) -> None:
    """Replace other floating-point dtypes by float32 if the operator supports it."""
    case = search.case
    target = _SIMPLER_DTYPES.get(case.dtype)
    if (
        target is None
        or target not in search.predicate.operator.dtypes
        or parse_source(case.source).kind == CALL
    ):
        return
    search.report(f"dtype {target}")

    def swap(value: recipe.Arg) -> Any:
        match value:
            case recipe.DType(name) if name == case.dtype:
                return recipe.DType(target)
            case Literal() if value.dtype in _SIMPLER_DTYPES:
                return _cast(value, _SIMPLER_DTYPES[value.dtype])
            case list() | tuple():
                return type(value)([swap(item) for item in value])
        return value

    kwargs = {name: swap(value) for name, value in case.kwargs.items()}
    cotangents = tuple(map(swap, case.cotangents))
    search.accept(
        replace(
            case,
            dtype=target,
            args=tuple(map(swap, case.args)),
            kwargs=kwargs,
            cotangents=cotangents,
        )
    )


def _cast(tensor: Literal, dtype: str) -> Literal:
    numbers = reals_of(bits_of(tensor), tensor.dtype)
    count = numbers.size // (2 if dtype in dtypes.PARTS else 1)
    storage = np.zeros(count, dtype=dtype)
    return replace(tensor, data=put(storage, dtype, slice(None), numbers).tobytes(), dtype=dtype)
