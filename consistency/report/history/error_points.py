"""Change points of errors that still pass: levels of a group's mean deviation over the runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .events import ChangePoint, EventKind
from .series import PASSED, CaseHistories, EnvironmentHistory
from .shift_test import MIN_SHIFT, shift_of

MAX_DEVIATION = 4.0  # octaves: bound of one case's contribution to the mean move of its group
# Largest p-value of the moved cases (signs and ranks), smallest ratio of mean move to uncertainty.
MAX_CHANCE, MIN_RATIO = 0.02, 5.0
MIN_SCATTER = 0.05  # octaves
NEGLIGIBLE = -6.7  # octaves (a hundredth of the budget): moves of smaller errors are ignored
NEAR = 2  # runs within which change points of a group are merged


def median_moves(histories: CaseHistories, place: int) -> tuple[segmentation.Floats, float]:
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


def error_shifts(
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
            known_runs(~np.isnan(moves), run),
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
        run, int((~np.isnan(size[:, run:])).any(axis=0).sum()),
    )  # fmt: skip


def known_runs(known: NDArray[np.bool_], run: int) -> tuple[int, int]:
    """The first known run from ``run`` on, and the last known run before it."""
    later, earlier = np.flatnonzero(known[run:]), np.flatnonzero(known[:run])
    return run + int(later[0]) if len(later) else run, int(earlier[-1]) if len(earlier) else run - 1


def _steps(levels: segmentation.Floats) -> Iterator[tuple[int, float, float]]:
    for run in np.flatnonzero(levels[1:] != levels[:-1]) + 1:
        yield int(run), float(levels[run - 1]), float(levels[run])


def _agree(moves: NDArray[np.float64]) -> bool:
    if len(moves) < 3 or shift_of(moves).chance > MAX_CHANCE:
        return False
    uncertain = max(float(moves.std(ddof=1)), MIN_SCATTER) / len(moves) ** 0.5
    return bool(abs(float(moves.mean())) >= MIN_RATIO * uncertain)


def _middle(values: segmentation.Floats) -> float:
    measured = values[~np.isnan(values)]
    return float(np.median(measured)) if len(measured) else float("nan")
