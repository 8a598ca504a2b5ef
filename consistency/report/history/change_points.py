"""Change points: runs with new failures, fixes, larger or smaller errors, or lost tests.

Each case is followed over the runs separately (:mod:`.segmentation`), so that equal cases are
compared; changes of the cases of a group (operator, dtype, direction) in the same run are one
change point. Cases that fail intermittently are flaky, with a rate, and give no change point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .events import EventKind
from .group_series import GroupSeries, series_of
from .series import FAILED, PASSED, UNTESTED, CaseHistories, EnvironmentHistory
from .shift_test import MIN_SHIFT, shift_of

FEW, MANY = 0.25, 0.65  # a change point goes from a rate ≤ FEW to a rate ≥ MANY, or back
MAX_DEVIATION = 4.0  # octaves: bound of one case's contribution to the mean move of its group
# Largest p-value of the moved cases (signs and ranks), smallest ratio of mean move to uncertainty.
MAX_CHANCE, MIN_RATIO = 0.02, 5.0
MIN_SCATTER = 0.05  # octaves
NEGLIGIBLE = -6.7  # octaves (a hundredth of the budget): moves of smaller errors are ignored
NEAR = 2  # runs within which change points of a group are merged


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of one group in one environment, first seen in ``run`` (an index into the
    environment's runs) and absent in run ``last``.

    ``cases`` of ``of`` cases changed. ``before`` and ``after`` are × budget in octaves; for
    verdicts, of the worst such case (NaN without a number). ``item`` is an example case. ``moved``:
    the environment changed between the two runs.
    """

    env: int
    group: int
    run: int
    last: int
    kind: EventKind
    cases: int
    of: int
    before: float
    after: float
    item: int
    moved: bool

    @property
    def regression(self) -> bool:
        return self.kind.regression


def find_change_points(
    environment: EnvironmentHistory, histories: CaseHistories
) -> tuple[list[ChangePoint], list[GroupSeries]]:
    """The change points and the series of all groups of some case histories."""
    penalty = segmentation.penalties(environment.changed())
    failing = np.where(histories.state >= PASSED, histories.state == FAILED, -1).astype(np.int8)
    missing = np.where(histories.state < UNTESTED, -1, histories.state == UNTESTED).astype(np.int8)
    failure_rate, untested_rate = _case_rates(failing, penalty), _case_rates(missing, penalty)
    group_moves = [_median_moves(histories, place) for place in range(len(histories.groups))]
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
    changed = environment.changed()
    change_points, series = [], []
    for place in range(len(histories.groups)):
        rows = histories.of(place)
        points = [
            _change_point(environment, histories, place, run, kind, cases, changed)
            for rates, kinds in (
                (failure_rate, (EventKind.NEW_FAILURE, EventKind.FIXED)),
                (untested_rate, (EventKind.UNTESTED, EventKind.TESTED_AGAIN)),
            )
            for kind, run, cases in _rate_crossings(rates[rows], kinds)
        ]
        if not steady[place]:
            points += _error_shifts(
                environment, histories, place, moves[place], levels[place], changed, points
            )
        change_points += points
        series.append(series_of(environment, histories, place, failure_rate[rows]))
    return change_points, series


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


def _median_moves(histories: CaseHistories, place: int) -> tuple[segmentation.Floats, float]:
    """The mean deviation of a group's errors from each case's median, by run, in octaves; and the
    uncertainty of that mean from the scatter of the cases.

    Only passing cases count. Cases missing in some runs are aligned with the others by iteration.
    """
    rows = histories.of(place)
    size = np.where(histories.state[rows] == PASSED, histories.size[rows], np.float32(np.nan))
    measured = ~np.isnan(size)
    counts = measured.sum(axis=0)
    run = np.zeros(size.shape[1], dtype=np.float32)
    for _ in range(1 if measured.all() else 3):
        usual = np.nan_to_num(segmentation.median(size - run, axis=1))
        middle = segmentation.median(size - usual[:, None], axis=0)
        run = np.nan_to_num(middle)
    deviation = np.clip(size - usual[:, None] - run, -MAX_DEVIATION, MAX_DEVIATION)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(measured, deviation, 0.0).sum(axis=0) / counts
    scatter = segmentation.median(
        np.abs(np.where(measured, deviation, np.float32(np.nan))), axis=0
    ) * np.float32(1.4826)
    uncertain = segmentation.median(
        (scatter / np.sqrt(np.maximum(counts, 1))).astype(np.float32)[None, :], axis=1
    )
    return np.where(counts > 0, run + mean, np.nan).astype(np.float32), float(
        np.nan_to_num(uncertain[0])
    )


