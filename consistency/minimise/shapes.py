"""Smaller sizes: dimensions of equal size shrink together, also with whole numbers among the arguments that equal them.

Of a dimension the first or last few indices are kept, then the shortest beginning and the shortest end that still fail (by
bisection), then blocks and single indices are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import recipe
from ..dtypes import FORMATS
from ..model import Case
from ..recipe import Literal, TensorRecipe
from .oracle import Search
from .pieces import Tensor, apart, bits_of, literals_in, plain_layout, put, reals_of, tensors_of, with_bits, with_tensors

Group = tuple[tuple[int, int], ...]  # (tensor, dimension)
_FEW = (1, 2, 3)
_MANY = 9
_SINGLY = 40  # indices, up to which each one is tried to be left out
_ALL_PAIRS = 6  # dimensions of one size, up to which every two of them are tried together


def smaller_sizes(search: Search) -> None:
    """Shrink sizes until none of them goes down any more: of literal tensors, and of recipes without views."""
    hopeless: set[tuple[str, Group]] = set()
    while _one_round(search, hopeless):
        pass


def _one_round(search: Search, hopeless: set[tuple[str, Group]]) -> bool:
    for n in sizes_of(search.case):
        for group in groups_of(search.case, n):
            key = (search.case.digest, group)
            if key in hopeless:
                continue
            if _shrink(search, group, n):
                return True
            hopeless.add(key)
    return _fewer_dimensions(search)


def sizes_of(case: Case) -> list[int]:
    """The distinct sizes above 1, the largest first."""
    return sorted({n for t in tensors_of(case) for n in _shape(t) if n > 1}, reverse=True)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """The sizes that can be changed: not those that a chain of views leads to."""
    return tensor.shape if isinstance(tensor, Literal) else () if tensor.view else tensor.base


def groups_of(case: Case, n: int) -> list[Group]:
    """Which dimensions of size ``n`` may belong together: all, those at one place from the right or left, pairs, single ones."""
    shapes = [_shape(t) for t in tensors_of(case)]
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


def _shrink(search: Search, group: Group, n: int) -> bool:
    """Whether the dimensions of ``group`` could be made smaller than ``n``."""
    search.doing(f"size {n}")
    for k in _FEW:
        if k < n and (_keeps(search, group, range(k)) or _keeps(search, group, range(n - k, n))):
            return True
    if n <= _FEW[-1]:
        return False
    return _shortest(search, group, n) or _left_out(search, group, n) or _larger_numbers(search, group, n)


def _larger_numbers(search: Search, group: Group, n: int) -> bool:
    """One or two indices, with larger numbers: where only their sum counts."""
    if n < _MANY:
        return False
    kept = (list(range(k)) for k in _FEW[:2])
    return any(
        search.takes(_times(candidate, factor))
        for indices in kept
        for candidate in cut(search.case, group, indices)
        for factor in (float(n), 2.0**14)
    )


def _times(case: Case, factor: float) -> Case:
    """The case with every finite floating number of literal tensors multiplied."""
    tensors = tensors_of(case)
    for i, tensor in literals_in(case):
        if tensor.dtype in FORMATS:
            numbers = reals_of(bits_of(tensor), tensor.dtype)
            larger = np.where(np.isfinite(numbers), numbers * factor, numbers)
            tensors[i] = with_bits(tensor, put(bits_of(tensor), tensor.dtype, slice(None), larger))
    return with_tensors(case, tensors)


def _shortest(search: Search, group: Group, n: int) -> bool:
    """The shortest beginning that fails, if failing goes on from some length on; or the shortest end."""
    for from_the_end in (False, True):
        low, high = _FEW[-1], n
        while high - low > 1:
            middle = (low + high) // 2
            kept = range(high - middle, high) if from_the_end else range(middle)
            if _keeps(search, group, kept):
                high = middle
            else:
                low = middle
        if high < n:
            return True
    return False


def _left_out(search: Search, group: Group, n: int) -> bool:
    """Blocks of powers of two, which leave the remainder by 8, 16 … what it is, then single indices."""
    block = 1 << (n - 1).bit_length() - 1
    while block >= 1:
        starts: Iterable[int] = range(0, n - block + 1, block) if block >= max(n // 8, 1) or n <= _SINGLY else (0, n - block)
        for start in starts:
            if n > block and _keeps(search, group, [i for i in range(n) if not start <= i < start + block]):
                return True
        block //= 2
    return False


def _keeps(search: Search, group: Group, kept: Sequence[int] | Iterable[int]) -> bool:
    return any(search.takes(candidate) for candidate in cut(search.case, group, list(kept)))


def cut(case: Case, group: Group, kept: list[int]) -> Iterator[Case]:
    """The case with only the indices ``kept`` along the dimensions of ``group``, and its variants.

    Whole numbers among the arguments that equal the size follow it, or stay; positions in integer tensors follow, or stay.
    """
    tensors = tensors_of(case)
    n, where = _shape(tensors[group[0][0]])[group[0][1]], np.asarray(kept, dtype=np.intp)
    smaller = [_kept(tensor, [dim for i, dim in group if i == t], where) for t, tensor in enumerate(tensors)]
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
    """The tensor with only the indices ``where`` along some dimensions; of a recipe only their number counts."""
    if not dims:
        return tensor
    if isinstance(tensor, TensorRecipe):
        return replace(tensor, base=tuple(where.size if d in dims else n for d, n in enumerate(tensor.base)))
    piece = apart(tensor)
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

    return replace(case, args=tuple(map(follow, case.args)), kwargs={name: follow(v) for name, v in case.kwargs.items()})


def _positions_follow(case: Case, n: int, where: Any) -> Case | None:
    """Positions that integer tensors hold go where their elements went, others to the first; None where there are none beyond."""
    tensors = tensors_of(case)
    place = np.zeros(n, dtype=np.int64)
    place[where] = np.arange(where.size)
    changed = False
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Literal) or tensor.dtype not in ("int64", "int32") or tensor.dtype == case.dtype:
            continue
        piece = apart(tensor)
        inside = (piece.elements >= -n) & (piece.elements < n)
        if not inside.all() or not (np.abs(piece.elements) >= where.size).any():
            continue
        found = piece.laid(place[piece.elements % n].astype(piece.elements.dtype))
        tensors[i], changed = found or tensor, changed or found is not None
    return with_tensors(case, tensors) if changed else None


def _flat(case: Case) -> Case:
    """Every tensor with one dimension."""
    tensors: list[Any] = tensors_of(case)
    for i, tensor in literals_in(case):
        piece = apart(tensor)
        if piece.elements.ndim > 1:
            tensors[i] = piece.laid(piece.elements.reshape(-1), plain_layout(1)) or tensor
    return with_tensors(case, tensors)


def _squeezed(tensor: Tensor, dim: int) -> Tensor:
    if isinstance(tensor, TensorRecipe):
        return replace(tensor, base=(*tensor.base[:dim], *tensor.base[dim + 1 :]))
    piece = apart(tensor)
    return piece.laid(piece.elements.squeeze(dim), piece.layout.without(dim)) or tensor


def _fewer_dimensions(search: Search) -> bool:
    """Leave out a dimension of size 1 from every tensor that has it, or from one; ``dim`` arguments may have to follow."""
    tensors = tensors_of(search.case)
    if any(len(_shape(t)) > 1 for t in tensors):
        search.doing("one dimension")
        if search.takes(_flat(search.case)):
            return True
    ranks = {len(_shape(t)) for t in tensors if _shape(t)}
    for place in range(max(ranks, default=0)):
        group = [(i, place) for i, t in enumerate(tensors) if len(_shape(t)) > place and _shape(t)[place] == 1]
        for chosen in (group, *([one] for one in group if len(group) > 1)):
            if not chosen:
                continue
            search.doing("fewer dimensions")
            replaced: list[Any] = list(tensors)
            for i, dim in chosen:
                replaced[i] = _squeezed(tensors[i], dim)
            if search.takes(with_tensors(search.case, replaced)):
                return True
    return False
