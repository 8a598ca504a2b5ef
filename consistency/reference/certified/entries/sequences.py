"""Tensors computed from positions: ranges, identity matrices, triangle indices, window
functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from ..balls import Element, Unknowable
from ..elementwise import add, doubted, is_nan, mul, sub
from ..functions import pow_
from ..nodes import Constant, Node, Positions
from ..rationals import Fractions, of_fraction
from . import entry


class Sequence(Node):
    """Elements as a function of their position."""

    def __init__(self, count: int, of: Callable[[int], Element]) -> None:
        super().__init__((count,))
        self.of = of

    def compute(self, positions: Positions, given: Any) -> Any:
        return [self.of(i) for i in positions.tolist()]


def _whole(result: Any) -> bool:
    return not (result.dtype.is_floating_point or result.dtype.is_complex)


@entry("arange")
def arange(result: Any, end: Any, start: Any = 0, step: Any = 1) -> Any:
    """start + i·step."""
    count = result.numel()
    if _whole(result):
        if not all(isinstance(x, int) for x in (start, step)):
            raise Unknowable("a range of whole numbers from numbers that are none")
        return Constant(np.array([start + i * step for i in range(count)], dtype=np.int64))
    return Fractions([Fraction(start) + i * Fraction(step) for i in range(count)], (count,))


@entry("linspace")
def linspace(start: Any, end: Any, steps: int, result: Any) -> Any:
    """start + i·(end − start)/(steps − 1), of finite ends: torch counts half of the points from
    either end, and nothing says which of them an infinity reaches. Of whole numbers those that lie
    whole steps apart."""
    if any(isinstance(x, float) and not math.isfinite(x) for x in (start, end)):
        raise Unknowable("points between two ends of which one is no number")
    if _whole(result):
        steady = type(start) is type(end) is int and not (end - start) % max(steps - 1, 1)
        if not steady:
            raise Unknowable("how whole numbers between two others are rounded")
    if steps == 1:
        return mul(start, Fractions([Fraction(1)], (1,)))  # whatever the end is
    shares = [Fraction(i, max(steps - 1, 1)) for i in range(steps)]
    if isinstance(start, (int, float)) and isinstance(end, (int, float)):
        return Fractions(
            [Fraction(start) + (Fraction(end) - Fraction(start)) * share for share in shares],
            (steps,),
        )
    distance = sub(end, start)
    points = add(start, mul(distance, Fractions(shares, (steps,))))
    return doubted(points, is_nan(mul(distance, 0.0)))


@entry("logspace")
def logspace(start: Any, end: Any, steps: int, result: Any, base: float = 10.0) -> Any:
    if _whole(result):
        raise Unknowable("how powers are rounded to whole numbers")
    return pow_(float(base), linspace(start, end, steps, result))


@entry("eye")
def eye(result: Any, n: int, m: Any = None) -> Any:
    return Constant(np.eye(*result.shape))


@entry("tril_indices")
def tril_indices(result: Any, row: int, col: int, offset: int = 0) -> Any:
    return Constant(np.array(np.tril_indices(row, offset, col), dtype=np.int64))


@entry("triu_indices")
def triu_indices(result: Any, row: int, col: int, offset: int = 0) -> Any:
    return Constant(np.array(np.triu_indices(row, offset, col), dtype=np.int64))


# --- windows: symmetric ones of n points, periodic ones without the last of n + 1


def _window(count: int, periodic: bool, of: Callable[[int, int], Element]) -> Node:
    """``of(i, n)`` is the value at i of 0 … n."""
    if count == 1:
        return Constant(np.ones(1))
    last = count if periodic else count - 1
    return Sequence(
        count, lambda i: of(min(i, last - i), last)
    )  # windows are symmetric; the first half has the exact zeros


def cosine(i: int, last: int, times: int = 1) -> arb:
    """cos(2π·times·i/last), exact where it is rational."""
    return arb.cos_pi_fmpq(fmpq(2 * times * i, last))


@entry("bartlett_window")
def bartlett_window(window_length: int, periodic: bool = True) -> Any:
    return _window(window_length, periodic, lambda i, last: of_fraction(Fraction(2 * i, last)))


@entry("hann_window")
def hann_window(window_length: int, periodic: bool = True) -> Any:
    return _window(window_length, periodic, lambda i, last: (1 - cosine(i, last)) / 2)


@entry("hamming_window")
def hamming_window(
    window_length: int, periodic: bool = True, alpha: Any = None, beta: Any = None
) -> Any:
    """α − β·cos(2πi/n), by default with 0.54 and 0.46."""
    a = Fraction(54, 100) if alpha is None else Fraction(alpha)
    b = Fraction(46, 100) if beta is None else Fraction(beta)
    return _window(window_length, periodic, lambda i, last: _ball(a) - _ball(b) * cosine(i, last))


@entry("blackman_window")
def blackman_window(window_length: int, periodic: bool = True) -> Any:
    return _window(
        window_length,
        periodic,
        lambda i, last: (42 - 50 * cosine(i, last) + 8 * cosine(i, last, 2)) / 100,
    )


@entry("kaiser_window")
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0) -> Any:
    """I₀(β·√(1 − (2i/n − 1)²))/I₀(β)."""

    def of(i: int, last: int) -> Element:
        share = _ball(1 - (Fraction(2 * i, last) - 1) ** 2)
        return (share.sqrt() * arb(beta)).bessel_i(0) / arb(beta).bessel_i(0)

    return _window(window_length, periodic, of)


def _ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))
