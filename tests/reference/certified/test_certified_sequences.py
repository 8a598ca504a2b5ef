"""Ranges, windows, optimizers' steps, lists of tensors: compared with fractions and with mpmath in
200 digits."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from consistency.reference.certified import balls
from consistency.reference.certified.definitions import DEFINITIONS
from tests.reference.certified.tracing_calls import (
    DIGITS,
    enclosure_tests,
    fractions,
    numbers,
    traced,
)

Row = Callable[[random.Random], tuple[Any, Any]]
F64 = torch.float64


def ranged(rng: random.Random) -> tuple[Any, Any]:
    start, step, count = rng.uniform(-8, 8), rng.choice((0.25, 0.1, 3.0)), rng.randint(1, 30)
    end = start + step * (count - 0.5)
    found = traced(lambda: torch.arange(start, end, step, dtype=F64))[0]
    return [found], [[Fraction(start) + i * Fraction(step) for i in range(count)]]


def between(rng: random.Random) -> tuple[Any, Any]:
    start, end, count = rng.uniform(-8, 8), rng.choice((1.0, -1.0, 3.5)), rng.randint(2, 30)
    found = traced(lambda: torch.linspace(start, end, count, dtype=F64))[0]
    step = (Fraction(end) - Fraction(start)) / (count - 1)
    return [found], [[Fraction(start) + i * step for i in range(count)]]


def whole_steps(rng: random.Random) -> tuple[Any, Any]:
    start, step, count = rng.choice((-1, 1)) * (1 << 40), rng.randint(-9, 9), rng.randint(1, 30)
    end = start + step * (count - 1)
    found = traced(lambda: torch.linspace(start, end, count, dtype=torch.int64))[0]
    return [found], [[Fraction(start + i * step) for i in range(count)]]


def powers(rng: random.Random) -> tuple[Any, Any]:
    start, end, count = rng.uniform(-3, 3), rng.uniform(-3, 3), rng.randint(2, 20)
    found = traced(lambda: torch.logspace(start, end, count, base=10.0, dtype=F64))[0]
    with mpmath.workdps(DIGITS):
        a, b = mpmath.mpf(start), mpmath.mpf(end)
        return [found], [[mpmath.power(10, a + (b - a) * i / (count - 1)) for i in range(count)]]


def window(call: Callable[[int], Any], formula: Callable[[Any, int], Any]) -> Row:
    """Periodic windows of n points: ``formula`` of i and n."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        count = rng.randint(2, 40)
        found = traced(call, count)[0]
        with mpmath.workdps(DIGITS):
            return [found], [[+formula(mpmath.mpf(i), count) for i in range(count)]]

    return row


def cos(i: Any, n: int) -> Any:
    exact = {0: 1, 1: 0, 2: -1, 3: 0}
    quarter = 4 * i / n
    return (
        mpmath.mpf(exact[int(quarter) % 4])
        if quarter == int(quarter)
        else mpmath.cos(2 * mpmath.pi * i / n)
    )


def blackman(i: Any, n: int) -> Any:
    return (42 - 50 * cos(i, n) + 8 * cos(2 * i, n)) / mpmath.mpf(100)


def kaiser(i: Any, n: int) -> Any:
    beta = mpmath.mpf(8.5)
    return mpmath.besseli(0, beta * mpmath.sqrt(1 - (2 * i / n - 1) ** 2)) / mpmath.besseli(0, beta)


def adam(rng: random.Random) -> tuple[Any, Any]:
    """One step of AdamW by its documentation, of a single parameter."""
    p, g, m = (numbers(rng, (3,), "plain") for _ in range(3))
    v = numbers(rng, (3,), "plain").abs() + 0.25
    steps, lr, decay = rng.randint(1, 50), 0.125, 0.01
    states = [[m.clone()], [v.clone()]]
    found = traced(
        lambda a, b: DEFINITIONS["optim.AdamW"]([a], [b], states, steps=steps, lr=lr), p.clone(), g
    )
    truth: list[list[Any]] = [[], [], []]
    with mpmath.workdps(DIGITS):
        b1, b2, eps, rate = mpmath.mpf(0.9), mpmath.mpf(0.999), mpmath.mpf(1e-8), mpmath.mpf(lr)
        for a, b, mean, square in zip(p.tolist(), g.tolist(), m.tolist(), v.tolist(), strict=True):
            mean = b1 * mpmath.mpf(mean) + (1 - b1) * mpmath.mpf(b)
            square = b2 * mpmath.mpf(square) + (1 - b2) * mpmath.mpf(b) ** 2
            t = steps + 1
            change = rate * (mean / (1 - b1**t)) / (mpmath.sqrt(square / (1 - b2**t)) + eps)
            for values, value in zip(
                truth,
                ((1 - rate * mpmath.mpf(decay)) * mpmath.mpf(a) - change, mean, square),
                strict=True,
            ):
                values.append(value)
    return found, truth


