"""Plainer layouts and dtypes: contiguous from the beginning of the storage, float32, as far as the
failure lets them be."""

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
    """All tensors contiguous at once, then each by itself, then as nearly so as it can be."""
    search.report("layout")
    if search.accept(_all_plain(search.case)):
        return
    for i, _ in list(literals_in(search.case)):
        while any(search.accept(candidate) for candidate in _plainer(search.case, i)):
            pass


def _all_plain(case: Case) -> Case | None:
    """Every tensor contiguous; None where that would take more numbers (expanded and overlapping
    ones)."""
    tensors = tensors_of(case)
    for i, tensor in literals_in(case):
        piece = pieces_of(tensor)
        tensors[i] = piece.laid(layout=plain_layout(len(tensor.shape))) or tensor
    plain = with_tensors(case, tensors)
    return plain if numbers_in(plain) <= numbers_in(case) else None


def _plainer(case: Case, i: int) -> Iterator[Case]:
    tensors = tensors_of(case)
    tensor = tensors[i]
    assert isinstance(tensor, Literal)
    piece = pieces_of(tensor)
    if piece.layout.plain and size_of(tensor) == piece.elements.size:
        return
    for layout in _layouts(piece):
        laid = piece.laid(layout=layout)
        if laid is not None and _awkward(laid) < _awkward(tensor):
            yield with_tensors(case, [*tensors[:i], laid, *tensors[i + 1 :]])


def _awkward(tensor: Literal) -> tuple[int, ...]:
    """How far a layout is from plain: what is tried is always nearer to it, so that trying comes to
    an end."""
    layout = pieces_of(tensor).layout
    places = [dim for dim in layout.order if tensor.shape[dim] > 1]
    turned = sum(a > b for i, a in enumerate(places) for b in places[i + 1 :])
    strange = layout.strides is not None
    return (
        size_of(tensor),
        strange,
        len(layout.expanded),
        turned,
        sum(layout.pads),
        layout.offset,
        sum(tensor.stride),
    )


def _layouts(piece: TensorPiece) -> Iterator[StridedLayout]:
    """Simpler layouts than a piece's own, the simplest first."""
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
    if len(piece.hidden) or own.offset:  # what lies behind the last element
        yield own


_TOWARDS = {
    "float64": "float32",
    "float16": "float32",
    "bfloat16": "float32",
    "complex128": "complex64",
}


def simplify_dtype(search: Search) -> None:
    """float32 in place of other floating dtypes, where the operator takes it."""
    case = search.case
    wanted = _TOWARDS.get(case.dtype)
    if (
        wanted is None
        or wanted not in search.predicate.operator.dtypes
        or parse_source(case.source).kind == CALL
    ):
        return
    search.report(f"dtype {wanted}")

    def swap(value: recipe.Arg) -> Any:
        match value:
            case recipe.DType(name) if name == case.dtype:
                return recipe.DType(wanted)
            case Literal() if value.dtype in _TOWARDS:
                return _cast(value, _TOWARDS[value.dtype])
            case list() | tuple():
                return type(value)([swap(item) for item in value])
        return value

    kwargs = {name: swap(value) for name, value in case.kwargs.items()}
    cotangents = tuple(map(swap, case.cotangents))
    search.accept(
        replace(
            case,
            dtype=wanted,
            args=tuple(map(swap, case.args)),
            kwargs=kwargs,
            cotangents=cotangents,
        )
    )


def _cast(tensor: Literal, dtype: str) -> Literal:
    numbers = reals_of(bits_of(tensor), tensor.dtype)
    count = numbers.size // (2 if dtype in dtypes.PARTS else 1)
    fresh = np.zeros(count, dtype=dtype)
    return replace(tensor, data=put(fresh, dtype, slice(None), numbers).tobytes(), dtype=dtype)
