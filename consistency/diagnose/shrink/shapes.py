"""Smaller sizes: dimensions of equal size shrink together, along with integer arguments of that
value.

First only a few indices at either end are kept, then the shortest failing prefix or suffix is
bisected, then blocks and single indices are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .arguments import value_at, values_of, with_value
from .failure_predicate import Search
from .shape_reduction import (
    Group,
    flat,
    groups_of,
    reduce_shape,
    shape_of,
    sizes_of,
    squeezed,
    times,
)
from .tensor_edits import tensors_of, with_tensors

_SMALL_SIZES = (1, 2, 3)
_MIN_SCALED_SIZE = 9  # indices, for trying fewer but larger numbers
_MAX_SINGLE_INDICES = 40  # indices, for dropping them one by one


def reduce_sizes(search: Search) -> None:
    """Reduce sizes of literal tensors and of recipes without views until nothing more is
    possible."""
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
    return _remove_dimension(search) or _reduce_channel_groups(search)


def _shrink(search: Search, group: Group, n: int) -> bool:
    """Whether the dimensions of ``group`` could be reduced below ``n``."""
    search.report(f"size {n}")
    for k in _SMALL_SIZES:
        if k < n and (
            _accept_indices(search, group, range(k))
            or _accept_indices(search, group, range(n - k, n))
        ):
            return True
    if n <= _SMALL_SIZES[-1]:
        return False
    return (
        _bisect_length(search, group, n)
        or _drop_blocks(search, group, n)
        or _scale_up(search, group, n)
    )


def _reduce_channel_groups(search: Search) -> bool:
    """Reduce an integer argument that divides sizes (groups of channels) to 1, with the sizes of
    one group."""
    for path, count in list(values_of(search.case)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 2:
            continue
        for n in (n for n in sizes_of(search.case) if n % count == 0):
            for group in groups_of(search.case, n):
                for candidate in reduce_shape(search.case, group, list(range(n // count))):
                    if value_at(candidate, path) == count and search.accept(
                        with_value(candidate, path, 1)
                    ):
                        return True
    return False


def _scale_up(search: Search, group: Group, n: int) -> bool:
    """Keep one or two indices with larger numbers, in case only the sum matters."""
    if n < _MIN_SCALED_SIZE:
        return False
    kept = (list(range(k)) for k in _SMALL_SIZES[:2])
    return any(
        search.accept(times(candidate, factor))
        for indices in kept
        for candidate in reduce_shape(search.case, group, indices)
        for factor in (float(n), 2.0**14)
    )


def _bisect_length(search: Search, group: Group, n: int) -> bool:
    """Bisect for the shortest failing prefix, then for the shortest failing suffix."""
    for from_end in (False, True):
        low, high = _SMALL_SIZES[-1], n
        while high - low > 1:
            middle = (low + high) // 2
            kept = range(high - middle, high) if from_end else range(middle)
            if _accept_indices(search, group, kept):
                high = middle
            else:
                low = middle
        if high < n:
            return True
    return False


def _drop_blocks(search: Search, group: Group, n: int) -> bool:
    """Drop blocks of powers of two, which keep remainders modulo 8, 16 …, then single indices."""
    block = 1 << (n - 1).bit_length() - 1
    while block >= 1:
        starts: Iterable[int] = (
            range(0, n - block + 1, block)
            if block >= max(n // 8, 1) or n <= _MAX_SINGLE_INDICES
            else (0, n - block)
        )
        for start in starts:
            if n > block and _accept_indices(
                search, group, [i for i in range(n) if not start <= i < start + block]
            ):
                return True
        block //= 2
    return False


def _accept_indices(search: Search, group: Group, kept: Sequence[int] | Iterable[int]) -> bool:
    return any(
        search.accept(candidate) for candidate in reduce_shape(search.case, group, list(kept))
    )


def _remove_dimension(search: Search) -> bool:
    """Flatten all tensors, or drop a dimension of size 1 from every tensor that has it, or from
    one."""
    tensors = tensors_of(search.case)
    if any(len(shape_of(t)) > 1 for t in tensors):
        search.report("one dimension")
        if search.accept(flat(search.case)):
            return True
    ranks = {len(shape_of(t)) for t in tensors if shape_of(t)}
    for position in range(max(ranks, default=0)):
        group = [
            (i, position)
            for i, t in enumerate(tensors)
            if len(shape_of(t)) > position and shape_of(t)[position] == 1
        ]
        for dims in (group, *([single] for single in group if len(group) > 1)):
            if not dims:
                continue
            search.report("fewer dimensions")
            replaced = list(tensors)
            for i, dim in dims:
                replaced[i] = squeezed(tensors[i], dim)
            if search.accept(with_tensors(search.case, replaced)):
                return True
    return False
