"""Whether errors have shifted: of the same cases in two runs, in many groups at once, and from night to night.

All of it goes by signs and ranks of log2 of × budget, so that no scale, no noise model and no few odd cases matter:

- :func:`shift`: Wilcoxon's signed-rank test (1945) of paired cases, exact. Its only assumption is that before and after could be
  exchanged; cases whose bits are the same say nothing and are left out, which keeps it exact.
- :func:`alarms`: which of many shifts are alarms, with one chance of a false alarm for all of them together (Tarone 1990: of
  discrete tests only those count that could have been significant, so what did not move at all costs no power).
- :func:`change_points` and :func:`trend`: jumps and slow drifts of one series, by Mann-Whitney's and Kendall's statistics.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FLOOR, CEILING = 2.0**-10, 2.0**40  # × budget between which a shift is measured: nobody cares what lies below
FALSE_ALARMS = 1e-3  # chance that a comparison of two runs in which nothing changed has any alarm at all
LEAST_SHIFT = math.log2(1.25)  # octaves: less is seen in the numbers, and is nobody's concern
EXACT = 200  # pairs up to which the distribution is computed, not approximated
_DOUBTFUL = 0.05  # what is as likely without a cause as that is never told, so that its size may be a rough one
_WALSH = 400  # pairs up to which the size of a shift is taken from all averages of two


@dataclass(frozen=True, slots=True)
class Shift:
    """How errors moved: ``size`` in octaves (+1: twice as large) of those ``moved`` of the ``of`` pairs; ``up`` of them grew.

    ``chance`` is the two-sided probability of so one-sided a move without a cause, ``least`` the smallest that so many moved pairs
    can give.
    """

    size: float
    chance: float
    least: float
    up: int
    moved: int
    of: int

    @property
    def factor(self) -> float:
        """How many times as large errors are: 2.0 or 0.5."""
        return float(2.0**self.size)


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A jump of a series: ``index`` is the first one of the new level; levels are medians, in the unit of the series."""

    index: int
    before: float
    after: float
    chance: float


@dataclass(frozen=True, slots=True)
class Trend:
    """A slow drift: ``slope`` in the unit of the series a step (Theil-Sen), and the chance of it without a cause (Kendall)."""

    slope: float
    chance: float


def octaves(rho: ArrayLike) -> NDArray[np.float64]:
    """log2 of errors in × budget, within bounds: what is exact, or far below the budget, is alike."""
    found = np.asarray(rho, dtype=np.float64)
    bounded: NDArray[np.float64] = np.clip(np.where(np.isnan(found), CEILING, found), FLOOR, CEILING)
    return np.log2(bounded)


def shift(before: ArrayLike, after: ArrayLike) -> Shift:
    """How the errors (× budget) of the same cases moved from ``before`` to ``after``, which are equally long."""
    moves = octaves(after) - octaves(before)
    return shift_of(moves)


def shift_of(moves: ArrayLike) -> Shift:
    """The same for differences in octaves."""
    every = np.asarray(moves, dtype=np.float64)
    moved = every[every != 0.0]
    count, up = len(moved), int(np.count_nonzero(moved > 0.0))
    if not count:
        return Shift(0.0, 1.0, 1.0, 0, 0, len(every))
    chance = _signed_rank(moved)
    size = _typical(moved) if chance <= _DOUBTFUL else float(np.median(moved))
    return Shift(size, chance, 2.0 ** (1 - min(count, 1000)), up, count, len(every))


def alarms(shifts: Sequence[Shift], chance: float = FALSE_ALARMS, least: float = LEAST_SHIFT) -> list[int]:
    """Positions of those shifts that are alarms. Where nothing changed, there is any alarm at all with probability ``chance``.

    ``least``: octaves below which a shift, however certain, is none.
    """
    limit = critical([one.least for one in shifts], chance)
    return [i for i, one in enumerate(shifts) if one.chance <= limit and abs(one.size) >= least]


