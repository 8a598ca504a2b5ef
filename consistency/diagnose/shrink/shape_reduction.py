"""Candidates with fewer indices, fewer dimensions or larger numbers, and groups of related
dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...core import recipe
from ...core.dtypes import FORMATS
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from .tensor_edits import (
    Tensor,
    bits_of,
    literals_in,
    pieces_of,
    plain_layout,
    put,
    reals_of,
    tensors_of,
    with_bits,
    with_tensors,
)

Group = tuple[tuple[int, int], ...]  # (tensor, dimension)
_MAX_PAIRED_DIMS = 6  # dimensions of one size, for which all pairs are tried


def sizes_of(case: Case) -> list[int]:
    """The distinct sizes above 1, the largest first."""
    return sorted({n for t in tensors_of(case) for n in shape_of(t) if n > 1}, reverse=True)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The sizes that can be changed: none for a recipe with views."""
    return tensor.shape if isinstance(tensor, Literal) else () if tensor.view else tensor.base


def groups_of(case: Case, n: int) -> list[Group]:
    """Groups of dimensions of size ``n`` that may be related: all, same position from the right
    or left, pairs, single ones."""
    shapes = [shape_of(t) for t in tensors_of(case)]
    dims = [(t, d) for t, shape in enumerate(shapes) for d, size in enumerate(shape) if size == n]
    groups: dict[Group, None] = {tuple(dims): None}
    for position in sorted({d - len(shapes[t]) for t, d in dims}):
        groups.setdefault(tuple((t, d) for t, d in dims if d - len(shapes[t]) == position))
    for position in sorted({d for _, d in dims}):
        groups.setdefault(tuple((t, d) for t, d in dims if d == position))
    if len(dims) <= _MAX_PAIRED_DIMS:
        for i, first in enumerate(dims):
            for second in dims[i + 1 :]:
                groups.setdefault((first, second))
    for single in dims:
        groups.setdefault((single,))
    return list(groups)


def reduce_shape(case: Case, group: Group, kept: list[int]) -> Iterator[Case]:
    """The case with only the indices ``kept`` along the dimensions of ``group``, and its variants.

    Integer arguments equal to the size, and positions in integer tensors, are adapted in some
    variants.
    """
    tensors = tensors_of(case)
    n, indices = shape_of(tensors[group[0][0]])[group[0][1]], np.asarray(kept, dtype=np.intp)
    smaller = [
        _take(tensor, [dim for i, dim in group if i == t], indices)
        for t, tensor in enumerate(tensors)
    ]
    if None in smaller:
        return
    reduced = with_tensors(case, [tensor for tensor in smaller if tensor is not None])
    with_numbers = _adapt_numbers(reduced, n, len(indices))
    variants = [reduced] if with_numbers == reduced else [with_numbers, reduced]
    for variant in variants:
        yield variant
        adapted = _adapt_positions(variant, n, indices)
        if adapted is not None:
            yield adapted


def _take(tensor: Tensor, dims: list[int], indices: Any) -> Tensor | None:
    """The tensor with only ``indices`` along some dimensions; for a recipe only their number
    matters."""
    if not dims:
        return tensor
    if isinstance(tensor, TensorRecipe):
        return replace(
            tensor, base=tuple(indices.size if d in dims else n for d, n in enumerate(tensor.base))
        )
    piece = pieces_of(tensor)
    elements = piece.elements
    for dim in dims:
        elements = np.take(elements, indices, axis=dim)
    return piece.laid(elements)


def _adapt_numbers(case: Case, n: int, k: int) -> Case:
    def adapt(value: recipe.Arg) -> recipe.Arg:
        match value:
            case bool():
                return value
            case int() if abs(value) == n:
                return k if value > 0 else -k
            case recipe.Index(start, stop, step):
                return recipe.Index(start, k if stop == n else stop, step)
            case list() | tuple():
                return type(value)([adapt(item) for item in value])
        return value

    return replace(
        case,
        args=tuple(map(adapt, case.args)),
        kwargs={name: adapt(v) for name, v in case.kwargs.items()},
    )


def _adapt_positions(case: Case, n: int, indices: Any) -> Case | None:
    """Map positions in integer tensors to the new indices of their elements (removed ones to the
    first); None if all are valid."""
    tensors = tensors_of(case)
    new_position = np.zeros(n, dtype=np.int64)
    new_position[indices] = np.arange(indices.size)
    changed = False
    for i, tensor in enumerate(tensors):
        if (
            not isinstance(tensor, Literal)
            or tensor.dtype not in ("int64", "int32")
            or tensor.dtype == case.dtype
        ):
            continue
        storage = bits_of(tensor)  # including what the view hides: a backend may read it
        inside = (storage >= -n) & (storage < n)
        if not inside.any() or not (np.abs(storage[inside]) >= indices.size).any():
            continue
        tensors[i] = with_bits(
            tensor, np.where(inside, new_position[storage % n], storage).astype(storage.dtype)
        )
        changed = True
    return with_tensors(case, tensors) if changed else None


def times(case: Case, factor: float) -> Case:
    """The case with every finite floating-point number of literal tensors multiplied by
    ``factor``."""
    tensors = tensors_of(case)
    for i, tensor in literals_in(case):
        if tensor.dtype in FORMATS:
            numbers = reals_of(bits_of(tensor), tensor.dtype)
            scaled = np.where(np.isfinite(numbers), numbers * factor, numbers)
            tensors[i] = with_bits(tensor, put(bits_of(tensor), tensor.dtype, slice(None), scaled))
    return with_tensors(case, tensors)


def flat(case: Case) -> Case:
    """The case with every tensor flattened."""
    tensors: list[Any] = tensors_of(case)
    for i, tensor in literals_in(case):
        piece = pieces_of(tensor)
        if piece.elements.ndim > 1:
            tensors[i] = piece.laid(piece.elements.reshape(-1), plain_layout(1)) or tensor
    return with_tensors(case, tensors)


def squeezed(tensor: Tensor, dim: int) -> Tensor:
    if isinstance(tensor, TensorRecipe):
        return replace(tensor, base=(*tensor.base[:dim], *tensor.base[dim + 1 :]))
    piece = pieces_of(tensor)
    return piece.laid(piece.elements.squeeze(dim), piece.layout.without(dim)) or tensor
