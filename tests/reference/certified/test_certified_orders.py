"""Sorting, selecting, distinct values and histograms: compared with Python's own sorting of
fractions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb

from consistency.reference.certified import balls
from consistency.reference.certified.orders import order
from tests.reference.certified.tracing_calls import (
    enclosure_tests,
    fractions,
    numbers,
    slopes,
    traced,
)

Row = Callable[[random.Random], tuple[Any, Any]]
NAN = float("nan")


def per_row(call: Callable[..., Any], truth: Callable[[list[Fraction]], list[list[Any]]]) -> Row:
    """Of a matrix, lists of what is true of each of its rows, one per result."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        x = numbers(rng, (3, rng.randint(3, 9)), rng.choice(("wide", "few")))
        found = traced(call, x)
        exact = [truth(list(values)) for values in fractions(x)]
        return [f.reshape(3, -1) for f in found], [
            np.array([of[k] for of in exact], dtype=object) for k in range(len(found))
        ]

    return row


def ascending(values: list[Fraction]) -> list[int]:
    return sorted(range(len(values)), key=lambda i: (values[i], i))


def descending(values: list[Fraction]) -> list[int]:
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def at(values: list[Fraction], places: list[int]) -> list[list[Any]]:
    return [[values[i] for i in places], list(places)]


def most(values: list[Fraction]) -> list[list[Any]]:
    often = Counter(values)
    return [[min(v for v in often if often[v] == max(often.values()))]]


def distinct(rng: random.Random) -> tuple[Any, Any]:
    x = numbers(rng, (rng.randint(5, 30),), "few")
    found = traced(lambda a: torch.unique(a, return_inverse=True, return_counts=True), x)
    values = list(fractions(x))
    known = sorted(set(values))
    return found, [known, [known.index(v) for v in values], [values.count(v) for v in known]]


def runs(rng: random.Random) -> tuple[Any, Any]:
    x = numbers(rng, (rng.randint(5, 30),), "few")
    found = traced(lambda a: torch.unique_consecutive(a, return_counts=True), x)
    values, counts = [], []
    for value in fractions(x):
        if values and values[-1] == value:
            counts[-1] += 1
        else:
            values.append(value)
            counts.append(1)
    return found, [values, counts]


def bisected(right: bool) -> Row:
    def row(rng: random.Random) -> tuple[Any, Any]:
        kind = rng.choice(("few", "plain"))
        edges, x = numbers(rng, (7,), kind).sort().values, numbers(rng, (4, 3), kind)
        found = traced(lambda e, v: torch.searchsorted(e, v, right=right), edges, x)
        values = list(fractions(edges))
        truth = [
            [sum(e <= v if right else e < v for e in values) for v in row_] for row_ in fractions(x)
        ]
        return found, [np.array(truth, dtype=object)]

    return row


def histogram(rng: random.Random) -> tuple[Any, Any]:
    x = numbers(rng, (40,), rng.choice(("few", "plain")))
    truth = [0] * 5
    for value in fractions(x):
        place = (value + 1) * 5 / 2
        if 0 <= place <= 5:
            truth[min(int(place), 4)] += 1
    return traced(lambda a: a.histc(5, -1, 1), x), [truth]


def histogram_over_the_data(rng: random.Random) -> tuple[Any, Any]:
    """Bounds of 0 are those of the numbers; one number lies in the middle."""
    x = numbers(rng, (rng.choice((1, 9, 40)),), rng.choice(("few", "plain")))
    values = list(fractions(x))
    low, high = min(values), max(values)
    truth = [0] * 5
    for value in values:
        truth[min(int((value - low) * 5 / (high - low)), 4) if low < high else 2] += 1
    return traced(lambda a: a.histc(5), x), [truth]


def histogram_at_a_number(rng: random.Random) -> tuple[Any, Any]:
    """Between equal bounds what is less or greater is ignored; torch itself takes the data's."""
    x = numbers(rng, (40,), "few")
    at = x[rng.randrange(40)].item() or 3.0
    truth = [0] * 5
    truth[2] = list(fractions(x)).count(Fraction(at))
    return traced(lambda a: a.histc(5, at, at), x), [truth]


