"""Calls of torch, traced, beside formulas that are carried out in mpmath, in thousands of bits, on
plain numbers or on dual ones.

A formula takes arrays of objects and gives one. It uses nothing but arithmetic and the functions
below, so that on dual numbers it gives derivatives as well: independent of the nodes' own, for
these go forwards.
"""

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
import torch
from flint import arb

from consistency.reference.certified import balls
from consistency.reference.certified.certificate import BITS
from consistency.reference.certified.complex_numbers import Pair
from consistency.reference.certified.nodes import evaluate
from consistency.reference.certified.rounding import nearest_double
from consistency.reference.certified.tracing import CallTrace
from tests.reference.certified.traces import exactly, followed, gradient_nodes

PULL_REQUEST, NIGHTLY = int(os.environ.get("CERTIFIED_CASES", "6")), 400  # calls per row of a table
COUNTS = [PULL_REQUEST, pytest.param(NIGHTLY, marks=pytest.mark.nightly)]
PRECISION = 5000
OF_OTHERS = {
    "unsafe_split", "repeat", "clamp_min", "tril", "constant_pad_nd", "avg_pool2d", "avg_pool3d",
}  # fmt: skip


class Dual:
    """x + ε·slope."""

    def __init__(self, value: Any, slope: Any = 0) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Any) -> Dual:
        y = dual(other)
        return Dual(self.value + y.value, self.slope + y.slope)

    def __sub__(self, other: Any) -> Dual:
        y = dual(other)
        return Dual(self.value - y.value, self.slope - y.slope)

    def __mul__(self, other: Any) -> Dual:
        y = dual(other)
        return Dual(self.value * y.value, self.value * y.slope + self.slope * y.value)

    def __truediv__(self, other: Any) -> Dual:
        y = dual(other)
        return Dual(self.value / y.value, (self.slope - self.value / y.value * y.slope) / y.value)

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __abs__(self) -> Dual:
        return -self if self.value < 0 else self

    def __radd__(self, other: Any) -> Dual:
        return dual(other) + self

    def __rsub__(self, other: Any) -> Dual:
        return dual(other) - self

    def __rmul__(self, other: Any) -> Dual:
        return dual(other) * self

    def __rtruediv__(self, other: Any) -> Dual:
        return dual(other) / self

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < dual(other).value)

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > dual(other).value)


def dual(x: Any) -> Dual:
    return x if isinstance(x, Dual) else Dual(mpmath.mpf(x))


