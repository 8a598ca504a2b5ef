"""Results grouped by operator × dtype × direction × backend: counts, worst × budget, histogram of
errors in ulp, errors against size.

A page embeds these groups, so its size depends on their number, not on the number of results.
"""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.model import Result

RANKS = ("not tested", "passed", "warned", "failed")
# Upper ends of the histogram's bins in ulp; exact results are in the first bin, and a last bin
# holds all larger errors.
BINS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0, 2.0**16)
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PER_OCTAVE = 64  # positions per octave on either axis
FAILS = 1 << 11  # flag of a failing case, above the position of n (below 2^32)
LOWEST = -12  # log2 of the smallest distinguished error in ulp
FEW = 3  # cases needed to show a mean budget
MAX_POINTS = 64  # per group: one per quarter of an octave in either direction


@dataclass(slots=True)
class ReportGroup:
    """One operator × dtype × direction × backend.

    ``rho`` is the largest × budget among the results of the worst rank, or None if none has one.
    ``points`` are the positions of n and of the error in ulp, 12 bits each, the highest for FAILS.
    ``by_terms``: n is the number of accumulated terms instead of output elements.
    """

    verdicts: dict[tuple[str, str], int] = field(default_factory=dict)
    rank: int = 0
    rho: float | None = None
    histogram: list[int] = field(default_factory=lambda: [0] * (len(BINS) + 1))
    points: array[int] = field(default_factory=lambda: array("I"))
    by_terms: bool = False

    def count(self, result: Result) -> None:
        verdict = result.verdict
        group = verdict.group
        key = (verdict.value, group)
        self.verdicts[key] = self.verdicts.get(key, 0) + 1
        rank, rho = RANKS.index(group), result.metrics.get("rho_max")
        if rank > self.rank:
            self.rank, self.rho = rank, rho
        elif rank == self.rank and rho is not None and (self.rho is None or rho > self.rho):
            self.rho = rho
        ulp = result.metrics.get("ulp_max")
        if rank and ulp is not None and not math.isnan(ulp):
            self.histogram[bisect.bisect_left(BINS, ulp)] += 1

    def show(self, n: float, ulp: float, fails: bool = False) -> None:
        """Add a point; of neighboring points one is kept."""
        x = min(place(n, 0), FAILS - 1)
        self.points.append((x | FAILS if fails else x) << 12 | place(ulp, LOWEST))
        if len(self.points) >= 4 * MAX_POINTS:
            self.points = array("I", self._thinned())

    def _thinned(self) -> list[int]:
        """Points in order of n, one per cell of a quarter of an octave in either direction."""
        return sorted({point & 0xFF0FF0: point for point in self.points}.values())

    def encoded(self, most: int) -> str:
        """Four characters per point; at most ``most`` points: the largest errors, and others evenly
        spaced."""
        points = self._thinned()
        if len(points) > most:
            largest = sorted(points, key=lambda point: -(point & 0xFFF))[: max(most // 4, 1)]
            remaining = max(most - len(largest), 1)
            points = sorted(
                {*largest, *(points[i * len(points) // remaining] for i in range(remaining))}
            )
        return "".join(code(point >> 12) + code(point & 0xFFF) for point in points)


def place(value: float, lowest: int) -> int:
    """The position of a number on a logarithmic axis, in 64ths of an octave from 2^lowest; 0 for
    zero, 1 for smaller numbers."""
    if value <= 0.0:
        return 0
    return 4095 if value == math.inf else _clipped(math.log2(value) - lowest)


def _clipped(octaves: float) -> int:
    return 4095 if octaves > 63.0 else max(round(octaves * PER_OCTAVE), 1)


def code(number: int) -> str:
    """Two characters for 0 … 4095."""
    return DIGITS[number >> 6] + DIGITS[number & 63]


class ReportGroups:
    """All groups of a bundle in order of appearance, and mean budgets in ulp by operator, dtype and
    direction."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], ReportGroup] = {}
        self._budgets: dict[tuple[str, str, str], dict[int, list[float]]] = {}
        self.families: dict[str, str] = {}  # by operator
        self.backends: dict[str, None] = {}

    def add(self, result: Result, comparison: Mapping[str, Any]) -> None:
        key = (result.operator, result.dtype, result.direction, result.backend)
        group = self._found.get(key)
        if group is None:
            group = self._found[key] = ReportGroup()
            self.families.setdefault(result.operator, result.family)
            self.backends.setdefault(result.backend)
        group.count(result)
        ulp, rho = result.metrics.get("ulp_max"), result.metrics.get("rho_max")
        if ulp is None or math.isnan(ulp) or not result.verdict.tested:
            return
        n = self._size(group, comparison.get("outputs") or ())
        if not 1.0 <= n < math.inf:
            return
        group.show(n, ulp, result.verdict.fails)
        if rho is not None and 0.0 < rho < math.inf and 0.0 < ulp < math.inf:
            octaves = self._budgets.setdefault(key[:3], {})
            mean = octaves.setdefault(place(n, 0) // PER_OCTAVE, [0.0, 0.0])
            mean[0] += math.log2(ulp) - math.log2(rho)
            mean[1] += 1.0

    def _size(self, group: ReportGroup, outputs: Iterable[Mapping[str, Any]]) -> float:
        """Number of accumulated terms, or else of output elements; 0 if that does not fit the
        group."""
        elements = terms = 0.0
        for output in outputs:
            terms = max(terms, output.get("terms", 0.0))
            elements = max(elements, output.get("elements", 0.0))
        if terms > 0.0 and not group.by_terms:
            group.by_terms = True
            del group.points[:]
        return terms if group.by_terms else elements

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[ReportGroup]:
        return iter(self._found.values())

    def by_operator(self) -> dict[str, list[tuple[str, str, str, ReportGroup]]]:
        """(dtype, direction, backend, group) of each operator."""
        groups: dict[str, list[tuple[str, str, str, ReportGroup]]] = {
            name: [] for name in self.families
        }
        for (operator, *kind), group in self._found.items():
            dtype, direction, backend = kind
            groups[operator].append((dtype, direction, backend, group))
        return groups

    def budget(self, operator: str, dtype: str, direction: str) -> str:
        """Four characters per octave of n: its position, and that of the geometric mean budget in
        ulp.

        Octaves with few cases are omitted if others have more, since their mean is unreliable.
        """
        octaves = self._budgets.get((operator, dtype, direction), {})
        min_cases = min(FEW, max((count for _, count in octaves.values()), default=0))
        return "".join(
            code(octave * PER_OCTAVE + PER_OCTAVE // 2) + code(_clipped(total / count - LOWEST))
            for octave, (total, count) in sorted(octaves.items())
            if count >= min_cases
        )
