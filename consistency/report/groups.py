"""Results by operator × dtype × direction × backend: counts, the worst × budget, a histogram of
ulp, errors against size.

What a page embeds of a million results is this: its size follows the number of groups, not that of
results.
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
# Upper ends of the histogram's bins, in ulp: the first holds what is exact, the last what is larger
# than all.
BINS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0, 2.0**16)
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
PER_OCTAVE = 64  # places of a point on either axis
FAILS = 1 << 11  # beside the place of n (below 2^32), for a case that fails
LOWEST = -12  # log2 of the smallest error in ulp that has a place of its own
FEW = 3  # cases, of which a mean budget is shown
MAX_POINTS = 64  # kept of a group: one per quarter of an octave in either direction


@dataclass(slots=True)
class ReportGroup:
    """One operator × dtype × direction × backend.

    ``rho`` is the largest × budget among the results of the worst rank; None where none of them has
    one. ``points`` are the places of n and of the error in ulp, 12 bits each, the highest for
    FAILS; ``by_terms`` tells that n is how many numbers were accumulated, and not how many elements
    came out.
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
        """Keep a point; of those that lie next to each other one is enough."""
        x = min(place(n, 0), FAILS - 1)
        self.points.append((x | FAILS if fails else x) << 12 | place(ulp, LOWEST))
        if len(self.points) >= 4 * MAX_POINTS:
            self.points = array("I", self._apart())

    def _apart(self) -> list[int]:
        """Points in order of n, one of each cell of a quarter of an octave in either direction."""
        return sorted({point & 0xFF0FF0: point for point in self.points}.values())

    def encoded(self, most: int) -> str:
        """Four characters a point; where there are more than ``most``, the largest errors and
        others spread evenly."""
        points = self._apart()
        if len(points) > most:
            largest = sorted(points, key=lambda point: -(point & 0xFFF))[: max(most // 4, 1)]
            rest = max(most - len(largest), 1)
            points = sorted({*largest, *(points[i * len(points) // rest] for i in range(rest))})
        return "".join(code(point >> 12) + code(point & 0xFFF) for point in points)


def place(value: float, lowest: int) -> int:
    """Where a number stands on a logarithmic axis, in 64ths of an octave from 2^lowest; 0 is for
    zero, 1 for all below."""
    if value <= 0.0:
        return 0
    return 4095 if value == math.inf else _clipped(math.log2(value) - lowest)


def _clipped(octaves: float) -> int:
    return 4095 if octaves > 63.0 else max(round(octaves * PER_OCTAVE), 1)


def code(number: int) -> str:
    """Two characters for 0 … 4095."""
    return DIGITS[number >> 6] + DIGITS[number & 63]


class ReportGroups:
    """All groups of a bundle, in the order in which they turn up; and the budget in ulp, by
    operator, dtype and direction."""

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
        """How many numbers were accumulated, or else how many elements came out; 0 for nothing that
        fits the group."""
        elements = terms = 0.0
        for output in outputs:
            terms = max(terms, float(output.get("terms", 0.0)))
            elements = max(elements, float(output.get("elements", 0.0)))
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
        found: dict[str, list[tuple[str, str, str, ReportGroup]]] = {
            name: [] for name in self.families
        }
        for (operator, *rest), group in self._found.items():
            dtype, direction, backend = rest
            found[operator].append((dtype, direction, backend, group))
        return found

    def budget(self, operator: str, dtype: str, direction: str) -> str:
        """Four characters per octave of n: its place, and that of the (geometric) mean budget in
        ulp.

        Octaves with few cases are left out where others have more: a mean of one says nothing of
        the others.
        """
        octaves = self._budgets.get((operator, dtype, direction), {})
        enough = min(FEW, max((count for _, count in octaves.values()), default=0))
        return "".join(
            code(octave * PER_OCTAVE + PER_OCTAVE // 2) + code(_clipped(total / count - LOWEST))
            for octave, (total, count) in sorted(octaves.items())
            if count >= enough
        )
