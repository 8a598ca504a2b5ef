"""Tests for larger errors within budget: in each group, in an operator over all dtypes, and in a
dtype over all operators.

One group of a shared corpus has too few cases to detect a small shift; pooled groups have more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..events import EventKind
from ..shift_test import MIN_SHIFT, Shift, critical, octaves, shift_of
from .compared_results import GroupKey, ResultChange
from .verdict_changes import ResultPair


@dataclass(frozen=True)
class _PooledShift:
    group: GroupKey
    pairs: Sequence[ResultPair]
    shift: Shift
    members: tuple[GroupKey, ...]


def error_shifts(groups: Mapping[GroupKey, Sequence[ResultPair]]) -> Iterator[ResultChange]:
    """The significant shifts, with a family-wise error rate for all tests together
    (:mod:`consistency.report.history.shift_test`).

    A wider group is reported only if it also shifts without the narrower groups reported before.
    """
    passing = {
        group: [p for p in pairs if p[1].passes and p[2].passes] for group, pairs in groups.items()
    }
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
                yield _change(pool, sum(len(groups[member]) for member in pool.members))
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
    name: GroupKey, members: tuple[GroupKey, ...], passing: Mapping[GroupKey, Sequence[ResultPair]]
) -> _PooledShift:
    pairs = [pair for member in members for pair in passing[member]]
    moves = octaves([new.rho for _, _, new in pairs]) - octaves([old.rho for _, old, _ in pairs])
    return _PooledShift(name, pairs, shift_of(moves), members)


def _change(pool: _PooledShift, like: int) -> ResultChange:
    moved = [pair for pair in pool.pairs if pair[1].rho != pair[2].rho]
    old, new = (
        float(np.median([then.rho for _, then, _ in moved])),
        float(np.median([now.rho for _, _, now in moved])),
    )
    grew = pool.shift.size > 0.0
    farthest = max(
        moved, key=lambda pair: (pair[2].rho / max(pair[1].rho, 1e-3)) ** (1 if grew else -1)
    )
    size = pool.shift.factor if grew else 1.0 / pool.shift.factor
    words = (
        f"errors have {'grown' if grew else 'shrunk'} by {size:.2g}×, still within budget (p = "
        f"{pool.shift.chance:.0e})"
    )
    return ResultChange(
        EventKind.ERROR_GREW if grew else EventKind.ERROR_SHRANK,
        pool.group, pool.shift.moved, like, old, new, words,
        farthest[0], len(pool.members)
    )  # fmt: skip
