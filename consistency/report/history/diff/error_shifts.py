"""Whether errors have grown although they pass: asked of each group, of an operator in all dtypes,
and of a dtype in all operators.

One group of a shared corpus has few cases, too few to be sure of a shift where everything moves a
little; together they have more.
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
    """The shifts that are alarms. One chance of a false alarm holds for all questions together
    (:mod:`consistency.report.history.shift_test`).

    What a narrower group shows is not told again of a wider one, unless the wider one shifts
    without it.
    """
    passing = {
        group: [p for p in pairs if p[1].passes and p[2].passes] for group, pairs in groups.items()
    }
    passing = {group: pairs for group, pairs in passing.items() if pairs}
    alone: list[tuple[GroupKey, tuple[GroupKey, ...]]] = [(group, (group,)) for group in passing]
    levels = [alone, _pool_groups(passing, _all_dtypes), _pool_groups(passing, _all_operators)]
    pooled = [[_pool(name, members, passing) for name, members in level] for level in levels]
    limit = critical([one.shift.least for level in pooled for one in level])
    covered: set[GroupKey] = set()
    for number, level in enumerate(pooled):
        now: set[GroupKey] = set()
        for one in level:
            rest = tuple(member for member in one.members if member not in covered)
            if number and len(rest) < len(one.members):
                if len(rest) < 2:
                    continue
                one = _pool(one.group, rest, passing)
            if one.shift.chance <= limit and abs(one.shift.size) >= MIN_SHIFT:
                now.update(one.members)
                yield _change(one, sum(len(groups[member]) for member in one.members))
        covered |= now


def _all_dtypes(group: GroupKey) -> GroupKey:
    return (group[0], "*", group[2], group[3])


def _all_operators(group: GroupKey) -> GroupKey:
    return ("*", group[1], group[2], group[3])


def _pool_groups(
    passing: Iterable[GroupKey], wider: Callable[[GroupKey], GroupKey]
) -> list[tuple[GroupKey, tuple[GroupKey, ...]]]:
    found: defaultdict[GroupKey, list[GroupKey]] = defaultdict(list)
    for group in passing:
        found[wider(group)].append(group)
    return [(name, tuple(members)) for name, members in found.items() if len(members) > 1]


def _pool(
    name: GroupKey, members: tuple[GroupKey, ...], passing: Mapping[GroupKey, Sequence[ResultPair]]
) -> _PooledShift:
    pairs = [pair for member in members for pair in passing[member]]
    moves = octaves([new.rho for _, _, new in pairs]) - octaves([old.rho for _, old, _ in pairs])
    return _PooledShift(name, pairs, shift_of(moves), members)


def _change(one: _PooledShift, like: int) -> ResultChange:
    moved = [pair for pair in one.pairs if pair[1].rho != pair[2].rho]
    old, new = (
        float(np.median([then.rho for _, then, _ in moved])),
        float(np.median([now.rho for _, _, now in moved])),
    )
    up = one.shift.size > 0.0
    farthest = max(
        moved, key=lambda pair: (pair[2].rho / max(pair[1].rho, 1e-3)) ** (1 if up else -1)
    )
    size = one.shift.factor if up else 1.0 / one.shift.factor
    words = (
        f"errors have {'grown' if up else 'shrunk'} by {size:.2g}×, still within budget (p = "
        f"{one.shift.chance:.0e})"
    )
    return ResultChange(
        EventKind.ERROR_GREW if up else EventKind.ERROR_SHRANK,
        one.group, one.shift.moved, like, old, new, words,
        farthest[0], len(one.members)
    )  # fmt: skip
