"""Cases with fewer indices, fewer dimensions or larger numbers; and which dimensions belong
together."""

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
_ALL_PAIRS = 6  # dimensions of one size, up to which every two of them are tried together


def sizes_of(case: Case) -> list[int]:
    """The distinct sizes above 1, the largest first."""
    return sorted({n for t in tensors_of(case) for n in shape_of(t) if n > 1}, reverse=True)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The sizes that can be changed: not those that a chain of views leads to."""
    return tensor.shape if isinstance(tensor, Literal) else () if tensor.view else tensor.base


def groups_of(case: Case, n: int) -> list[Group]:
    """Which dimensions of size ``n`` may belong together: all, those at one place from the right or
    left, pairs, single ones."""
    shapes = [shape_of(t) for t in tensors_of(case)]
    found = [(t, d) for t, shape in enumerate(shapes) for d, size in enumerate(shape) if size == n]
    groups: dict[Group, None] = {tuple(found): None}
    for place in sorted({d - len(shapes[t]) for t, d in found}):
        groups.setdefault(tuple((t, d) for t, d in found if d - len(shapes[t]) == place))
    for place in sorted({d for _, d in found}):
        groups.setdefault(tuple((t, d) for t, d in found if d == place))
    if len(found) <= _ALL_PAIRS:
        for i, first in enumerate(found):
            for second in found[i + 1 :]:
                groups.setdefault((first, second))
    for one in found:
        groups.setdefault((one,))
    return list(groups)


def reduce_shape(case: Case, group: Group, kept: list[int]) -> Iterator[Case]:
    """The case with only the indices ``kept`` along the dimensions of ``group``, and its variants.

    Whole numbers among the arguments that equal the size follow it, or stay; positions in integer
    tensors follow, or stay.
    """
    tensors = tensors_of(case)
    n, where = shape_of(tensors[group[0][0]])[group[0][1]], np.asarray(kept, dtype=np.intp)
    smaller = [
        _kept(tensor, [dim for i, dim in group if i == t], where)
        for t, tensor in enumerate(tensors)
    ]
    if None in smaller:
        return
    plain = with_tensors(case, [tensor for tensor in smaller if tensor is not None])
    following = _numbers_follow(plain, n, len(where))
    variants = [plain] if following == plain else [following, plain]
    for variant in variants:
        yield variant
        moved = _positions_follow(variant, n, where)
        if moved is not None:
            yield moved


def _kept(tensor: Tensor, dims: list[int], where: Any) -> Tensor | None:
    """The tensor with only the indices ``where`` along some dimensions; of a recipe only their
    number counts."""
    if not dims:
        return tensor
    if isinstance(tensor, TensorRecipe):
        return replace(
            tensor, base=tuple(where.size if d in dims else n for d, n in enumerate(tensor.base))
        )
    piece = pieces_of(tensor)
    elements = piece.elements
    for dim in dims:
        elements = np.take(elements, where, axis=dim)
    return piece.laid(elements)


def _numbers_follow(case: Case, n: int, k: int) -> Case:
    def follow(value: recipe.Arg) -> recipe.Arg:
        match value:
            case bool():
                return value
            case int() if abs(value) == n:
                return k if value > 0 else -k
            case recipe.Index(start, stop, step):
                return recipe.Index(start, k if stop == n else stop, step)
            case list() | tuple():
                return type(value)([follow(item) for item in value])
        return value

    return replace(
        case,
        args=tuple(map(follow, case.args)),
        kwargs={name: follow(v) for name, v in case.kwargs.items()},
    )


def _positions_follow(case: Case, n: int, where: Any) -> Case | None:
    """Positions that integer tensors hold go where their elements went, others to the first; None
    where there are none beyond."""
    tensors = tensors_of(case)
    place = np.zeros(n, dtype=np.int64)
    place[where] = np.arange(where.size)
    changed = False
    for i, tensor in enumerate(tensors):
        if (
            not isinstance(tensor, Literal)
            or tensor.dtype not in ("int64", "int32")
            or tensor.dtype == case.dtype
        ):
            continue
        storage = bits_of(tensor)  # with what a view does not show: a backend may read it
        inside = (storage >= -n) & (storage < n)
        if not inside.any() or not (np.abs(storage[inside]) >= where.size).any():
            continue
        tensors[i] = with_bits(
            tensor, np.where(inside, place[storage % n], storage).astype(storage.dtype)
        )
        changed = True
    return with_tensors(case, tensors) if changed else None


def times(case: Case, factor: float) -> Case:
    """The case with every finite floating number of literal tensors multiplied."""
    tensors = tensors_of(case)
    for i, tensor in literals_in(case):
        if tensor.dtype in FORMATS:
            numbers = reals_of(bits_of(tensor), tensor.dtype)
            larger = np.where(np.isfinite(numbers), numbers * factor, numbers)
            tensors[i] = with_bits(tensor, put(bits_of(tensor), tensor.dtype, slice(None), larger))
    return with_tensors(case, tensors)


def flat(case: Case) -> Case:
    """Every tensor with one dimension."""
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