def _steps(levels: segmentation.Floats) -> Iterator[tuple[int, float, float]]:
    for run in np.flatnonzero(levels[1:] != levels[:-1]) + 1:
        yield int(run), float(levels[run - 1]), float(levels[run])


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
) -> ChangePoint:
    rows = histories.of(place)
    size = histories.size[rows][cases]
    run, last = _known_runs(np.any(histories.state[rows][cases] >= UNTESTED, axis=0), run)
    sizes = size[:, last] if kind is EventKind.FIXED else size[:, run]
    worst = int(np.nan_to_num(sizes, nan=np.inf).argmax())
    before, after = float(size[worst, last]), float(size[worst, run])
    item = int(histories.items[rows][cases[worst]])
    of = int(rows.stop - rows.start)
    moved = bool(changed[last + 1 : run + 1].any())
    return ChangePoint(
        environment.env,
        int(histories.groups[place]),
        run,
        last,
        kind,
        len(cases),
        of,
        before,
        after,
        item,
        moved,
    )


def _known_runs(known: NDArray[np.bool_], run: int) -> tuple[int, int]:
    """The first known run from ``run`` on, and the last known run before it."""
    later, earlier = np.flatnonzero(known[run:]), np.flatnonzero(known[:run])
    return run + int(later[0]) if len(later) else run, int(earlier[-1]) if len(earlier) else run - 1


def _error_shifts(
    environment: EnvironmentHistory,
    histories: CaseHistories,
    place: int,
    moves: segmentation.Floats,
    levels: segmentation.Floats,
    changed: NDArray[np.bool_],
    rate_points: list[ChangePoint],
) -> list[ChangePoint]:
    """Change points of errors: levels whose medians differ by at least MIN_SHIFT."""
    bounds = [0, *(run for run, _, _ in _steps(levels)), len(moves)]
    middles = [_middle(moves[a:b]) for a, b in itertools.pairwise(bounds)]
    points: list[ChangePoint] = []
    last = middles[0]
    for run, after in zip(bounds[1:-1], middles[1:], strict=True):
        if np.isnan(after):
            continue
        if np.isnan(last):
            last = after
            continue
        if abs(after - last) < MIN_SHIFT:
            continue
        before, last = last, after
        # If cases begin or cease to fail, the passing cases are not the same as before, and the
        # change of verdict is reported already.
        if any(abs(rate_point.run - run) <= NEAR for rate_point in rate_points):
            continue
        point = _error_shift(
            environment,
            histories,
            place,
            _known_runs(~np.isnan(moves), run),
            after - before,
            changed,
        )
        if point is not None:
            points.append(point)
    return points


def _error_shift(
    environment: EnvironmentHistory,
    histories: CaseHistories,
    place: int,
    runs: tuple[int, int],
    move: float,
    changed: NDArray[np.bool_],
) -> ChangePoint | None:
    """The change point, unless the moves of the cases disagree, as with another kernel of the same
    accuracy."""
    rows, (run, last) = histories.of(place), runs
    size = np.where(histories.state[rows] == PASSED, histories.size[rows], np.float32(np.nan))
    first, end = max(run - 14, 0), min(run + 14, size.shape[1])
    before, after = (
        segmentation.median(size[:, first:run], axis=1),
        segmentation.median(size[:, run:end], axis=1),
    )
    shift = after - before
    moved = np.abs(shift) >= MIN_SHIFT / 2
    if (
        not _agree(shift[moved].astype(np.float64))
        or float(np.nanmedian(np.fmax(before, after))) < NEGLIGIBLE
    ):
        return None
    largest_move = int(np.nan_to_num(shift if move > 0 else -shift, nan=-np.inf).argmax())
    middle = float(np.nanmedian(before)) if not np.isnan(before).all() else float("nan")
    return ChangePoint(
        environment.env, int(histories.groups[place]), run, last,
        EventKind.ERROR_GREW if move > 0 else EventKind.ERROR_SHRANK,
        int(moved.sum()), len(size),
        middle, middle + move, int(histories.items[rows][largest_move]),
        bool(changed[last + 1 : run + 1].any()),
    )  # fmt: skip


def _agree(moves: NDArray[np.float64]) -> bool:
    if len(moves) < 3 or shift_of(moves).chance > MAX_CHANCE:
        return False
    uncertain = max(float(moves.std(ddof=1)), MIN_SCATTER) / len(moves) ** 0.5
    return bool(abs(float(moves.mean())) >= MIN_RATIO * uncertain)


def _middle(values: segmentation.Floats) -> float:
    measured = values[~np.isnan(values)]
    return float(np.median(measured)) if len(measured) else float("nan")
