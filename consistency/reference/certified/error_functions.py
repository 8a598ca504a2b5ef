"""The error function, the normal distribution, its logarithm and its inverse."""

from __future__ import annotations

import math

from flint import arb

from . import balls
from .balls import Element, function
from .elementwise import Function, Scalar, div, is_finite, mul, neg, not_, on_numbers, sub, unless
from .functions import exp, square
from .nodes import Node

_INF, _NAN = math.inf, math.nan


def _root_two() -> arb:
    return arb(2).sqrt()


def _bell(x: Node, y: Node) -> Node:
    """2/√π·e^(−x²)."""
    return mul(Scalar(lambda: 2 / arb.const_sqrt_pi()), exp(neg(square(x))))


def _erfcx(x: arb) -> arb:
    """e^(x²)·erfc(x), which is U(½, ½, x²)/√π right of 0 (DLMF 7.11.5)."""
    if x > 2:
        return (x * x).hypgeom_u(arb(1) / 2, arb(1) / 2) / arb.const_sqrt_pi()
    return (x * x).exp() * x.erfc()


def _ndtr(x: arb) -> arb:
    return (-x / _root_two()).erfc() / 2


def _log_ndtr(x: arb) -> arb:
    if x < -2:
        return (_erfcx(-x / _root_two()) / 2).log() - x * x / 2
    if x > 0:
        return (-(x / _root_two()).erfc() / 2).log1p()
    return _ndtr(x).log()


def _erfinv(x: arb) -> Element:
    if x.is_exact() and abs(x) == 1:
        return math.copysign(_INF, 1.0 if x > 0 else -1.0)
    return x.erfinv()


def _ndtri(p: arb) -> Element:
    if p.is_exact() and p == 1:
        return _INF
    if p.is_exact() and p == 0.5:
        return balls.ZERO
    return -_root_two() * (2 * p).erfcinv()


def bell(x: arb) -> arb:
    """The standard normal density."""
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


density = Function(
    "density", on_numbers(function(bell, at_low=0.0, at_high=0.0)), (lambda x, y: neg(mul(x, y)),)
)
erf = Function(
    "erf", on_numbers(function(arb.erf, at_low=arb(-1), at_high=arb(1), zero="odd")), (_bell,)
)
erfc = Function(
    "erfc",
    on_numbers(function(arb.erfc, at_low=arb(2), at_high=0.0)),
    (lambda x, y: neg(_bell(x, y)),),
)
erfcx = Function(
    "erfcx",
    on_numbers(function(_erfcx, at_low=_INF, at_high=0.0)),
    (lambda x, y: sub(mul(2.0, mul(x, y)), Scalar(lambda: 2 / arb.const_sqrt_pi())),),
)
erfinv = Function(
    "erfinv",
    on_numbers(function(_erfinv, low=-1.0, high=1.0, zero="odd")),
    (lambda x, y: mul(Scalar(lambda: arb.const_sqrt_pi() / 2), exp(square(y))),),
)
ndtr = Function(
    "ndtr", on_numbers(function(_ndtr, at_low=0.0, at_high=arb(1))), (lambda x, y: density(x),)
)
ndtri = Function(
    "ndtri",
    on_numbers(function(_ndtri, low=0.0, high=1.0, zero=-_INF)),
    (lambda x, y: div(1.0, density(y)),),
)
log_ndtr = Function(
    "log ndtr",
    on_numbers(function(_log_ndtr, at_low=-_INF, at_high=0.0)),
    (
        lambda x, y: unless(
            div(Scalar(lambda: (2 / arb.pi()).sqrt()), erfcx(neg(div(x, Scalar(_root_two))))),
            not_(is_finite(x)),
        ),
    ),
)
