"""The series of a group over the runs of an environment, for charts: errors, failures, flaky
cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .series import FAILED, PASSED, CaseHistories, EnvironmentHistory


@dataclass(frozen=True, slots=True)
class GroupSeries:
    """A group over the runs of an environment: median and largest × budget (octaves), numbers of
    failing and of tested cases.

    ``flaky`` is (failed runs, runs) of the most frequently failing flaky case at its present rate;
    ``transient`` counts cases that fail only in the latest run, without a change of environment.
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
) -> GroupSeries:
    """The series of one group, given the rate of failures of each of its cases by run."""
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
    """(failed runs, runs) at its present rate, of the most frequently failing flaky case."""
    last = failure_rate[:, -1]
    worst: tuple[int, int] | None = None
    for case in np.flatnonzero(
        (last > segmentation.RARE) & (last < segmentation.FREQUENT) & ~_failed_first(state)
    ):
        steps = np.flatnonzero(failure_rate[case, 1:] != failure_rate[case, :-1])
        start = int(steps[-1]) + 1 if len(steps) else 0
        ran = state[case, start:]
        points = (int((ran == FAILED).sum()), int((ran >= PASSED).sum()))
        if points[0] and (worst is None or points[0] * worst[1] > worst[0] * points[1]):
            worst = points
    return worst


def _transient_failures(state: NDArray[np.int8], failure_rate: segmentation.Floats) -> int:
    """Number of cases that fail in the last run but passed before. One failure cannot be
    distinguished from a flaky case."""
    last = failure_rate[:, -1]
    return int(
        (
            (state[:, -1] == FAILED)
            & ((last <= segmentation.RARE) | (last < segmentation.FREQUENT) & _failed_first(state))
        ).sum()
    )


def _failed_first(state: NDArray[np.int8]) -> NDArray[np.bool_]:
    """By case, whether it failed for the first time in the last run."""
    before = state[:, :-1]
    first: NDArray[np.bool_] = (
        (state[:, -1] == FAILED) & (before >= PASSED).any(axis=1) & ~(before == FAILED).any(axis=1)
    )
    return first
