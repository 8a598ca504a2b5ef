"""Whole numbers beside torch-free arithmetic of 64 bits, and comparisons."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from consistency.reference.certified.nodes import everything
from tests.reference.certified.exact_rows import COUNTS
from tests.reference.certified.traces import followed

INTEGERS = (0, 1, -1, 2, 3, 7, -8, 2**31, 2**62, 2**63 - 1, -(2**63), 12345678901234567)


def held(value: int, bits: int = 64) -> int:
    """As C holds it."""
    return {64: ctypes.c_int64, 32: ctypes.c_int32, 8: ctypes.c_int8}[bits](value).value


def traced(function: Callable[..., Any], *tensors: torch.Tensor) -> list[Any]:
    made, trace = followed(function, *tensors)
    return everything(trace.node(made)).reshape(-1).tolist()  # type: ignore[union-attr]


def truncated(a: int, b: int) -> int:
    return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


TWO: dict[str, tuple[Callable[..., Any], Callable[[int, int], int]]] = {
    "add": (torch.add, lambda a, b: a + b),
    "sub": (torch.sub, lambda a, b: a - b),
    "mul": (torch.mul, lambda a, b: a * b),
    "maximum": (torch.maximum, max),
    "fmin": (torch.fmin, min),
    "and": (torch.bitwise_and, lambda a, b: a & b),
    "or": (torch.bitwise_or, lambda a, b: a | b),
    "xor": (torch.bitwise_xor, lambda a, b: a ^ b),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=-3), lambda a, b: a - 3 * b),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=2), lambda a, b: a + 2 * a * b),
}
DIVISIONS: dict[str, tuple[Callable[..., Any], Callable[[int, int], int]]] = {
    "floor_divide": (torch.floor_divide, lambda a, b: a // b),
    "truncating": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), truncated),
    "remainder": (torch.remainder, lambda a, b: a - b * (a // b)),
    "fmod": (torch.fmod, lambda a, b: a - b * truncated(a, b)),
    "gcd": (torch.gcd, math.gcd),
    "lcm": (torch.lcm, math.lcm),
}


def drawn(name: str, count: int) -> tuple[list[int], list[int]]:
    draw = random.Random(name)

    def one() -> int:
        return (
            draw.choice(INTEGERS)
            if draw.randrange(2)
            else held(draw.getrandbits(draw.randint(1, 64)))
        )

    return [one() for _ in range(count)], [one() for _ in range(count)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", sorted(TWO))
def test_arithmetic_wraps(name: str, count: int) -> None:
    of, truth = TWO[name]
    xs, ys = drawn(name, 10 * count)
    got = traced(of, torch.tensor(xs), torch.tensor(ys))
    assert got == [held(truth(a, b)) for a, b in zip(xs, ys, strict=True)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", sorted(DIVISIONS))
def test_division_and_divisors(name: str, count: int) -> None:
    of, truth = DIVISIONS[name]
    xs, ys = drawn(name, 10 * count)
    xs = [x // 8 for x in xs]  # without what overflows
    ys = [y // 8 or 5 for y in ys]
    got = traced(of, torch.tensor(xs), torch.tensor(ys))
    expected = [truth(a, b) for a, b in zip(xs, ys, strict=True)]
    assert got == [value if value == held(value) else None for value in expected]


def test_powers_wrap_and_narrow_types_do() -> None:
    xs, powers = [3, -7, 2, 0, 10**9, -1], [41, 30, 64, 0, 5, 10**6 + 1]
    assert traced(torch.pow, torch.tensor(xs), torch.tensor(powers)) == [
        held(x**p) for x, p in zip(xs, powers, strict=True)
    ]
    small = torch.tensor([100, -128, 127], dtype=torch.int8)
    assert traced(torch.neg, small) == [-100, -128, -127]
    assert traced(torch.abs, small) == [100, -128, 127]
    assert traced(lambda x: x * x, small) == [held(v * v, 8) for v in (100, -128, 127)]
    assert traced(torch.bitwise_not, small) == [~100, 127, -128]


def test_what_is_undefined_is_undecided() -> None:
    ones = torch.tensor([1, 2])
    assert traced(torch.bitwise_left_shift, ones, torch.tensor([63, 64])) == [-(2**63), 0]
    assert traced(torch.bitwise_left_shift, ones, torch.tensor([2**62, -1])) == [0, None]
    assert traced(torch.bitwise_right_shift, ones, torch.tensor([1, -1])) == [0, None]
    assert traced(torch.bitwise_right_shift, -ones, torch.tensor([64, 2**62])) == [-1, -1]
    floats = torch.tensor([300.7, -1.5, math.nan, math.inf], dtype=torch.float64)
    assert traced(lambda x: x.to(torch.int8), floats) == [None, -1, None, None]
    assert traced(lambda x: x.to(torch.bool), floats) == [True, True, True, True]


def test_comparisons_are_exact() -> None:
    """Of numbers that float64 does not tell apart, and of NaN and infinities."""
    big = torch.tensor([2**53 + 1, 2**53])
    assert traced(lambda x: x > 2**53, big) == [True, False]
    x = torch.tensor([math.nan, math.inf, 0.0, -0.0, 1.0], dtype=torch.float64)
    assert traced(torch.eq, x, x) == [False, True, True, True, True]
    assert traced(torch.signbit, x)[1:] == [False, False, True, False]
    assert traced(torch.isclose, x, x) == [False, True, True, True, True]
    assert traced(lambda x: torch.isclose(x, x, equal_nan=True), x)[0] is True
    assert traced(lambda v: torch.isin(v, torch.tensor([2**53])), big) == [False, True]


def test_numbers_between_bounds() -> None:
    x = torch.tensor([-5.0, 0.25, 9.0, math.nan], dtype=torch.float64)
    got = traced(lambda x: torch.clamp(x, -1, 2), x)
    assert [float(v) for v in got[:3]] == [-1.0, 0.25, 2.0]
    assert math.isnan(got[3])
    assert [float(v) for v in traced(lambda x: torch.clamp(x, 2, -1), x)[:3]] == [-1.0] * 3
    assert traced(lambda x: torch.clamp(x, -1, 3), torch.tensor([-5, 9])) == [-1, 3]
    assert np.isfinite(float(got[0]))


def test_the_exponents_of_special_numbers_are_those_of_torch() -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 6.0], dtype=torch.float64)
    assert traced(lambda x: torch.frexp(x).exponent, x) == torch.frexp(x).exponent.tolist()
