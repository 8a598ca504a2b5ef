"""Levels over nights: planted changes are found on their night, and noise, flakes and odd nights
are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from consistency.report.history import segmentation

NIGHTS = 120


def penalty(*changed: int, nights: int = NIGHTS) -> segmentation.Floats:
    return segmentation.penalties(np.isin(np.arange(nights), changed))


def steps(found: segmentation.Floats) -> list[list[int]]:
    return [[int(n) + 1 for n in np.flatnonzero(np.abs(np.diff(row)) > 0.3)] for row in found]


def noisy(series: int, sigma: float, seed: int = 0, nights: int = NIGHTS) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(-2.0, sigma, (series, nights)).astype(np.float32)


def test_a_shift_is_found_on_its_night() -> None:
    values = noisy(40, 0.06)
    for i in range(40):
        values[i, 20 + 2 * i :] += 0.6
    assert steps(segmentation.levels(values, penalty())) == [[20 + 2 * i] for i in range(40)]


def test_noise_is_no_shift_even_where_drivers_change() -> None:
    values = (
        noisy(400, 0.15)
        + np.random.default_rng(1).standard_t(3, (400, NIGHTS)).astype(np.float32) * 0.1
    )
    assert sum(map(len, steps(segmentation.levels(values, penalty(30, 60, 90))))) == 0


def test_one_odd_night_is_no_shift_wherever_it_lies() -> None:
    values = noisy(30, 0.05)
    values[:10, 50] += 9.0
    values[10:20, -1] += 9.0
    values[20:, 0] += 9.0
    assert steps(segmentation.levels(values, penalty())) == [[]] * 30


def test_the_last_night_counts_at_once_where_the_environment_changed_and_else_from_its_second() -> (
    None
):
    values = noisy(3, 0.05)
    values[:, -1] += 2.0
    assert steps(segmentation.levels(values, penalty())) == [[]] * 3
    assert steps(segmentation.levels(values, penalty(NIGHTS - 1))) == [[NIGHTS - 1]] * 3
    values[:, -2] += 2.0
    assert steps(segmentation.levels(values, penalty())) == [[NIGHTS - 2]] * 3


def test_nights_without_a_measurement_say_nothing() -> None:
    values = noisy(2, 0.05)
    values[:, 40:47] = np.nan
    values[1, 47:] += 1.0
    assert steps(segmentation.levels(values, penalty())) == [[], [47]] or steps(
        segmentation.levels(values, penalty())
    )[1][0] in range(40, 48)


def rates(rows: NDArray[np.bool_], *changed: int) -> list[list[int]]:
    found = segmentation.rates(rows.astype(np.int8), penalty(*changed))
    return [
        [int(n) + 1 for n in np.flatnonzero((row[:-1] <= 0.25) & (row[1:] >= 0.65))]
        for row in found
    ]


def test_failures_that_stay_are_found_on_their_night() -> None:
    fails = np.zeros((20, NIGHTS), dtype=np.bool_)
    for i in range(20):
        fails[i, 10 + 5 * i :] = True
    assert rates(fails) == [[10 + 5 * i] for i in range(20)]


def test_flakes_are_no_regressions_and_get_their_rate() -> None:
    chance = np.repeat([0.02, 0.05, 0.1, 0.3], 50)[:, None]
    fails = np.random.default_rng(3).random((200, NIGHTS)) < chance
    assert sum(map(len, rates(fails, 40, 80))) == 0
    found = segmentation.rates(fails[150:].astype(np.int8), penalty())
    assert 0.2 <= float(np.median(found[:, -1])) <= 0.35


def test_a_flaky_case_that_always_fails_from_some_night_on_is_a_regression() -> None:
    fails = np.random.default_rng(4).random((5, NIGHTS)) < 0.1
    fails[:, 70:] = True
    assert all(len(row) == 1 and 66 <= row[0] <= 70 for row in rates(fails))


def test_one_failure_on_the_last_night_is_one_only_where_something_changed() -> None:
    fails = np.zeros((1, NIGHTS), dtype=np.bool_)
    fails[0, -1] = True
    assert rates(fails) == [[]]
    assert rates(fails, NIGHTS - 1) == [[NIGHTS - 1]]


def test_two_nights_are_enough_where_a_driver_changed() -> None:
    events = np.array([[0, 1]], dtype=np.int8)
    found = segmentation.rates(events, segmentation.penalties(np.array([False, True])))
    assert found[0, 0] < 0.01
    assert found[0, 1] > 0.99


def test_medians_pass_over_what_is_missing() -> None:
    values = np.array([[1.0, np.nan, 3.0, 2.0], [np.nan] * 4], dtype=np.float32)
    assert segmentation.median(values, axis=1).tolist()[0] == 2.0
    assert np.isnan(segmentation.median(values, axis=1)[1])
    assert segmentation.median(values, axis=0).tolist()[0] == 1.0