def _smooth(of: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A function of numbers, dual numbers and arrays of either."""

    def call(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            made = np.empty(x.shape, dtype=object)
            made.reshape(-1)[:] = [call(v) for v in x.reshape(-1)]
            return made
        if isinstance(x, Dual):
            y = of(x.value)
            return Dual(y, slope(x.value, y) * x.slope)
        return of(mpmath.mpf(x))

    return call


exp = _smooth(mpmath.exp, lambda x, y: y)
log = _smooth(mpmath.log, lambda x, y: 1 / x)
sqrt = _smooth(mpmath.sqrt, lambda x, y: 1 / (2 * y))
tanh = _smooth(mpmath.tanh, lambda x, y: 1 - y * y)


def power(x: Any, p: Any) -> Any:
    p = mpmath.mpf(p)
    return _smooth(lambda v: mpmath.power(v, p), lambda v, y: p * mpmath.power(v, p - 1))(x)


@dataclass(frozen=True)
class Row:
    """A call of torch, the formula of its (first) result, the shapes of its arguments, and what
    numbers they hold.

    ``numbers``: ``any`` are of all sizes from subnormal to 1e300, ``some`` of sizes near 1,
    ``alike`` close to each other.
    """

    name: str
    call: Callable[..., Any]
    truth: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    numbers: str = "any"
    slope: bool = True

    def __repr__(self) -> str:
        return self.name


def number(draw: random.Random, numbers: str) -> float:
    sign = draw.choice([-1.0, 1.0])
    if numbers == "positive":
        return math.ldexp(draw.uniform(0.5, 1.0), draw.randint(-8, 8))
    if numbers == "alike":
        return draw.choice([67108864.0, 1.0, -3.0]) + draw.uniform(-1.0, 1.0)
    kind = draw.randrange(6) if numbers == "any" else 0
    if kind == 1:
        return sign * draw.randint(1, 1 << draw.randint(1, 52)) * 5e-324
    if kind == 2:
        return sign * math.ldexp(draw.uniform(0.5, 1.0), draw.randint(-1000, 1000))
    if kind == 3:
        return float(draw.randint(-3, 3))
    return sign * math.ldexp(draw.uniform(0.5, 1.0), draw.randint(-12, 4))


def drawn(row: Row, seed: int) -> list[torch.Tensor]:
    draw = random.Random(f"{row.name}{seed}")
    return [
        torch.tensor(
            [number(draw, row.numbers) for _ in range(math.prod(s))], dtype=torch.float64
        ).reshape(s)
        for s in row.shapes
    ]


def exact(tensor: torch.Tensor) -> Any:
    made = np.empty(tuple(tensor.shape), dtype=object)
    made.reshape(-1)[:] = [mpmath.mpf(v) for v in tensor.reshape(-1).tolist()]
    return made


def holds(element: Any, truth: Any) -> bool:
    """Whether an element is a ball around the truth, or the float that it is."""
    t = truth.value if isinstance(truth, Dual) else mpmath.mpf(truth)
    if type(element) is float:
        return element == 0.0 and t == 0
    if isinstance(element, int):
        return bool(element == t)
    if not element.is_finite():
        return True
    with balls.precision(2 * PRECISION):
        center = exactly(t)
        reach = abs(center) * arb(2) ** -1000 + arb(2) ** -2900
        return bool(element.overlaps(center.union(center + reach).union(center - reach)))


def compare(node: Any, truths: Any, positions: Sequence[int]) -> tuple[int, int]:
    """How many elements there are, and how many of them were found to 2⁻²⁰ ulp. Every ball must
    hold the truth."""
    found = 0
    for position in positions:
        for bits in BITS:
            with balls.precision(bits):
                element = evaluate(node, np.array([position]))[0]
            assert holds(element, truths[position]), (position, bits, element, truths[position])
            if (
                nearest_double(element if not isinstance(element, int) else arb(element))
                is not None
            ):
                found += 1
                break
    return len(positions), found


def first(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, (tuple, list)) else result  # type: ignore[no-any-return]


def check_values(row: Row, count: int) -> None:
    seen = found = 0
    for seed in range(count):
        tensors = drawn(row, seed)
        with mpmath.workprec(PRECISION):
            out, trace = followed(lambda *given: first(row.call(*given)), *tensors)
            skip_what_others_enter(trace)
            truths = np.asarray(row.truth(*(exact(t) for t in tensors)), dtype=object).reshape(-1)
            assert truths.size == out.numel()
            draw = random.Random(seed)
            some = draw.sample(range(truths.size), min(3, truths.size))
            n, k = compare(trace.node(out), truths, some)
            seen, found = seen + n, found + k
    assert found >= 0.99 * seen, (found, seen)


def check_slopes(row: Row, count: int) -> None:
    """Of Σ cotangent·result by one element of one argument."""
    if not row.slope:
        pytest.skip("not differentiable")
    seen = found = 0
    for seed in range(count):
        tensors, draw = drawn(row, seed), random.Random(seed)
        against: list[float] = []

        def cotangent(
            out: torch.Tensor, draw: random.Random = draw, against: list[float] = against
        ) -> torch.Tensor:
            against += [draw.uniform(-1.0, 1.0) for _ in range(out.numel())]
            return torch.tensor(against, dtype=torch.float64).reshape(out.shape)

        made, trace = gradient_nodes(lambda *given: first(row.call(*given)), cotangent, *tensors)
        skip_what_others_enter(trace)
        which = draw.randrange(len(tensors))
        node = made[which]
        assert not isinstance(node, Pair)
        place = draw.randrange(tensors[which].numel())
        with mpmath.workprec(PRECISION):
            numbers = [exact(t) for t in tensors]
            for array in numbers:
                flat = array.reshape(-1)
                flat[:] = [Dual(v, mpmath.mpf(0)) for v in flat]
            numbers[which].reshape(-1)[place].slope = mpmath.mpf(1)
            results = np.asarray(row.truth(*numbers), dtype=object).reshape(-1)
            truth = sum(
                (dual(y).slope * mpmath.mpf(g) for y, g in zip(results, against, strict=True)),
                mpmath.mpf(0),
            )
            n, k = compare(node, {place: truth}, [place])
            seen, found = seen + n, found + k
    assert found >= 0.95 * seen, (found, seen)


def skip_what_others_enter(trace: CallTrace) -> None:
    if trace.missing:
        assert trace.missing <= OF_OTHERS, trace.missing
        pytest.skip(f"without entries of {trace.missing}")


def elements(call: Callable[..., Any], *arguments: Any) -> list[Any]:
    """All elements of a call's (first) result, as floats where they are exact."""
    out, trace = followed(lambda *given: first(call(*given)), *arguments)
    node = trace.node(out)
    with balls.precision(128):
        found = evaluate(node, np.arange(out.numel())).tolist()
    return [x if not isinstance(x, arb) else float(x.mid()) if x.is_exact() else x for x in found]
