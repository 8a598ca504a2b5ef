"""Cases that passed, then failed, and have not passed since: news, or not certain yet.

One or two failures could as well be the first ones of a case that fails at random. It is a new
failure, from the night on at which one of these holds:

- something in the environment changed with the first failure;
- many cases of the group failed for the first time in the same run: three or more, by chance in
  one of a hundred groups, at the share of failures before;
- it was repeated in the run and gave the same answer each time, after at least five passing
  nights;
- on the second night: it was repeated with the same answer, or the repeats of both runs failed,
  too, or the error is that of the first night, after at least two passing nights; or a dozen nights
  passed before;
- on the third night where at least eight nights passed before, otherwise on the fifth.

A case of which a repeat passed in the same run is flaky. Without that, no case is flaky before it
has passed again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .series import OTHER_ANSWERS, PASSED_AGAIN, SAME_ANSWER, CaseHistories

COMPANY, COMPANY_CHANCE = 3, 0.01
SAME_ERROR = 0.25  # octaves from one night to the next: the same answer, or sums in another order
# Passing nights before: for news on the first morning by repeats, on the second by the same error
# or without a reason, on the third without a reason.
BEFORE_REPEATED, BEFORE_SAME_ERROR, BEFORE_SECOND, BEFORE_THIRD = 5, 2, 12, 8
LAST_DOUBT = 5  # nights in a row that need nothing else
NEVER = -1


@dataclass(frozen=True, slots=True)
class FirstFailures:
    """For every case: the run of its first failure, if it has failed since (else NEVER); the run
    in which that became certain (else NEVER); whether a repeat in one of these runs passed; and
    [cases, runs] the failures in a row of which one passed when it was repeated."""

    start: NDArray[np.intp]
    certain: NDArray[np.intp]
    passed_again: NDArray[np.bool_]
    at_random: NDArray[np.bool_]

    @property
    def uncertain(self) -> NDArray[np.bool_]:
        """By case, whether it fails up to the last run and nobody knows yet whether for good."""
        undecided: NDArray[np.bool_] = (self.start != NEVER) & (self.certain == NEVER)
        return undecided & ~self.passed_again  # which is flaky, and no news

    def settle(self, rate: segmentation.Floats, failing: NDArray[np.int8]) -> segmentation.Floats:
        """Failure rates by case and run, with those of these cases: a step where it is certain,
        that of the nights so far where a repeat passed, otherwise none yet."""
        settled = rate.copy()
        settled[self.at_random] = np.minimum(settled[self.at_random], np.float32(0.5))
        for case in np.flatnonzero(self.start != NEVER):
            if self.certain[case] != NEVER:
                settled[case, : self.start[case]] = segmentation.RATES[0]
                settled[case, self.start[case] :] = segmentation.RATES[-1]
            elif self.passed_again[case]:
                known = failing[case][failing[case] >= 0]
                inner = segmentation.RATES[2:-2]  # neither rare nor frequent
                settled[case] = inner[np.abs(inner - known.mean()).argmin()]
            else:
                settled[case] = segmentation.RATES[0]
        return settled


def first_failures(
    histories: CaseHistories, failing: NDArray[np.int8], changed: NDArray[np.bool_]
) -> FirstFailures:
    """Those of all cases. ``failing`` [cases, runs] is 1, 0, or -1 where a case was not tested;
    ``changed`` marks runs with another environment than the run before."""
    cases, runs = failing.shape
    fails, passes = failing == 1, failing == 0
    first = fails.argmax(axis=1)
    last_pass = runs - 1 - passes[:, ::-1].argmax(axis=1)
    begun = fails.any(axis=1) & passes.any(axis=1) & (last_pass < first)
    start = np.where(begun, first, NEVER)
    certain = np.full(cases, NEVER, dtype=np.intp)
    passed_again = begun & (fails & (histories.again == PASSED_AGAIN)).any(axis=1)
    together = _company(histories, fails, passes, np.where(passed_again, NEVER, start))
    for case in np.flatnonzero(begun & ~passed_again):
        nights = np.flatnonzero(fails[case])
        moved = bool(changed[last_pass[case] + 1 : first[case] + 1].any())
        count = 1 if moved or together[case] else _nights_until_certain(
            int(passes[case].sum()), histories.size[case, nights], histories.again[case, nights]
        )  # fmt: skip
        if count:
            certain[case] = nights[count - 1]
    return FirstFailures(start, certain, passed_again, _at_random(fails, passes, histories.again))


def _at_random(
    fails: NDArray[np.bool_], passes: NDArray[np.bool_], again: NDArray[np.int8]
) -> NDArray[np.bool_]:
    """By case and run, the failures in a row [cases, runs] of which a repeat of one passed: however
    many they are, the case fails at random."""
    found = np.zeros_like(fails)
    for case in np.flatnonzero((again == PASSED_AGAIN).any(axis=1)):
        known = np.flatnonzero(fails[case] | passes[case])
        for row in np.split(known, np.flatnonzero(np.diff(fails[case, known])) + 1):
            if fails[case, row[0]] and (again[case, row] == PASSED_AGAIN).any():
                found[case, row] = True
    return found


def _nights_until_certain(passes: int, size: NDArray[np.float32], again: NDArray[np.int8]) -> int:
    """After how many nights in a row it is certain, 0 if it is not yet. ``size``: the error of each
    night (octaves); ``again``: what its repeats gave."""
    if again[0] == SAME_ANSWER and passes >= BEFORE_REPEATED:
        return 1
    for count in range(2, len(size) + 1):
        same_error = _same_error(float(size[count - 2]), float(size[count - 1]))
        repeated = (again[:count] >= OTHER_ANSWERS).sum() >= 2
        if (
            count >= LAST_DOUBT
            or passes >= (BEFORE_SECOND if count == 2 else BEFORE_THIRD)
            or repeated
            or bool((again[:count] == SAME_ANSWER).any())
            or (passes >= BEFORE_SAME_ERROR and same_error)
        ):
            return count
    return 0


def _same_error(one: float, other: float) -> bool:
    """Two nights' errors; without a number (wrong special values, a crash) there is one kind."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or abs(one - other) <= SAME_ERROR


def _company(
    histories: CaseHistories,
    fails: NDArray[np.bool_],
    passes: NDArray[np.bool_],
    start: NDArray[np.intp],
) -> NDArray[np.bool_]:
    """By case, whether it failed for the first time with too many others of its group for
    chance."""
    together = np.zeros(len(start), dtype=np.bool_)
    for place in range(len(histories.groups)):
        rows = histories.of(place)
        runs, counts = np.unique(start[rows][start[rows] != NEVER], return_counts=True)
        for run, count in zip(runs, counts, strict=True):
            if count < COMPANY:
                continue
            failed = int(fails[rows, :run].sum())
            tested = failed + int(passes[rows, :run].sum())
            of = int((fails[rows, run] | passes[rows, run]).sum())
            if _chance(int(count), of, (failed + 1) / (tested + 2)) <= COMPANY_CHANCE:
                together[rows] |= start[rows] == run
    return together


def _chance(count: int, of: int, rate: float) -> float:
    """The chance of at least ``count`` failures of ``of`` independent cases at this rate (the tail
    of a binomial distribution)."""
    logs = [
        math.lgamma(of + 1) - math.lgamma(i + 1) - math.lgamma(of - i + 1)
        + i * math.log(rate) + (of - i) * math.log1p(-rate)
        for i in range(count, of + 1)
    ]  # fmt: skip
    return math.fsum(map(math.exp, logs))
