"""Tables of certified functions beside independent formulas in mpmath, and the arguments that they
are tried at."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb

from consistency.reference.certified import balls
from consistency.reference.certified.certificate import BITS
from consistency.reference.certified.gradients import gradients
from consistency.reference.certified.nodes import Constant, Leaf, evaluate
from consistency.reference.certified.rounding import nearest_double
from tests.reference.certified.traces import exactly

PULL_REQUEST, NIGHTLY = int(os.environ.get("CERTIFIED_CASES", "12")), 400  # arguments per function
COUNTS = [PULL_REQUEST, pytest.param(NIGHTLY, marks=pytest.mark.nightly)]
Truth = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """A function of nodes, what it is in mpmath, and where: low and high bounds of every argument,
    and points to go near."""

    name: str
    of: Any
    truth: Truth
    bounds: Sequence[tuple[float, float]]
    points: Sequence[float] = ()
    bits: int = 500
    slope: bool = True

    def __repr__(self) -> str:
        return self.name


def argument(draw: random.Random, low: float, high: float, points: Sequence[float]) -> float:
    """Uniform, of any exponent, subnormal, huge, or a few ulp from a bound or a point."""
    for _ in range(1000):
        match draw.randrange(5):
            case 0:
                x = draw.uniform(max(low, -100.0), min(high, 100.0))
            case 1:
                x = math.ldexp(
                    draw.uniform(0.5, 1.0),
                    draw.randint(-1080, 1024) if draw.randrange(2) else draw.randint(-40, 40),
                )
            case 2:
                x = draw.randint(1, 1 << draw.randint(1, 52)) * 5e-324
            case 3:
                x = (
                    draw.uniform(low, high)
                    if math.isfinite(high - low)
                    else draw.uniform(-1e6, 1e6)
                )
            case _:
                x = draw.choice([low, high, *points])
                for _ in range(draw.randint(0, 3)):
                    x = math.nextafter(x, draw.choice([low, high]))
        x = -x if draw.randrange(2) else x
        if low < x < high and x != 0.0:
            return x
    raise AssertionError("no argument")


def arguments(row: Row, count: int) -> list[list[float]]:
    draw = random.Random(row.name)
    return [
        [argument(draw, low, high, row.points) for low, high in row.bounds] for _ in range(count)
    ]


def proved(node: Any, count: int) -> list[Any]:
    """The elements of a node, each in as many bits as it takes."""
    found: list[Any] = [None] * count
    for bits in BITS:
        left = [i for i in range(count) if found[i] is None or nearest_double(found[i]) is None]
        with balls.precision(bits):
            for i, value in zip(
                left, evaluate(node, np.asarray(left)).tolist() if left else [], strict=True
            ):
                found[i] = value
    return found


def holds(found: Any, truth: Any, bits: int) -> bool:
    """Whether a ball and a number known to so many bits have a point in common."""
    if type(found) is float:
        return bool(found == truth) or (math.isnan(found) and bool(mpmath.isnan(truth)))
    with balls.precision(4096):
        value = exactly(truth)
        return bool(found.overlaps(arb(value, abs(value) * arb(2) ** -bits)))


def nodes_of(drawn: Sequence[Sequence[float]], kind: Any = Constant) -> list[Any]:
    return [kind(np.array([xs[i] for xs in drawn])) for i in range(len(drawn[0]))]


def check_values(row: Row, count: int) -> None:
    """No ball misses the truth, and nearly all are as narrow as a certificate needs."""
    drawn = arguments(row, count)
    found = proved(row.of(*nodes_of(drawn)), count)
    narrow = 0
    with mpmath.workprec(row.bits + 60):
        for xs, value in zip(drawn, found, strict=True):
            narrow += nearest_double(value) is not None
            if nearest_double(value) is None and not value.is_finite():
                continue
            try:
                truth = row.truth(*map(mpmath.mpf, xs))
            except (ValueError, ZeroDivisionError):  # a pole, of which mpmath gives no number
                assert type(value) is float, (row.name, xs, value)
                assert not math.isfinite(value), (row.name, xs, value)
                continue
            assert holds(value, truth, row.bits), (row.name, xs, value, truth)
    assert narrow >= 0.99 * count, (row.name, narrow, count)


def check_slopes(row: Row, count: int) -> None:
    """The gradient by every argument beside mpmath's derivative."""
    drawn = [xs for xs in arguments(row, count) if all(1e-3 < abs(x) < 1e3 for x in xs)]
    if not drawn:
        return
    leaves = nodes_of(drawn, Leaf)
    made = gradients([(row.of(*leaves), Constant(np.ones(len(drawn))))], leaves)
    for which, gradient in enumerate(made):
        if gradient is None:
            continue
        found = proved(gradient, len(drawn))
        with mpmath.workprec(row.bits + 60):
            for xs, value in zip(drawn, found, strict=True):
                given = [mpmath.mpf(x) for x in xs]
                truth = _derivative(row.truth, given, which)
                assert holds(value, truth, row.bits // 3), (row.name, which, xs, value, truth)


def _derivative(of: Truth, given: list[Any], which: int) -> Any:
    def along(x: Any) -> Any:
        return of(*given[:which], x, *given[which + 1 :])

    return mpmath.diff(along, given[which])
