"""Score the entries of a tolerances file: which are too tight, and which detect too little."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .groups import FaultShares, Kind, ObservationGroup, joined, total
from .observe import Observation

POOR = 0.5  # share of planted faults; entries that detect fewer are listed
NARROW = 1.25  # a margin
DTYPE_KEYS = {"float64": "float32"}  # float64 uses the file's key of float32


@dataclass
class EntryScore:
    """One entry of the file, by its place, and the groups that it judged."""

    place: str
    source: str
    groups: list[ObservationGroup]

    @property
    def results(self) -> int:
        return sum(group.results for group in self.groups)

    @property
    def rho(self) -> float:
        return max((group.rho for group in self.groups), default=0.0)

    @property
    def margin(self) -> float:
        """The smallest margin of its groups; infinity if all results are correctly rounded or none
        was measured."""
        return min((group.margin for group in self.groups if group.results), default=math.inf)

    @property
    def shares(self) -> FaultShares:
        return total(self.groups)

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.kind.operator for group in self.groups))

    @property
    def stand_in(self) -> bool:
        """Whether it judged stand-ins only."""
        return all(group.stand_in for group in self.groups)

    def needs(self) -> list[tuple[str, float]]:
        """The share of its budget that each operator needs, largest first."""
        result: dict[str, float] = {}
        for group in self.groups:
            result[group.kind.operator] = max(
                result.get(group.kind.operator, 0.0), 1.0 / group.margin
            )
        return sorted(result.items(), key=lambda item: -item[1])

    def poor(self) -> list[ObservationGroup]:
        """The groups with fewer than half of the decisive faults detected, worst first."""
        groups = [group for group in _merge_equal(self.groups) if group.shares.poorest() < POOR]
        return sorted(groups, key=lambda group: (group.shares.poorest(), -group.margin))


class Calibration:
    """All observations so far, by kind."""

    def __init__(self) -> None:
        self.groups: dict[Kind, ObservationGroup] = {}

    def add(self, observed: Iterable[Observation]) -> None:
        for one in observed:
            kind = Kind(one.case.operator, one.case.dtype, one.direction, one.backend)
            group = self.groups.get(kind)
            if group is None:
                group = self.groups[kind] = ObservationGroup(
                    kind, one.family, one.rule, one.stand_in
                )
            group.add(one)

    @property
    def results(self) -> int:
        return sum(group.results for group in self.groups.values())

    @property
    def shares(self) -> FaultShares:
        """The shares of all faults planted into results of backends on this machine."""
        return total(group for group in self.groups.values() if not group.stand_in)

    def entries(self) -> list[EntryScore]:
        """The entries that judged anything: too tight ones first, then by share of detected faults,
        then tightest first."""
        by_place: dict[str, list[ObservationGroup]] = defaultdict(list)
        for group in self.groups.values():
            by_place[group.rule.place].append(group)
        entries = [
            EntryScore(place, groups[0].rule.source, groups) for place, groups in by_place.items()
        ]
        return sorted(entries, key=lambda e: (e.rho <= 1.0, e.shares.poorest(), -e.rho))

    def too_tight(self) -> list[ObservationGroup]:
        """The groups with a healthy result over its budget, worst first."""
        groups = [group for group in self.groups.values() if group.rho > 1.0 and not group.stand_in]
        return sorted(groups, key=lambda group: -group.rho)

    def nearly(self) -> list[ObservationGroup]:
        """The groups that pass with a margin below 1.25, tightest first."""
        groups = [
            group
            for group in self.groups.values()
            if group.rho <= 1.0 and group.margin < NARROW and not group.stand_in
        ]
        return sorted(_merge_equal(groups), key=lambda group: group.margin)

    def problems(self) -> Iterator[tuple[ObservationGroup, str, str]]:
        """Healthy results that fail for reasons other than c and λ: group, case id, the judge's
        explanation."""
        for group in self.groups.values():
            if not group.stand_in:
                yield from ((group, case, text) for case, text in group.problems)


def _merge_equal(groups: Sequence[ObservationGroup]) -> list[ObservationGroup]:
    """Merge groups with the same numbers: float64 has float32's, and most backends share theirs.

    Faults are planted once for all backends with the same rule, so only one of them has the shares.
    """
    merged: dict[tuple[object, ...], list[ObservationGroup]] = defaultdict(list)
    for group in groups:
        dtype = DTYPE_KEYS.get(group.kind.dtype, group.kind.dtype)
        merged[
            group.kind.operator,
            dtype,
            group.kind.direction,
            group.stand_in,
            group.rule.c,
            group.rule.lam,
        ].append(group)
    return [joined(alike) for alike in merged.values()]
