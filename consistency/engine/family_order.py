"""The order in which a run that may end by time reaches families: round robin, so that none is
always last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from ..operators.declare import Operator

Item = TypeVar("Item")
Pair = tuple[Operator, str]
# What most programs compute with comes first.
DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool", "complex64")
_ABSENT = object()


def round_robin(items: Iterable[Item], family: Callable[[Item], str]) -> Iterator[Item]:
    """One item of each family in turn, each family's in their order, until all are given."""
    by_family: dict[str, list[Item]] = {}
    for item in items:
        by_family.setdefault(family(item), []).append(item)
    for turn in zip_longest(*by_family.values(), fillvalue=_ABSENT):
        yield from (item for item in turn if item is not _ABSENT)  # type: ignore[misc]


def by_turns(pairs: Sequence[Pair]) -> list[Pair]:
    """Operators × dtypes: by dtype (:data:`DTYPES`, then the others), of each dtype one operator of
    every family in turn."""
    by_rank: dict[int, list[Pair]] = {}
    for pair in pairs:
        rank = DTYPES.index(pair[1]) if pair[1] in DTYPES else len(DTYPES)
        by_rank.setdefault(rank, []).append(pair)
    return [
        pair
        for rank in sorted(by_rank)
        for pair in round_robin(by_rank[rank], lambda p: p[0].family)
    ]
