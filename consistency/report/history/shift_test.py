"""Tests for a shift of errors between two runs of the same cases, in many groups at once.

They use only signs and ranks of log2 of × budget, so that they need no scale or noise model and are
robust against outliers:

- :func:`shift_of`: Wilcoxon's signed-rank test (1945) of paired cases, exact. It assumes only that
  before and after are exchangeable. Cases with equal bits are omitted, which keeps it exact.
- :func:`critical`: which of many shifts are significant, with a family-wise error rate (Tarone
  1990: only discrete tests that could be significant count, so unchanged groups cost no power).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FLOOR, CEILING = 2.0**-10, 2.0**40  # × budget is clipped to this range
FALSE_ALARMS = 1e-3  # probability of any false alarm when comparing two equivalent runs
MIN_SHIFT = math.log2(1.25)  # octaves: a smaller shift is visible in the numbers, but irrelevant
EXACT = 200  # pairs up to which the distribution is computed, not approximated
_DOUBTFUL = 0.05  # shifts above this p-value are never reported; a rough size is sufficient
_WALSH = 400  # pairs up to which the size of a shift is estimated from all pairwise averages


@dataclass(frozen=True, slots=True)
class Shift:
    """A shift of errors: the median ``size`` in octaves (+1: twice as large) of the ``moved`` out
    of ``of`` pairs, of which ``up`` grew.

    ``chance`` is the two-sided p-value, ``least`` the smallest p-value possible for this number of
    moved pairs.
    """

    size: float
    chance: float
    least: float
    up: int
    moved: int
    of: int

    @property
    def factor(self) -> float:
        """The ratio of the errors: 2.0 or 0.5."""
        return float(2.0**self.size)


def octaves(rho: ArrayLike) -> NDArray[np.float64]:
    """log2 of errors in × budget, within bounds, so that exact results and very small errors are
    equal."""
    found = np.asarray(rho, dtype=np.float64)
    bounded: NDArray[np.float64] = np.clip(
        np.where(np.isnan(found), CEILING, found), FLOOR, CEILING
    )
    return np.log2(bounded)


def shift_of(moves: ArrayLike) -> Shift:
    """The shift for given differences in octaves."""
    every = np.asarray(moves, dtype=np.float64)
    moved = every[every != 0.0]
    count, up = len(moved), int(np.count_nonzero(moved > 0.0))
    if not count:
        return Shift(0.0, 1.0, 1.0, 0, 0, len(every))
    chance = _signed_rank(moved)
    size = _typical(moved) if chance <= _DOUBTFUL else float(np.median(moved))
    return Shift(size, chance, 2.0 ** (1 - min(count, 1000)), up, count, len(every))


def critical(least: Sequence[float], chance: float = FALSE_ALARMS) -> float:
    """The largest significant p-value among tests whose smallest possible p-values are ``least``
    (Tarone 1990)."""
    known = np.sort(np.asarray(least, dtype=np.float64))
    for tests in range(1, len(known) + 1):
        if np.searchsorted(known, chance / tests, side="right") <= tests:
            return chance / tests
    return chance / max(len(known), 1)


def _typical(moved: NDArray[np.float64]) -> float:
    """The size of a shift: the median of all pairwise averages (Hodges and Lehmann 1963), or for
    many pairs their median."""
    if len(moved) > _WALSH:
        return float(np.median(moved))
    first, second = np.triu_indices(len(moved))
    return float(np.median((moved[first] + moved[second]) / 2.0))


def _signed_rank(moved: NDArray[np.float64]) -> float:
    """The two-sided p-value for given sizes of the moves, with all patterns of signs equally
    likely."""
    ranks = _ranks(np.round(np.abs(moved), 12))  # twice the ranks: whole numbers, with ties, too
    total, positive = int(ranks.sum()), int(ranks[moved > 0.0].sum())
    small = min(positive, total - positive)
    if (
        len(moved) > EXACT
    ):  # tails are lighter than the normal's: an alarm too few, never one too many
        return _normal(
            (total / 2.0 - small) / math.sqrt(float((ranks.astype(np.float64) ** 2).sum()) / 4.0)
        )
    chances: NDArray[np.float64] = np.zeros(small + 1)
    chances[0] = 1.0
    for rank in ranks[ranks <= small].tolist():
        chances[rank:] = chances[rank:] + chances[:-rank]
        chances *= 0.5
    return min(2.0 * float(chances.sum()) * 0.5 ** int(np.count_nonzero(ranks > small)), 1.0)


def _ranks(values: NDArray[Any]) -> NDArray[np.int64]:
    """Twice the ranks, with ties averaged."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (2 * last - counts + 1)[which.ravel()].astype(np.int64)


def _normal(z: float) -> float:
    """The two-sided p-value of the normal approximation."""
    return math.erfc(max(z, 0.0) / math.sqrt(2.0))
