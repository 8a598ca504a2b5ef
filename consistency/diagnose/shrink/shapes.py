"""Smaller sizes: dimensions of equal size shrink together, also with whole numbers among the
arguments that equal them.

Of a dimension the first or last few indices are kept, then the shortest beginning and the shortest
end that still fail (by bisection), then blocks and single indices are left out.
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

_FEW = (1, 2, 3)
_MANY = 9  # indices, from which on larger numbers in fewer places are tried
_SINGLY = 40  # indices, up to which each one is tried to be left out


def reduce_sizes(search: Search) -> None:
    """Shrink sizes until none of them goes down any more: of literal tensors, and of recipes
    without views."""
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
    return _fewer_dimensions(search) or _without_groups(search)


def _shrink(search: Search, group: Group, n: int) -> bool:
    """Whether the dimensions of ``group`` could be made smaller than ``n``."""
    search.report(f"size {n}")
    for k in _FEW:
        if k < n and (_keeps(search, group, range(k)) or _keeps(search, group, range(n - k, n))):
            return True
    if n <= _FEW[-1]:
        return False
    return (
        _shortest(search, group, n)
        or _left_out(search, group, n)
        or _larger_numbers(search, group, n)
    )


def _without_groups(search: Search) -> bool:
    """Where a whole number among the arguments divides sizes (groups of channels): one group of as
    many as it had."""
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


def _larger_numbers(search: Search, group: Group, n: int) -> bool:
    """One or two indices, with larger numbers: where only their sum counts."""
    if n < _MANY:
        return False
    kept = (list(range(k)) for k in _FEW[:2])
    return any(
        search.accept(times(candidate, factor))
        for indices in kept
        for candidate in reduce_shape(search.case, group, indices)
        for factor in (float(n), 2.0**14)
    )


def _shortest(search: Search, group: Group, n: int) -> bool:
    """The shortest beginning that fails, if failing goes on from some length on; or the shortest
    end."""
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
    """Blocks of powers of two, which leave the remainder by 8, 16 … what it is, then single
    indices."""
    block = 1 << (n - 1).bit_length() - 1
    while block >= 1:
        starts: Iterable[int] = (
            range(0, n - block + 1, block)
            if block >= max(n // 8, 1) or n <= _SINGLY
            else (0, n - block)
        )
        for start in starts:
            if n > block and _keeps(
                search, group, [i for i in range(n) if not start <= i < start + block]
            ):
                return True
        block //= 2
    return False


def _keeps(search: Search, group: Group, kept: Sequence[int] | Iterable[int]) -> bool:
    return any(
        search.accept(candidate) for candidate in reduce_shape(search.case, group, list(kept))
    )


def _fewer_dimensions(search: Search) -> bool:
    """Leave out a dimension of size 1 from every tensor that has it, or from one; ``dim`` arguments
    may have to follow."""
    tensors = tensors_of(search.case)
    if any(len(shape_of(t)) > 1 for t in tensors):
        search.report("one dimension")
        if search.accept(flat(search.case)):
            return True
    ranks = {len(shape_of(t)) for t in tensors if shape_of(t)}
    for place in range(max(ranks, default=0)):
        group = [
            (i, place)
            for i, t in enumerate(tensors)
            if len(shape_of(t)) > place and shape_of(t)[place] == 1
        ]
        for chosen in (group, *([one] for one in group if len(group) > 1)):
            if not chosen:
                continue
            search.report("fewer dimensions")
            replaced = list(tensors)
            for i, dim in chosen:
                replaced[i] = squeezed(tensors[i], dim)
            if search.accept(with_tensors(search.case, replaced)):
                return True
    return False
