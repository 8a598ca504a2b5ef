"""The results that two runs have in common, by group, made when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from .compared_results import GroupKey, ResultPair
from .result_table import CASE, Positions, ResultTable


class Pairs(Sequence[ResultPair]):
    """The common results of one group; ``old`` and ``new`` are their positions in the tables."""

    def __init__(self, runs: CommonResults, old: Positions, new: Positions) -> None:
        self._runs, self._old, self._new = runs, old, new

    def __len__(self) -> int:
        return len(self._new)

    @overload
    def __getitem__(self, index: int) -> ResultPair: ...
    @overload
    def __getitem__(self, index: slice) -> Pairs: ...
    def __getitem__(self, index: int | slice) -> ResultPair | Pairs:
        if isinstance(index, slice):
            return Pairs(self._runs, self._old[index], self._new[index])
        return self._runs.pair(int(self._old[index]), int(self._new[index]))

    def __iter__(self) -> Iterator[ResultPair]:
        return map(self._runs.pair, self._old.tolist(), self._new.tolist())

    def case(self, index: int) -> str:
        return self._runs.case(int(self._new[index]))

    def where(self, chosen: NDArray[np.bool_]) -> Pairs:
        return Pairs(self._runs, self._old[chosen], self._new[chosen])

    @property
    def pass_in_both(self) -> NDArray[np.bool_]:
        return self._runs.old_passes[self._old] & self._runs.new_passes[self._new]

    @property
    def errors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """× budget before and after."""
        return self._runs.before.rho[self._old], self._runs.after.rho[self._new]


class CommonResults(Mapping[GroupKey, Pairs]):
    """The common results by group, in the order of the newer run."""

    def __init__(self, before: ResultTable, after: ResultTable) -> None:
        self.before, self.after = before, after
        self.old_passes = before.flags(lambda result: result.passes)
        self.new_passes = after.flags(lambda result: result.passes)
        self._cases: list[str] = list(after.names.cases)
        old = before.find(after.keys)
        new = np.flatnonzero(old >= 0).astype(np.int32)
        self.like = len(new)
        groups = after.groups[new]
        order = np.argsort(groups, kind="stable")
        new = new[order]
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        parts = [(int(part[0]), part) for part in np.split(new, starts)[1:]]
        names = list(after.names.groups)
        self._pairs = {
            names[int(after.groups[first])]: Pairs(self, old[part], part)
            for first, part in sorted(parts, key=lambda part: part[0])
        }

    def __getitem__(self, group: GroupKey) -> Pairs:
        return self._pairs[group]

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def case(self, new: int) -> str:
        """The id of a case, by its position in the newer run."""
        return self._cases[int(self.after.keys[new]) & CASE]

    def pair(self, old: int, new: int) -> ResultPair:
        return self.case(new), self.before.result(old), self.after.result(new)