def lists(rng: random.Random) -> tuple[Any, Any]:
    """In place, over lists of tensors, by a number."""
    x, y = numbers(rng, (4,)), numbers(rng, (2, 3), "plain")

    def call(a: torch.Tensor, b: torch.Tensor) -> Any:
        both = [a.clone(), b.clone()]
        torch._foreach_mul_(both, 0.75)
        torch._foreach_addcmul_(both, both, both, value=-2.0)
        return both

    def of(v: Fraction) -> Fraction:
        return v * Fraction(3, 4) - 2 * (v * Fraction(3, 4)) ** 2

    return traced(call, x, y), [
        [of(v) for v in fractions(x)],
        np.array([[of(v) for v in row] for row in fractions(y)]),
    ]


ROWS: dict[str, Row] = {
    "arange": ranged,
    "linspace": between,
    "logspace": powers,
    "linspace of whole numbers": whole_steps,
    "bartlett": window(lambda n: torch.bartlett_window(n, dtype=F64),
        lambda i, n: 1 - abs(2 * i / n - 1)),
    "hann": window(lambda n: torch.hann_window(n, dtype=F64), lambda i, n: (1 - cos(i, n)) / 2),
    "hamming": window(lambda n: torch.hamming_window(n, dtype=F64),
        lambda i, n: (54 - 46 * cos(i, n)) / mpmath.mpf(100)),
    "blackman": window(lambda n: torch.blackman_window(n, dtype=F64), blackman),
    "kaiser": window(lambda n: torch.kaiser_window(n, True, 8.5, dtype=F64), kaiser),
    "adam": adam,
    "lists": lists,
}  # fmt: skip


test_enclosures_hold_the_exact_result, test_enclosures_hold_the_exact_result_many_times = (
    enclosure_tests(ROWS)
)


def test_triangles_and_identities() -> None:
    assert traced(lambda: torch.tril_indices(2, 3, 1))[0].tolist() == [
        [0, 0, 1, 1, 1],
        [0, 1, 0, 1, 2],
    ]
    assert traced(lambda: torch.triu_indices(2, 3, 1))[0].tolist() == [[0, 0, 1], [1, 2, 2]]
    assert [float(v) for v in traced(lambda: torch.eye(2, 3))[0].reshape(-1)] == [
        1.0,
        0.0,
        0.0,
        0.0,
        1.0,
        0.0,
    ]


def test_what_was_never_written_is_not_known() -> None:
    with pytest.raises(balls.Unknowable, match="never written"):
        traced(lambda: torch.empty(3, dtype=F64))

    def filled() -> torch.Tensor:
        made = torch.empty(3, dtype=F64)
        made[:] = 2.0
        return made

    assert [float(v) for v in traced(filled)[0]] == [2.0] * 3


def test_numbers_that_leave_the_tensors_must_be_exact() -> None:
    x = torch.tensor([2.0], dtype=F64)
    assert [float(v) for v in traced(lambda a: a * a.item(), x)[0]] == [4.0]
    with pytest.raises(balls.Unsure, match="not exact"):
        traced(lambda a: a * a.sqrt().item(), x)
    with pytest.raises(balls.Unsure, match="not exact"):
        traced(lambda a: a * torch.complex(a, a.sqrt()).item(), x)


def test_of_lists_whose_entry_gives_up_nothing_is_known() -> None:
    """Not even of the second tensor, though the call returns nothing that could say so."""

    def call(a: torch.Tensor) -> torch.Tensor:
        both = [a.clone(), a.clone()]
        torch._foreach_lgamma_(both)
        return both[1]

    from consistency.reference.certified.entries import lookup

    lookup("mul")  # all entries are loaded
    from consistency.reference.certified.entries import ENTRIES

    kept = ENTRIES.pop("lgamma", None)
    try:
        with pytest.raises((balls.Unknowable, AssertionError), match="lgamma"):
            traced(call, torch.ones(2, dtype=F64))
    finally:
        if kept is not None:
            ENTRIES["lgamma"] = kept


def test_whole_numbers_between_which_others_lie_are_not_known() -> None:
    with pytest.raises(balls.Unknowable):
        traced(lambda: torch.linspace(0, 10, 4, dtype=torch.int64))
