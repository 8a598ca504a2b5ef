"""Levels of many series at once: where each changes for good, not where one run is an outlier.

Every night costs what its observation costs at a level; changing the level costs a penalty, less on
a night on which something in the environment changed; the cheapest path through the nights is found
exactly (Viterbi 1967). No single night can cost more than a bound, so that one outlier among
quiet ones does not pay for two changes (Fearnhead and Rigaill 2019). What follows:

- on the last night, a new level counts at once where the environment has changed, and from its
  second night where it has not;
- in between, a level that lasts for fewer than three or four nights is an outlier.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

RATES = np.array([0.002, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.998], dtype=np.float32)
RARE, FREQUENT = 0.02, 0.98  # rates beyond which a case passes, or fails, for good
_LIKELY = np.array(
    [0.45, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.35], dtype=np.float32
)
QUIET_PENALTY, CHANGED_PENALTY = (
    8.0,
    3.0,
)  # of a change without and with a change in the environment, in natural logarithms
SIZE_PENALTY = 4.0  # more than that for errors: they are noisier than verdicts
BOUND = 10.0  # the most that one night's error can say
LEVELS, RECENT = 48, 8
FEW_NIGHTS = 8
MIN_NOISE = 0.08  # octaves; errors of the same bits repeat exactly


def rates(events: NDArray[np.int8], penalty: Floats) -> Floats:
    """How often something happens, for each night: [series, nights] of 1 (it does), 0 (it does not)
    and -1 (nobody knows).

    ``penalty``: of a change before each night. Returns rates out of :data:`RATES`.
    """
    happens, not_at_all = -np.log(RATES), -np.log1p(-RATES)
    enter = -np.log(_LIKELY)

    def cost(run: int) -> Floats:
        seen = events[:, run, None]
        return np.where(
            seen == 1, happens, np.where(seen == 0, not_at_all, np.float32(0.0))
        ).astype(np.float32)

    place = _cheapest(
        cost, events.shape, np.broadcast_to(enter, (len(events), len(RATES))), penalty
    )
    return np.asarray(RATES[place], dtype=np.float32)


def levels(values: Floats, penalty: Floats, scatter: Floats | None = None) -> Floats:
    """The level of each series on each night, in the unit of ``values`` [series, nights], NaN where
    nothing was measured.

    ``scatter``: how uncertain a value is, used where there are too few nights to see it.
    """
    grid = _grid(values)
    few = values.shape[1] < FEW_NIGHTS and scatter is not None
    noise = (
        np.maximum(scatter, np.float32(MIN_NOISE))
        if few and scatter is not None
        else _noise(values)
    )[:, None]

    def cost(run: int) -> Floats:
        here = values[:, run, None]
        bounded = np.minimum(((here - grid) / noise) ** 2 * np.float32(0.5), np.float32(BOUND))
        return np.where(np.isnan(here), np.float32(0.0), bounded)

    enter = np.zeros((len(values), grid.shape[1]), dtype=np.float32)
    place = _cheapest(cost, values.shape, enter, penalty + np.float32(SIZE_PENALTY))
    return np.asarray(np.take_along_axis(grid, place, axis=1), dtype=np.float32)


def penalties(changed: NDArray[np.bool_]) -> Floats:
    """Of a change before each night; ``changed`` tells on which nights the environment was another
    one."""
    return np.where(changed, CHANGED_PENALTY, QUIET_PENALTY).astype(np.float32)


def _cheapest(cost, shape: tuple[int, int], enter: Floats, penalty: Floats) -> NDArray[np.intp]:  # type: ignore[no-untyped-def]
    """The level's place for each series and night. ``enter``: what beginning at a level costs
    beside the penalty."""
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
    here, every = total.argmin(axis=1), np.arange(series)
    for run in range(runs - 1, -1, -1):
        path[:, run] = here
        if run:
            here = np.where(jumped[run, every, here], cheapest[run], here)
    return path


def _grid(values: Floats) -> Floats:
    """Levels to choose from: quantiles of a series, and its last nights, for a level that has only
    just begun."""
    ordered = np.sort(values, axis=1)
    known = np.maximum(np.count_nonzero(~np.isnan(values), axis=1), 1)
    places = np.rint(np.linspace(0.0, 1.0, LEVELS)[None, :] * (known - 1)[:, None]).astype(np.intp)
    grid = np.concatenate(
        [np.take_along_axis(ordered, places, axis=1), values[:, -RECENT:]], axis=1
    )
    return np.where(
        np.isnan(grid),
        np.take_along_axis(ordered, np.zeros((len(values), 1), dtype=np.intp), axis=1),
        grid,
    )


def _noise(values: Floats) -> Floats:
    """How far a series moves from night to night, robustly: half of its moves are smaller than 0.67
    √2 of this."""
    moves = np.abs(np.diff(values, axis=1))
    usual = median(moves, axis=1) / np.float32(0.6745 * 2**0.5)
    return np.asarray(np.maximum(np.nan_to_num(usual), np.float32(MIN_NOISE)), dtype=np.float32)


def median(values: Floats, axis: int) -> Floats:
    """Of what is not NaN; NaN where nothing is left."""
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), np.nan, dtype=np.float32)
    ordered = np.sort(values, axis=axis)
    known = np.count_nonzero(~np.isnan(values), axis=axis, keepdims=True)
    low, high = np.maximum(known - 1, 0) // 2, known // 2
    high = np.minimum(high, np.maximum(known - 1, 0))
    middle = (
        np.take_along_axis(ordered, low, axis=axis) + np.take_along_axis(ordered, high, axis=axis)
    ) / np.float32(2.0)
    return middle.squeeze(axis)
