"""Piecewise constant levels of many series at once, robust against outliers.

Each run has the cost of its observation at a level; a change of level has a penalty, smaller for a
run whose environment changed. The path of minimum cost is found exactly (Viterbi 1967). The cost of
one run is bounded, so that a single outlier does not justify two changes (Fearnhead and Rigaill
2019). As a result:

- at the end, a new level counts at once if the environment has changed, otherwise from its second
  run;
- elsewhere, a level that lasts for fewer than three or four runs is an outlier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

RATES = np.array([0.002, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.998], dtype=np.float32)
RARE, FREQUENT = 0.02, 0.98  # rates beyond which a case always passes, or always fails
_LIKELY = np.array(
    [0.45, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.35], dtype=np.float32
)
# Penalty (natural logarithm) of a change of level without and with a change of the environment.
QUIET_PENALTY, CHANGED_PENALTY = 8.0, 3.0
SIZE_PENALTY = 4.0  # additional penalty for errors, which are noisier than verdicts
BOUND = 10.0  # largest cost of one run's error
LEVELS, RECENT = 48, 8
FEW_NIGHTS = 8
MIN_NOISE = 0.08  # octaves, since identical results have no noise


def rates(events: NDArray[np.int8], penalty: Floats) -> Floats:
    """The rate of an event in each run, from ``events`` [series, runs] with 1 (yes), 0 (no) and
    -1 (unknown).

    ``penalty`` is that of a change before each run. The rates are elements of :data:`RATES`.
    """
    yes_cost, no_cost = -np.log(RATES), -np.log1p(-RATES)
    enter = -np.log(_LIKELY)

    def cost(run: int) -> Floats:
        observed = events[:, run, None]
        return np.where(
            observed == 1, yes_cost, np.where(observed == 0, no_cost, np.float32(0.0))
        ).astype(np.float32)

    place = _cheapest(
        cost, events.shape, np.broadcast_to(enter, (len(events), len(RATES))), penalty
    )
    return np.asarray(RATES[place], dtype=np.float32)


def levels(values: Floats, penalty: Floats, scatter: Floats | None = None) -> Floats:
    """The level of each series in each run, in the unit of ``values`` [series, runs], which are NaN
    if not measured.

    ``scatter`` is the uncertainty of a value, used if there are too few runs to estimate it.
    """
    grid = _grid(values)
    is_short = values.shape[1] < FEW_NIGHTS and scatter is not None
    noise = (
        np.maximum(scatter, np.float32(MIN_NOISE))
        if is_short and scatter is not None
        else _noise(values)
    )[:, None]

    def cost(run: int) -> Floats:
        observed = values[:, run, None]
        bounded = np.minimum(((observed - grid) / noise) ** 2 * np.float32(0.5), np.float32(BOUND))
        return np.where(np.isnan(observed), np.float32(0.0), bounded)

    enter = np.zeros((len(values), grid.shape[1]), dtype=np.float32)
    place = _cheapest(cost, values.shape, enter, penalty + np.float32(SIZE_PENALTY))
    return np.asarray(np.take_along_axis(grid, place, axis=1), dtype=np.float32)


def penalties(changed: NDArray[np.bool_]) -> Floats:
    """The penalty of a change before each run; ``changed`` marks runs with a changed
    environment."""
    return np.where(changed, CHANGED_PENALTY, QUIET_PENALTY).astype(np.float32)


def _cheapest(cost, shape: tuple[int, int], enter: Floats, penalty: Floats) -> NDArray[np.intp]:  # type: ignore[no-untyped-def]
    """The index of the level for each series and run. ``enter`` is the cost of entering a level in
    addition to the penalty."""
    series, runs = shape
    jumped = np.zeros((runs, *enter.shape), dtype=np.bool_)
    cheapest = np.zeros((runs, series), dtype=np.intp)
    total = enter + cost(0)
    for run in range(1, runs):
        before = total.argmin(axis=1)
        cheapest[run] = before
        fresh = np.take_along_axis(total, before[:, None], axis=1) + penalty[run] + enter
        np.less(fresh, total, out=jumped[run])
        total = np.where(jumped[run], fresh, total) + cost(run)
    path = np.zeros(shape, dtype=np.intp)
    level, all_series = total.argmin(axis=1), np.arange(series)
    for run in range(runs - 1, -1, -1):
        path[:, run] = level
        if run:
            level = np.where(jumped[run, all_series, level], cheapest[run], level)
    return path


def _grid(values: Floats) -> Floats:
    """Candidate levels: quantiles of a series, and its last values, for a level that has just
    begun."""
    ordered = np.sort(values, axis=1)
    count = np.maximum(np.count_nonzero(~np.isnan(values), axis=1), 1)
    places = np.rint(np.linspace(0.0, 1.0, LEVELS)[None, :] * (count - 1)[:, None]).astype(np.intp)
    grid = np.concatenate(
        [np.take_along_axis(ordered, places, axis=1), values[:, -RECENT:]], axis=1
    )
    return np.where(
        np.isnan(grid),
        np.take_along_axis(ordered, np.zeros((len(values), 1), dtype=np.intp), axis=1),
        grid,
    )


def _noise(values: Floats) -> Floats:
    """A robust standard deviation of a series, from the median of its moves between runs."""
    moves = np.abs(np.diff(values, axis=1))
    usual = median(moves, axis=1) / np.float32(0.6745 * 2**0.5)
    return np.asarray(np.maximum(np.nan_to_num(usual), np.float32(MIN_NOISE)), dtype=np.float32)


def median(values: Floats, axis: int) -> Floats:
    """Median without NaN; NaN if there are no other values."""
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), np.nan, dtype=np.float32)
    ordered = np.sort(values, axis=axis)
    count = np.count_nonzero(~np.isnan(values), axis=axis, keepdims=True)
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    high = np.minimum(high, np.maximum(count - 1, 0))
    middle = (
        np.take_along_axis(ordered, low, axis=axis) + np.take_along_axis(ordered, high, axis=axis)
    ) / np.float32(2.0)
    return middle.squeeze(axis)
