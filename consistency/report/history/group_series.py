"""The series of a group over the runs of an environment, for charts: errors, failures, flaky
cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .first_failures import FirstFailures
from .series import FAILED, PASSED, CaseHistories, EnvironmentHistory


@dataclass(frozen=True, slots=True)
class GroupSeries:
    """A group over the runs of an environment: median and largest × budget (octaves), numbers of
    failing and of tested cases.

    ``flaky`` is (failed runs, runs) of the most frequently failing flaky case at its present rate;
    ``transient`` counts cases that fail in the latest run and are not certain yet: they failed
    for the first time, without a change of environment.
    """

    env: int
    group: int
    middle: NDArray[np.float32]
    largest: NDArray[np.float32]
    failing: NDArray[np.int32]
    tested: NDArray[np.int32]
    flaky: tuple[int, int] | None
    transient: int


def series_of(
    environment: EnvironmentHistory,
    histories: CaseHistories,
    place: int,
    failure_rate: segmentation.Floats,
    firsts: FirstFailures,
) -> GroupSeries:
    """The series of one group, given the rate of failures of each of its cases by run."""
    rows = histories.of(place)
    state, size = histories.state[rows], histories.size[rows]
    tested = (state >= PASSED).sum(axis=0, dtype=np.int32)
    failing = (state == FAILED).sum(axis=0, dtype=np.int32)
    largest = np.where(tested > 0, np.nan_to_num(size, nan=-np.inf).max(axis=0), -np.inf)
    largest = np.where(np.isinf(largest), np.nan, largest).astype(np.float32)
    uncertain = firsts.uncertain[rows] & (state[:, -1] == FAILED)
    return GroupSeries(
        environment.env, int(histories.groups[place]), segmentation.median(size, axis=0), largest,
        failing, tested,
        _flaky(state, failure_rate, firsts.passed_again[rows]),
        _transient(state, uncertain, failure_rate),
    )  # fmt: skip


def _flaky(
    state: NDArray[np.int8], failure_rate: segmentation.Floats, passed_again: NDArray[np.bool_]
) -> tuple[int, int] | None:
    """(failed runs, runs) at its present rate, of the most frequently failing flaky case: one that
    failed and passed again, or did so when it was repeated in a run."""
    last = failure_rate[:, -1]
    worst: tuple[int, int] | None = None
    for case in np.flatnonzero((last > segmentation.RARE) & (last < segmentation.FREQUENT)):
        steps = np.flatnonzero(failure_rate[case, 1:] != failure_rate[case, :-1])
        start = int(steps[-1]) + 1 if len(steps) else 0
        if not (passed_again[case] or _came_back(state[case, max(start - 1, 0) :])):
            continue
        ran = state[case, start:]
        points = (int((ran == FAILED).sum()), int((ran >= PASSED).sum()))
        if points[0] and (worst is None or points[0] * worst[1] > worst[0] * points[1]):
            worst = points
    return worst


def _came_back(state: NDArray[np.int8]) -> bool:
    """Whether a case changed more than once: one that only began to fail may fail for good, one
    that only ceased to may be mended."""
    fails = state[state >= PASSED] == FAILED
    return int((fails[1:] != fails[:-1]).sum()) >= 2


def _transient(
    state: NDArray[np.int8], uncertain: NDArray[np.bool_], failure_rate: segmentation.Floats
) -> int:
    """Number of cases that fail in the last run and are neither news nor known to be flaky for
    longer: those that fail for the first time, and those that almost always passed."""
    first_night = (state == FAILED).sum(axis=1) == 1
    rare = (state[:, -1] == FAILED) & (failure_rate[:, -1] <= segmentation.RARE)
    return int((uncertain & first_night | rare).sum())
