"""What changed for good, and in which run: new failures, fixes, errors that grew or shrank, what
is no longer tested.

Each case is followed over the runs by itself (:mod:`.segmentation`), so that like is compared
with like; what the cases of a group (operator, dtype, direction) did in the
same run is one change point.
Cases that fail now and then are flaky, with their rate, and no change point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .events import EventKind
from .series import FAILED, PASSED, UNTESTED, CaseHistories, EnvironmentHistory
from .shift_test import MIN_SHIFT, shift_of

FEW, MANY = 0.25, 0.65  # rates: from at most one to at least the other is a change point
MAX_DEVIATION = 4.0  # octaves; what one case adds to the mean move of its group is bounded by that
MAX_CHANCE, MIN_RATIO = (
    0.02,
    5.0,
)  # of cases that moved, by signs and ranks, and of their mean move to its uncertainty
MIN_SCATTER = 0.05  # octaves
NEGLIGIBLE = -6.7  # octaves (a hundredth of the budget): errors below that may move as they like
NEAR = 2  # runs within which change points of one group are one


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of one group in one environment, on ``night`` (its place among the environment's
    nights), where it was seen first; on the night ``last`` it was not there yet.

    ``cases`` of ``of`` took part. ``before`` and ``after``: × budget, in octaves; of verdicts, that
    of the worst such case (NaN where there is no number). ``item`` is a case that shows it.
    ``moved`` tells whether the environment changed that night.
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


@dataclass(frozen=True, slots=True)
class GroupSeries:
    """A group over the nights of an environment: median and largest × budget (octaves), how many
    cases fail and were tested.

    ``flaky`` holds, of the case that fails now and then most often, how many of how many nights
    since it did so; ``transient`` counts cases that fail in the latest run alone, where nothing has
    changed in the environment.
    """

    env: int
    group: int
    middle: NDArray[np.float32]
    largest: NDArray[np.float32]
    failing: NDArray[np.int32]
    tested: NDArray[np.int32]
    flaky: tuple[int, int] | None
    transient: int


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
        np.stack([each for each, _ in group_moves]),
        np.array([one for _, one in group_moves], dtype=np.float32),
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
        series.append(_series(environment, histories, place, failure_rate[rows]))
    return change_points, series


def _case_rates(events: NDArray[np.int8], penalty: segmentation.Floats) -> segmentation.Floats:
    """Rates of every case by night; what is alike is found once, and what never changes costs
    nothing."""
    lowest = np.where(events < 0, 2, events).min(axis=1)
    highest = events.max(axis=1)
    points = np.repeat(
        np.where(highest > 0, segmentation.RATES[-1], segmentation.RATES[0])[:, None],
        events.shape[1],
        axis=1,
    )
    mixed = np.flatnonzero((lowest == 0) & (highest == 1))
    if len(mixed):
        kinds, which = np.unique(events[mixed], axis=0, return_inverse=True)
        for start in range(0, len(kinds), 512):
            chosen = segmentation.rates(kinds[start : start + 512], penalty)
            mine = (which.ravel() >= start) & (which.ravel() < start + 512)
            points[mixed[mine]] = chosen[which.ravel()[mine] - start]
    return points.astype(np.float32)


def _median_moves(histories: CaseHistories, place: int) -> tuple[segmentation.Floats, float]:
    """How far the errors of a group lie, night by night, from where each of its cases usually lies
    (mean, in octaves).

    Only of cases that pass. Cases that were not there on all nights are aligned with the others by
    iteration. The second value is what the cases' disagreement makes of the mean's uncertainty.
    """
    rows = histories.of(place)
    size = np.where(histories.state[rows] == PASSED, histories.size[rows], np.float32(np.nan))
    known = ~np.isnan(size)
    many = known.sum(axis=0)
    run = np.zeros(size.shape[1], dtype=np.float32)
    for _ in range(1 if known.all() else 3):
        usual = np.nan_to_num(segmentation.median(size - run, axis=1))
        middle = segmentation.median(size - usual[:, None], axis=0)
        run = np.nan_to_num(middle)
    off = np.clip(size - usual[:, None] - run, -MAX_DEVIATION, MAX_DEVIATION)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, off, 0.0).sum(axis=0) / many
    scatter = segmentation.median(
        np.abs(np.where(known, off, np.float32(np.nan))), axis=0
    ) * np.float32(1.4826)
    uncertain = segmentation.median(
        (scatter / np.sqrt(np.maximum(many, 1))).astype(np.float32)[None, :], axis=1
    )
    return np.where(many > 0, run + mean, np.nan).astype(np.float32), float(
        np.nan_to_num(uncertain[0])
    )


def _steps(levels: segmentation.Floats) -> Iterator[tuple[int, float, float]]:
    for run in np.flatnonzero(levels[1:] != levels[:-1]) + 1:
        yield int(run), float(levels[run - 1]), float(levels[run])


def _rate_crossings(
    rate: segmentation.Floats, kinds: tuple[EventKind, EventKind]
) -> Iterator[tuple[EventKind, int, NDArray[np.intp]]]:
    """Runs in which cases begin, or cease, to do something for good; crossings of the same kind
    close together are one."""
    if (rate[:, 1:] == rate[:, :-1]).all():
        return
    for kind, low, high in (
        (kinds[0], rate[:, :-1], rate[:, 1:]),
        (kinds[1], rate[:, 1:], rate[:, :-1]),
    ):
        here = (low <= FEW) & (high >= MANY)
        runs = np.flatnonzero(here.any(axis=0))
        while len(runs):
            together = runs[runs <= runs[0] + NEAR]
            many = here[:, together].sum(axis=0)
            yield (
                kind,
                int(together[many.argmax()]) + 1,
                np.flatnonzero(here[:, together].any(axis=1)),
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
    run, last = _seen(np.any(histories.state[rows][cases] >= UNTESTED, axis=0), run)
    shown = size[:, last] if kind is EventKind.FIXED else size[:, run]
    worst = int(np.nan_to_num(shown, nan=np.inf).argmax())
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


def _seen(known: NDArray[np.bool_], run: int) -> tuple[int, int]:
    """The first night from this one on of which something is known, and the last one before it."""
    later, earlier = np.flatnonzero(known[run:]), np.flatnonzero(known[:run])
    return run + int(later[0]) if len(later) else run, int(earlier[-1]) if len(earlier) else run - 1


def _error_shifts(
    environment: EnvironmentHistory,
    histories: CaseHistories,
    place: int,
    moves: segmentation.Floats,
    levels: segmentation.Floats,
    changed: NDArray[np.bool_],
    others: list[ChangePoint],
) -> list[ChangePoint]:
    """Errors that moved for good: levels between nights whose medians really differ."""
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
        # Where cases begin or cease to fail, those that are left are other cases, and the verdict
        # says it already.
        if any(abs(other.run - run) <= NEAR for other in others):
            continue
        point = _error_shift(
            environment, histories, place, _seen(~np.isnan(moves), run), after - before, changed
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
    """The change point, unless the cases that moved disagree: another kernel, as good as the one
    before, moves each by chance."""
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
    most = int(np.nan_to_num(shift if move > 0 else -shift, nan=-np.inf).argmax())
    middle = float(np.nanmedian(before)) if not np.isnan(before).all() else float("nan")
    return ChangePoint(
        environment.env, int(histories.groups[place]), run, last,
        EventKind.ERROR_GREW if move > 0 else EventKind.ERROR_SHRANK,
        int(moved.sum()), len(size),
        middle, middle + move, int(histories.items[rows][most]),
        bool(changed[last + 1 : run + 1].any()),
    )  # fmt: skip


def _agree(moves: NDArray[np.float64]) -> bool:
    if len(moves) < 3 or shift_of(moves).chance > MAX_CHANCE:
        return False
    uncertain = max(float(moves.std(ddof=1)), MIN_SCATTER) / len(moves) ** 0.5
    return bool(abs(float(moves.mean())) >= MIN_RATIO * uncertain)


def _middle(values: segmentation.Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _series(
    environment: EnvironmentHistory,
    histories: CaseHistories,
    place: int,
    failure_rate: segmentation.Floats,
) -> GroupSeries:
    rows = histories.of(place)
    state, size = histories.state[rows], histories.size[rows]
    tested = (state >= PASSED).sum(axis=0, dtype=np.int32)
    failing = (state == FAILED).sum(axis=0, dtype=np.int32)
    largest = np.where(tested > 0, np.nan_to_num(size, nan=-np.inf).max(axis=0), -np.inf)
    largest = np.where(np.isinf(largest), np.nan, largest).astype(np.float32)
    return GroupSeries(
        environment.env, int(histories.groups[place]), segmentation.median(size, axis=0), largest,
        failing, tested,
        _flaky(state, failure_rate), _transient_failures(state, failure_rate),
    )  # fmt: skip


def _flaky(state: NDArray[np.int8], failure_rate: segmentation.Floats) -> tuple[int, int] | None:
    """(nights it failed, nights it ran) at its present rate, of the case that fails now and then
    most often."""
    last = failure_rate[:, -1]
    worst: tuple[int, int] | None = None
    for case in np.flatnonzero(
        (last > segmentation.RARE) & (last < segmentation.FREQUENT) & ~_first(state)
    ):
        steps = np.flatnonzero(failure_rate[case, 1:] != failure_rate[case, :-1])
        start = int(steps[-1]) + 1 if len(steps) else 0
        ran = state[case, start:]
        points = (int((ran == FAILED).sum()), int((ran >= PASSED).sum()))
        if points[0] and (worst is None or points[0] * worst[1] > worst[0] * points[1]):
            worst = points
    return worst


def _transient_failures(state: NDArray[np.int8], failure_rate: segmentation.Floats) -> int:
    """Cases that fail on the last night and are known to pass, or have passed until then: seen
    once, which few nights cannot tell from a flake."""
    last = failure_rate[:, -1]
    return int(
        (
            (state[:, -1] == FAILED)
            & ((last <= segmentation.RARE) | (last < segmentation.FREQUENT) & _first(state))
        ).sum()
    )


def _first(state: NDArray[np.int8]) -> NDArray[np.bool_]:
    """By case, whether it failed for the first time on the last night."""
    before = state[:, :-1]
    first: NDArray[np.bool_] = (
        (state[:, -1] == FAILED) & (before >= PASSED).any(axis=1) & ~(before == FAILED).any(axis=1)
    )
    return first
