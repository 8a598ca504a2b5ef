"""Change points: runs with new failures, fixes, larger or smaller errors, or lost tests.

Each case is followed over the runs separately (:mod:`.segmentation`), so that equal cases are
compared; changes of the cases of a group (operator, dtype, direction) in the same run are one
change point. Cases that fail intermittently are flaky, with a rate, and give no change point.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .error_points import NEAR, error_shifts, known_runs, median_moves
from .events import ChangePoint, EventKind
from .first_failures import NEVER, FirstFailures, first_failures
from .group_series import GroupSeries, series_of
from .series import FAILED, PASSED, UNTESTED, CaseHistories, EnvironmentHistory
from .shift_test import MIN_SHIFT

FEW, MANY = 0.25, 0.65  # a change point goes from a rate ≤ FEW to a rate ≥ MANY, or back
LATE = 12  # runs within which a change of rate is surely found


def find_change_points(
    environment: EnvironmentHistory, histories: CaseHistories
) -> tuple[list[ChangePoint], list[GroupSeries]]:
    """The change points and the series of all groups of some case histories."""
    penalty = segmentation.penalties(environment.changed())
    failing = np.where(histories.state >= PASSED, histories.state == FAILED, -1).astype(np.int8)
    missing = np.where(histories.state < UNTESTED, -1, histories.state == UNTESTED).astype(np.int8)
    changed = environment.changed()
    firsts = first_failures(histories, failing, changed)
    failure_rate = firsts.settle(_case_rates(failing, penalty), failing)
    untested_rate = _case_rates(missing, penalty)
    certain = _certain_runs(failing, failure_rate, penalty, firsts)
    group_moves = [median_moves(histories, place) for place in range(len(histories.groups))]
    moves, scatter = (
        np.stack([group_move for group_move, _ in group_moves]),
        np.array([group_scatter for _, group_scatter in group_moves], dtype=np.float32),
    )
    steady = (
        np.nan_to_num(
            np.nanmax(moves, axis=1, initial=-np.inf) - np.nanmin(moves, axis=1, initial=np.inf),
            neginf=0.0,
        )
        < MIN_SHIFT
    )
    levels = np.zeros_like(moves)
    if not steady.all():
        levels[~steady] = segmentation.levels(moves[~steady], penalty, scatter[~steady])
    change_points, series = [], []
    for place in range(len(histories.groups)):
        rows = histories.of(place)
        points = [
            _change_point(environment, histories, place, run, kind, cases, changed, certain[rows])
            for rates, kinds in (
                (failure_rate, (EventKind.NEW_FAILURE, EventKind.FIXED)),
                (untested_rate, (EventKind.UNTESTED, EventKind.TESTED_AGAIN)),
            )
            for kind, run, cases in _rate_crossings(rates[rows], kinds)
        ]
        if not steady[place]:
            points += error_shifts(
                environment, histories, place, moves[place], levels[place], changed, points
            )
        change_points += points
        series.append(series_of(environment, histories, place, failure_rate[rows], firsts))
    return change_points, series


def _certain_runs(
    failing: NDArray[np.int8],
    rate: segmentation.Floats,
    penalty: segmentation.Floats,
    firsts: FirstFailures,
) -> NDArray[np.intp]:
    """By case, the run after which its present failure could be told first, else NEVER: for a case
    that failed before, the first one up to which its rate rises then, too."""
    certain = firsts.certain.copy()
    rises = (rate[:, :-1] <= FEW) & (rate[:, 1:] >= MANY)
    late = rises[:, -LATE:].any(axis=1) & (firsts.start == NEVER) & (rate[:, -1] >= MANY)
    runs = failing.shape[1]
    for case in np.flatnonzero(late):
        start = int(np.flatnonzero(rises[case])[-1]) + 1
        for run in range(start, runs):
            told = segmentation.rates(failing[case : case + 1, : run + 1], penalty[: run + 1])[0]
            if told[-1] >= MANY and bool((told <= FEW).any()):
                certain[case] = run
                break
    return certain


def _case_rates(events: NDArray[np.int8], penalty: segmentation.Floats) -> segmentation.Floats:
    """Rates of every case by run. Equal rows are segmented once, constant rows not at all."""
    lowest = np.where(events < 0, 2, events).min(axis=1)
    highest = events.max(axis=1)
    points = np.repeat(
        np.where(highest > 0, segmentation.RATES[-1], segmentation.RATES[0])[:, None],
        events.shape[1],
        axis=1,
    )
    mixed = np.flatnonzero((lowest == 0) & (highest == 1))
    if len(mixed):
        kinds, kind_of_row = np.unique(events[mixed], axis=0, return_inverse=True)
        for start in range(0, len(kinds), 512):
            chosen = segmentation.rates(kinds[start : start + 512], penalty)
            in_chunk = (kind_of_row.ravel() >= start) & (kind_of_row.ravel() < start + 512)
            points[mixed[in_chunk]] = chosen[kind_of_row.ravel()[in_chunk] - start]
    return points.astype(np.float32)


def _rate_crossings(
    rate: segmentation.Floats, kinds: tuple[EventKind, EventKind]
) -> Iterator[tuple[EventKind, int, NDArray[np.intp]]]:
    """Runs in which the rate of cases rises or falls across the thresholds; near crossings of the
    same kind are merged."""
    if (rate[:, 1:] == rate[:, :-1]).all():
        return
    for kind, low, high in (
        (kinds[0], rate[:, :-1], rate[:, 1:]),
        (kinds[1], rate[:, 1:], rate[:, :-1]),
    ):
        crosses = (low <= FEW) & (high >= MANY)
        runs = np.flatnonzero(crosses.any(axis=0))
        while len(runs):
            together = runs[runs <= runs[0] + NEAR]
            counts = crosses[:, together].sum(axis=0)
            yield (
                kind,
                int(together[counts.argmax()]) + 1,
                np.flatnonzero(crosses[:, together].any(axis=1)),
            )
            runs = runs[len(together) :]


def _change_point(
    environment: EnvironmentHistory,
    histories: CaseHistories,
    place: int,
    run: int,
    kind: EventKind,
    cases: NDArray[np.intp],
    changed: NDArray[np.bool_],
    certain: NDArray[np.intp],
) -> ChangePoint:
    rows = histories.of(place)
    size = histories.size[rows][cases]
    known = np.any(histories.state[rows][cases] >= UNTESTED, axis=0)
    run, last = known_runs(known, run)
    sizes = size[:, last] if kind is EventKind.FIXED else size[:, run]
    worst = int(np.nan_to_num(sizes, nan=np.inf).argmax())
    before, after = float(size[worst, last]), float(size[worst, run])
    item = int(histories.items[rows][cases[worst]])
    of = int(rows.stop - rows.start)
    moved = bool(changed[last + 1 : run + 1].any())
    told = max(run, int(certain[cases].max())) if kind is EventKind.NEW_FAILURE else run
    return ChangePoint(
        environment.env, int(histories.groups[place]), run, last, kind, len(cases), of,
        before, after, item, moved, told, int(known[run:].sum()),
    )  # fmt: skip
