"""Functions related to the gamma function: lgamma, digamma, polygamma, incomplete gamma, Hurwitz
zeta."""

from __future__ import annotations

import functools
import math
from typing import Any

from flint import acb, arb

from . import balls
from .balls import Element, function
from .elementwise import Function, is_nan, on_numbers, unless
from .nodes import Node

_INF, _NAN = math.inf, math.nan
_LARGE = 1000  # beyond it a single value may take minutes
# From here on, tails of the gamma distribution vanish in every format: below 2^-3000.
_HUGE, _NEARLY_ZERO = 10_000, arb(arb(2) ** -3001, arb(2) ** -3001)


def _pole(x: arb) -> bool:
    """Whether x is 0 or a negative integer."""
    return bool(x.is_exact() and x <= 0 and x.is_integer())


def _lgamma(x: arb) -> Element:
    """log|Γ(x)|; left of 0 by reflection, log(π/|sin πx|) − log Γ(1 − x)."""
    if x > 0:
        return x.lgamma()
    if _pole(x):
        return _INF
    return (arb.pi() / abs(x.sin_pi())).log() - (1 - x).lgamma() if x < 0 else balls.UNSURE


def _digamma(x: arb) -> Element:
    return _NAN if _pole(x) else x.digamma()


def _digamma_of(x: Element) -> Element:
    """At ±0 an infinity by the sign of the zero; NaN at the other poles and at −∞."""
    if type(x) is float:
        return -math.copysign(_INF, x) if x == 0.0 else x if x != x or x > 0.0 else _NAN
    return _digamma(x)


def _slope_of_digamma(x: Node) -> Node:
    """The slope, unknown where there is no value."""
    return unless(polygamma(1)(x), is_nan(digamma(x)))


digamma: Function = Function(
    "digamma", on_numbers(_digamma_of), (lambda x, y: _slope_of_digamma(x),)
)
lgamma = Function(
    "lgamma",
    on_numbers(function(_lgamma, at_low=_INF, at_high=_INF, zero=_INF)),
    (lambda x, y: digamma(x),),
)


@functools.cache
def polygamma(order: int) -> Function:
    """The derivative of digamma of this order; at a pole its limit, if both sides agree."""
    if order == 0:
        return digamma

    def of(x: arb) -> Element:
        if _pole(x):
            return _INF if order % 2 else balls.UNSURE
        if x > 0:
            result = arb(order + 1).zeta(x) * arb.fac_ui(order)
            return result if order % 2 else -result
        return acb(x).polygamma(acb(order)).real if x > -_LARGE else balls.UNSURE

    zero = _INF if order % 2 else balls.UNSURE
    value = on_numbers(function(of, at_low=balls.UNSURE, at_high=balls.UNSURE, zero=zero))
    return Function(f"polygamma {order}", value, (lambda x, y: polygamma(order + 1)(x),))


@functools.cache
def multivariate(p: int) -> Function:
    """log Γ_p(x) = p(p − 1)/4·log π + Σⱼ lgamma(x − j/2), for x > (p − 1)/2."""

    def of(x: arb) -> Element:
        if not x > arb(p - 1) / 2:
            return balls.UNSURE
        total = arb.pi().log() * (p * (p - 1)) / 4
        for j in range(p):
            total += (x - arb(j) / 2).lgamma()
        return total

    return Function(
        f"multivariate lgamma {p}",
        on_numbers(function(of, at_low=balls.UNSURE, at_high=_INF)),
        (_slope_of(p),),
    )


def _slope_of(p: int) -> Any:
    def slope(x: arb) -> Element:
        total = arb(0)
        for j in range(p):
            total += (x - arb(j) / 2).digamma()
        return total

    of = Function(
        f"slope of multivariate lgamma {p}",
        on_numbers(function(slope, at_low=balls.UNSURE, at_high=_INF)),
    )
    return lambda x, y: of(x)


def _zeta(s: Element, q: Element) -> Element:
    """Σ (q + k)^(−s), for regular arguments."""
    if type(s) is not arb or type(q) is not arb:
        return balls.UNSURE
    return s.zeta(q) if s > 1 and s <= _LARGE and q > 0 and q <= _LARGE else balls.UNSURE


def _regularized(which: str) -> Any:
    below = which == "gamma_lower"

    def of(a: Element, x: Element) -> Element:
        """NaN of negative arguments and of two zeros, as torch documents; the limits elsewhere."""
        if a != a or x != x or a < 0 or x < 0:
            return _NAN
        if any(type(v) is arb and not v > 0 for v in (a, x)):
            return balls.UNSURE
        if type(a) is float and type(x) is float and a == x:
            return _NAN if a == 0.0 else balls.UNSURE
        if a == 0.0 or x == _INF:
            return arb(1) if below else 0.0
        if x == 0.0 or a == _INF:
            return 0.0 if below else arb(1)
        if type(a) is not arb or type(x) is not arb:
            return balls.UNSURE
        if a <= _LARGE and x <= _LARGE:
            return getattr(x, which)(a, regularized=1)
        if a > _HUGE and 4 * x < a:  # P < (e / 4)^a
            return _NEARLY_ZERO if below else 1 - _NEARLY_ZERO
        if x > _HUGE and 4 * a < x:  # Q < (x / a)^a e^(a - x) < e^(-x / 4)
            return 1 - _NEARLY_ZERO if below else _NEARLY_ZERO
        return balls.UNSURE

    return of


zeta = Function("zeta", on_numbers(_zeta))
igamma = Function("igamma", on_numbers(_regularized("gamma_lower")))
igammac = Function("igammac", on_numbers(_regularized("gamma_upper")))