def critical(least: Sequence[float], chance: float = FALSE_ALARMS) -> float:
    """The largest p that is significant among tests whose smallest possible p are ``least`` (Tarone 1990)."""
    known = np.sort(np.asarray(least, dtype=np.float64))
    for tests in range(1, len(known) + 1):
        if np.searchsorted(known, chance / tests, side="right") <= tests:
            return chance / tests
    return chance / max(len(known), 1)


def sign_test(up: int, of: int) -> float:
    """Probability, two-sided, that so uneven a split comes from a fair coin; exact, in logarithms (Dixon and Mood 1946)."""
    if of == 0:
        return 1.0
    few = min(up, of - up)
    logs = [math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) - of * math.log(2.0) for k in range(few + 1)]
    top = max(logs)
    return min(2.0 * math.exp(top) * math.fsum(math.exp(value - top) for value in logs), 1.0)


def change_points(values: ArrayLike, chance: float = 1e-6, least: float = LEAST_SHIFT) -> list[ChangePoint]:
    """The jumps of a series, in order: where its two sides differ by rank, then the same within each side.

    ``chance``: of any jump where all orders of the values are equally likely. ``least``: a smaller difference of the medians is no
    jump. A single odd value never is one; three or four new ones are, after some weeks of quiet. Values that are not finite (nights
    without a measurement) are passed over.
    """
    every = np.asarray(values, dtype=np.float64)
    places = np.flatnonzero(np.isfinite(every))
    return [ChangePoint(int(places[i]), b, a, p) for i, b, a, p in _jumps(every[places], 0, math.log(chance), least)]


def trend(values: ArrayLike) -> Trend:
    """Whether a series drifts one way, however slowly; normal approximation with correction for ties (Kendall 1970)."""
    every = np.asarray(values, dtype=np.float64)
    places = np.flatnonzero(np.isfinite(every))
    x = every[places]
    n = len(x)
    if n < 8 or x.min() == x.max():
        return Trend(0.0, 1.0)
    later, earlier = np.triu_indices(n, 1)[::-1]
    score = float(np.sign(x[later] - x[earlier]).sum())
    ties = np.unique(x, return_counts=True)[1].astype(np.float64)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18.0
    slope = float(np.median((x[later] - x[earlier]) / (places[later] - places[earlier])))
    return Trend(slope, _normal((abs(score) - 1.0) / math.sqrt(variance)))


def _typical(moved: NDArray[np.float64]) -> float:
    """The size of a shift: median of all averages of two (Hodges and Lehmann 1963), of many pairs their median."""
    if len(moved) > _WALSH:
        return float(np.median(moved))
    first, second = np.triu_indices(len(moved))
    return float(np.median((moved[first] + moved[second]) / 2.0))


def _signed_rank(moved: NDArray[np.float64]) -> float:
    """Two-sided, given the sizes of the moves: every pattern of signs is equally likely."""
    ranks = _ranks(np.round(np.abs(moved), 12))  # twice the ranks: whole numbers, with ties, too
    total, positive = int(ranks.sum()), int(ranks[moved > 0.0].sum())
    small = min(positive, total - positive)
    if len(moved) > EXACT:  # tails are lighter than the normal's: an alarm too few, never one too many
        return _normal((total / 2.0 - small) / math.sqrt(float((ranks.astype(np.float64) ** 2).sum()) / 4.0))
    chances: NDArray[np.float64] = np.zeros(small + 1)
    chances[0] = 1.0
    for rank in ranks[ranks <= small].tolist():
        chances[rank:] = chances[rank:] + chances[:-rank]
        chances *= 0.5
    return min(2.0 * float(chances.sum()) * 0.5 ** int(np.count_nonzero(ranks > small)), 1.0)


