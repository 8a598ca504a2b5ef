"""Bessel and Airy functions of integer order and real argument. Unknown at infinities, where torch
often returns NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb

from . import balls
from .balls import Element, function
from .elementwise import Function, mul, on_numbers, sub
from .functions import sign
from .nodes import Node

_INF, _NAN = math.inf, math.nan


def _modified(order: int) -> Callable[[arb], arb]:
    return lambda x: x.bessel_i(arb(order))


def _scaled(order: int) -> Callable[[arb], arb]:
    return lambda x: x.bessel_i(arb(order)) * (-abs(x)).exp()


def _mean(first: Callable[[arb], arb], second: Callable[[arb], arb]) -> Callable[[arb], arb]:
    return lambda x: (first(x) + second(x)) / 2


def _second(order: int, of: Callable[[arb, arb], arb]) -> Callable[[arb], arb]:
    return lambda x: of(x, arb(order))


def _plain(
    name: str,
    of: Callable[[arb], arb],
    zero: str | Element = "",
    at_low: Element = balls.UNSURE,
    at_high: Element = balls.UNSURE,
) -> Function:
    return Function(name, on_numbers(function(of, zero=zero, at_low=at_low, at_high=at_high)))


def _positive(
    name: str, of: Callable[[arb], arb], at_zero: Element, at_high: Element = balls.UNSURE
) -> Function:
    """A function defined only for x > 0."""
    return Function(name, on_numbers(function(of, low=0.0, at_high=at_high, zero=at_zero)))


_i1_slope = _plain("i1'", _mean(_modified(0), _modified(2)))
_i1e_first = _plain("i1e' + sign(x)·i1e", _mean(_scaled(0), _scaled(2)))
i1: Function = Function(
    "i1",
    on_numbers(function(_modified(1), at_low=balls.UNSURE, at_high=balls.UNSURE, zero="odd")),
    (lambda x, y: _i1_slope(x),),
)
i0 = Function(
    "i0",
    on_numbers(function(_modified(0), at_low=balls.UNSURE, at_high=balls.UNSURE)),
    (lambda x, y: i1(x),),
)
i1e: Function = Function(
    "i1e",
    on_numbers(function(_scaled(1), at_low=-0.0, at_high=0.0, zero="odd")),
    (lambda x, y: sub(_i1e_first(x), mul(sign(x), y)),),
)


def _i0e_slope(x: Node, y: Node) -> Node:
    """0 at the kink at 0."""
    return sub(i1e(x), mul(sign(x), y))


i0e = Function("i0e", on_numbers(function(_scaled(0), at_low=0.0, at_high=0.0)), (_i0e_slope,))
j0 = _plain("j0", _second(0, arb.bessel_j))
j1 = _plain("j1", _second(1, arb.bessel_j), "odd")
y0 = _positive("y0", _second(0, arb.bessel_y), -_INF)
y1 = _positive("y1", _second(1, arb.bessel_y), -_INF)
k0 = _positive("k0", _second(0, arb.bessel_k), _INF)
k1 = _positive("k1", _second(1, arb.bessel_k), _INF)
k0e = _positive("k0e", lambda x: x.bessel_k(arb(0)) * x.exp(), _INF)
k1e = _positive("k1e", lambda x: x.bessel_k(arb(1)) * x.exp(), _INF)
spherical_j0 = _plain("spherical j0", arb.sinc, at_low=0.0, at_high=0.0)
airy_ai = _plain("Ai", arb.airy_ai)
