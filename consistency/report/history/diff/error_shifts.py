"""Tests for larger errors within budget: in each group, in an operator over all dtypes, and in a
dtype over all operators.

One group of a shared corpus has too few cases to detect a small shift; pooled groups have more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..events import EventKind
from ..shift_test import MIN_SHIFT, Shift, critical, octaves, shift_of
from .compared_results import GroupKey, ResultChange
from .pairs import Pairs


@dataclass(frozen=True)
class _PooledShift:
    group: GroupKey
    shift: Shift
    members: tuple[GroupKey, ...]


def error_shifts(groups: Mapping[GroupKey, Pairs]) -> Iterator[ResultChange]:
    """The significant shifts, with a family-wise error rate for all tests together
    (:mod:`consistency.report.history.shift_test`).

    A wider group is reported only if it also shifts without the narrower groups reported before.
    """
    passing = {group: pairs.where(pairs.pass_in_both) for group, pairs in groups.items()}
    passing = {group: pairs for group, pairs in passing.items() if pairs}
    single_groups: list[tuple[GroupKey, tuple[GroupKey, ...]]] = [
        (group, (group,)) for group in passing
    ]
    levels = [
        single_groups,
        _pool_groups(passing, _all_dtypes),
        _pool_groups(passing, _all_operators),
    ]
    pooled = [[_pool(name, members, passing) for name, members in level] for level in levels]
    limit = critical([pool.shift.least for level in pooled for pool in level])
    covered: set[GroupKey] = set()
    for number, level in enumerate(pooled):
        newly_covered: set[GroupKey] = set()
        for pool in level:
            uncovered = tuple(member for member in pool.members if member not in covered)
            if number and len(uncovered) < len(pool.members):
                if len(uncovered) < 2:
                    continue
                pool = _pool(pool.group, uncovered, passing)
            if pool.shift.chance <= limit and abs(pool.shift.size) >= MIN_SHIFT:
                newly_covered.update(pool.members)
                like = sum(len(groups[member]) for member in pool.members)
                yield _change(pool, [passing[member] for member in pool.members], like)
        covered |= newly_covered


def _all_dtypes(group: GroupKey) -> GroupKey:
    return (group[0], "*", group[2], group[3])


def _all_operators(group: GroupKey) -> GroupKey:
    return ("*", group[1], group[2], group[3])


def _pool_groups(
    passing: Iterable[GroupKey], wider: Callable[[GroupKey], GroupKey]
) -> list[tuple[GroupKey, tuple[GroupKey, ...]]]:
    members_by_name: defaultdict[GroupKey, list[GroupKey]] = defaultdict(list)
    for group in passing:
        members_by_name[wider(group)].append(group)
    return [(name, tuple(members)) for name, members in members_by_name.items() if len(members) > 1]


def _pool(
    name: GroupKey, members: tuple[GroupKey, ...], passing: Mapping[GroupKey, Pairs]
) -> _PooledShift:
    old, new = _errors([passing[member] for member in members])
    return _PooledShift(name, shift_of(octaves(new) - octaves(old)), members)


def _errors(pools: Sequence[Pairs]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """× budget before and after."""
    errors = [pairs.errors for pairs in pools]
    return np.concatenate([old for old, _ in errors]), np.concatenate([new for _, new in errors])


def _change(pool: _PooledShift, pools: Sequence[Pairs], like: int) -> ResultChange:
    old, new = _errors(pools)
    moved = np.flatnonzero(old != new)
    old, new = old[moved], new[moved]
    grew = pool.shift.size > 0.0
    ratio = new / np.maximum(old, 1e-3)
    farthest = int(moved[np.argmax(ratio) if grew else np.argmin(ratio)])
    size = pool.shift.factor if grew else 1.0 / pool.shift.factor
    words = (
        f"errors have {'grown' if grew else 'shrunk'} by {size:.2g}×, still within budget (p = "
        f"{pool.shift.chance:.0e})"
    )
    return ResultChange(
        EventKind.ERROR_GREW if grew else EventKind.ERROR_SHRANK,
        pool.group, pool.shift.moved, like, float(np.median(old)), float(np.median(new)), words,
        _case(pools, farthest), len(pool.members)
    )  # fmt: skip


def _case(pools: Sequence[Pairs], index: int) -> str:
    """The case of a pair by its index in all pools."""
    for pairs in pools:
        if index < len(pairs):
            return pairs.case(index)
        index -= len(pairs)
    raise IndexError(index)