def _ranks(values: NDArray[Any]) -> NDArray[np.int64]:
    """Twice the ranks, those of equal values averaged."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (2 * last - counts + 1)[which.ravel()].astype(np.int64)


def _normal(z: float) -> float:
    """Two-sided."""
    return math.erfc(max(z, 0.0) / math.sqrt(2.0))


def _jumps(x: NDArray[np.float64], start: int, limit: float, least: float) -> list[tuple[int, float, float, float]]:
    """(place, level before, level after, chance) of each jump. A part in the middle that jumps there and back is seen in stretches
    that hold one of its ends only, so these are looked at as well (Kovács and others 2023), with half of the chance in all.
    """
    if len(x) < 4 or x.min() == x.max():
        return []
    best: tuple[float, int, float, float] | None = None
    stretches = _stretches(len(x))
    for first, end in stretches:
        part = x[first:end]
        if part.min() == part.max():
            continue
        logs = _splits(part) + math.log(2.0 if len(part) == len(x) else 2.0 * len(stretches))
        for split in np.argsort(logs, kind="stable")[:3] + 1:
            level, now = float(np.median(part[:split])), float(np.median(part[split:]))
            surest = float(logs[split - 1])
            if surest <= limit and abs(now - level) >= least and (best is None or surest < best[0]):
                best = (surest, first + int(split), level, now)
    if best is None:
        return []
    surest, at, level, now = best
    here = (start + at, level, now, math.exp(surest))
    return [*_jumps(x[:at], start, limit, least), here, *_jumps(x[at:], start + at, limit, least)]


def _stretches(n: int) -> list[tuple[int, int]]:
    """All of a series, its halves, quarters … down to 16, overlapping by half."""
    found, length = [(0, n)], n / 2.0
    while length >= 16.0:
        count = 2 * round(n / length) - 1
        found += [(round(i * (n - length) / (count - 1)), round(i * (n - length) / (count - 1) + length)) for i in range(count)]
        length /= 2.0
    return found


def _splits(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every place to split a series at, the logarithm of the chance that its two sides differ so much, all places considered.

    The smaller of two: the normal approximation of Mann and Whitney's U, and a bound for short sides. That at most d of the
    k·(n-k) pairs are in the wrong order has the probability (partitions of 0 … d into at most k parts) / C(n, k);
    tied pairs count as wrong.
    """
    n = len(x)
    order = np.sign(x[None, :] - x[:, None]).astype(np.int8)
    k = np.arange(1, n)
    above, below = (_across(order == way) for way in (1, -1))
    pairs = (k * (n - k)).astype(np.float64)
    wrong = pairs - np.maximum(above, below)
    factorial = _log_factorials(n * n + n)
    few = np.minimum(k, n - k)
    d = wrong.astype(np.int64)
    compositions = factorial[d + few] - factorial[d] - factorial[few]
    partitions = np.minimum(compositions, np.log1p(wrong) + math.pi * np.sqrt(2.0 * wrong / 3.0))
    exactly = partitions - (factorial[n] - factorial[k] - factorial[n - k])
    z = np.abs(above - below) / 2.0 / np.sqrt(pairs * (n + 1) / 12.0)  # ties would make it larger: not where they are many
    tails = np.array([math.log(max(_normal(one) / 2.0, 1e-300)) for one in z])
    chances: NDArray[np.float64] = np.minimum(np.minimum(exactly, tails) + math.log(4.0 * (n - 1)), 0.0)
    return chances


@functools.lru_cache(maxsize=4)
def _log_factorials(most: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    return found


def _across(holds: NDArray[np.bool_]) -> NDArray[np.float64]:
    """For every split k = 1 … n-1, over how many pairs (i < k ≤ j) something holds."""
    total: NDArray[np.int32] = np.cumsum(np.cumsum(holds, axis=0, dtype=np.int32), axis=1, dtype=np.int32)
    found: NDArray[np.float64] = (total[:-1, -1] - np.diagonal(total)[:-1]).astype(np.float64)
    return found