ROWS: dict[str, Row] = {
    "sort": per_row(lambda x: x.sort(stable=True), lambda v: at(v, ascending(v))),
    "sort descending": per_row(lambda x: x.sort(stable=True, descending=True),
        lambda v: at(v, descending(v))),
    "sort along the first dimension": per_row(lambda x: [y.T for y in x.T.sort(dim=0, stable=True)],
        lambda v: at(v, ascending(v))),
    "argsort": per_row(lambda x: [x.argsort(stable=True)], lambda v: [ascending(v)]),
    "topk": per_row(lambda x: [x.topk(3).values], lambda v: [sorted(v)[::-1][:3]]),
    "topk of the smallest": per_row(lambda x: [x.topk(2, largest=False).values],
        lambda v: [sorted(v)[:2]]),
    "kthvalue": per_row(lambda x: [x.kthvalue(2).values], lambda v: [[sorted(v)[1]]]),
    "median": per_row(lambda x: [x.median(1).values], lambda v: [[sorted(v)[(len(v) - 1) // 2]]]),
    "nanmedian": per_row(lambda x: [x.nanmedian(1).values],
        lambda v: [[sorted(v)[(len(v) - 1) // 2]]]),
    "mode": per_row(lambda x: [x.mode(1).values], most),
    "unique": distinct,
    "unique_consecutive": runs,
    "searchsorted": bisected(False),
    "searchsorted to the right": bisected(True),
    "histc": histogram,
    "histc over the data": histogram_over_the_data,
    "histc at a number": histogram_at_a_number,
}  # fmt: skip


test_enclosures_hold_the_exact_result, test_enclosures_hold_the_exact_result_many_times = (
    enclosure_tests(ROWS)
)


def test_nan_are_larger_than_all_numbers_and_stay_in_order() -> None:
    x = torch.tensor([1.0, NAN, float("inf"), NAN, -0.0, 0.0], dtype=torch.float64)
    assert traced(lambda a: a.sort(stable=True), x)[1].tolist() == [4, 5, 0, 2, 1, 3]
    assert traced(lambda a: a.sort(stable=True, descending=True), x)[1].tolist() == [
        1,
        3,
        2,
        0,
        4,
        5,
    ]
    assert str(traced(lambda a: a.median(), x)[0][()]) == "nan"
    assert float(traced(lambda a: a.nanmedian(), x)[0][()]) == 0.0
    assert str(traced(lambda a: a.topk(1).values, x)[0][0]) == "nan"


def test_each_nan_is_a_value_of_its_own_behind_the_numbers() -> None:
    x = torch.tensor([2.0, NAN, 1.0, NAN, 2.0], dtype=torch.float64)
    (values,) = traced(lambda a: a.unique(), x)
    assert [float(v) for v in values[:2]] == [1.0, 2.0]
    assert [str(v) for v in values[2:]] == ["nan", "nan"]
    assert traced(lambda a: a.unique(return_counts=True)[1], x)[0].tolist() == [1, 2, 1, 1]
    with pytest.raises(balls.Unknowable, match="which NaN is which"):
        traced(lambda a: a.unique(return_inverse=True), x)
    one = torch.tensor([2.0, NAN, 1.0, 2.0], dtype=torch.float64)
    assert traced(lambda a: a.unique(return_inverse=True), one)[1].tolist() == [1, 2, 0, 1]
    runs = traced(lambda a: a.unique_consecutive(return_inverse=True), x)
    assert [float(v) for v in runs[0][::2]] == [2.0, 1.0, 2.0]
    assert [str(v) for v in runs[0][1::2]] == ["nan", "nan"]
    assert runs[1].tolist() == [0, 1, 2, 3, 4]


def test_balls_that_overlap_decide_nothing() -> None:
    with balls.precision(64):
        third = arb(1) / 3
        assert order([arb(1), third, 0.0]) == [2, 1, 0]
        with pytest.raises(balls.Unsure, match="order"):
            order([third, third + 0])


def test_gradients_go_to_what_was_chosen() -> None:
    x = torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64)
    assert [float(v) for v in slopes(lambda a: a.sort().values, x)[0]] == [3.0, 1.0, 2.0]
    assert [float(v) for v in slopes(lambda a: a.topk(2).values, x)[0]] == [1.0, 0.0, 2.0]
    assert [float(v) for v in slopes(lambda a: a.median(), x)[0]] == [0.0, 0.0, 1.0]
    assert [float(v) for v in slopes(lambda a: a.kthvalue(1).values, x)[0]] == [0.0, 1.0, 0.0]


def test_numbers_that_are_computed_are_ordered_by_their_balls() -> None:
    """√2·√2 is 2 and no more: nothing is proved of an order that depends on it."""
    x = torch.tensor([2.0, 3.0], dtype=torch.float64)
    assert [int(i) for i in traced(lambda a: (-a.exp()).argsort(), x)[0]] == [1, 0]
    with pytest.raises(balls.Unsure):
        traced(lambda a: torch.stack([a[0], a[0].sqrt() * a[0].sqrt()]).argsort(), x)
