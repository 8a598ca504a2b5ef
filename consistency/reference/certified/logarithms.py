"""Functions composed of logarithms: sums of exponentials, entropies, logits; and the cardinal
sine."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import flint
from flint import arb

from . import balls
from .balls import Element, function
from .elementwise import (
    Function,
    Scalar,
    add,
    and_,
    div,
    equal,
    is_infinite,
    is_nan,
    less_equal,
    mul,
    neg,
    on_numbers,
    sub,
    unless,
    where,
)
from .functions import exp2, log, log1p, sigmoid
from .nodes import Node

_INF, _NAN = math.inf, math.nan
_MIDDLE = 0.5  # beyond it, bounds that are as far from 0 as from 1 cross


def _sum_of_powers(
    base: Callable[[], arb], of_difference: Callable[[arb], arb]
) -> Callable[[Element, Element], Element]:
    """log_base(base^a + base^b) = the larger one + log_base(1 + base^(−|a − b|))."""

    def of(a: Element, b: Element) -> Element:
        for x, y in ((a, b), (b, a)):
            if type(x) is float and x - x != 0.0:
                if x != x:
                    return x
                return y if x < 0.0 or (type(y) is float and y != y) else x
        x, y = balls.ball(a), balls.ball(b)
        return x.max(y) + of_difference(-abs(x - y)) / base()

    return of


def _shares(of: Callable[[Node], Node]) -> tuple[Callable[..., Node], Callable[..., Node]]:
    """The share of each power in the sum of both; unknown for equal infinities."""

    def share(a: Node, b: Node) -> Node:
        doubt = and_(is_infinite(a), equal(a, b))
        return unless(of(sub(a, where(doubt, 0.0, b))), doubt)

    return lambda a, b, y: share(a, b), lambda a, b, y: share(b, a)


logaddexp = Function(
    "logaddexp",
    on_numbers(_sum_of_powers(lambda: arb(1), lambda d: d.exp().log1p())),
    _shares(sigmoid),
)
logaddexp2 = Function(
    "logaddexp2",
    on_numbers(_sum_of_powers(arb.const_log2, lambda d: (arb(2) ** d).log1p())),
    _shares(lambda d: div(1.0, add(1.0, exp2(neg(d))))),
)


def _times_log(logarithm: Callable[[Element], Element]) -> Callable[[Element, Element], Element]:
    """x·log y; 0 for x = 0 and any y but NaN."""

    def of(x: Element, y: Element) -> Element:
        if type(y) is float and y != y:
            return y
        if type(x) is float and x == 0.0:
            return 0.0
        return balls.mul(x, logarithm(y))

    return of


def _by_factor(lowest: float, logarithm: Function) -> Callable[..., Node]:
    def slope(x: Node, y: Node, z: Node) -> Node:
        return where(and_(equal(x, 0.0), less_equal(y, lowest)), 0.0, logarithm(y))

    return slope


xlogy = Function(
    "xlogy", on_numbers(_times_log(log.of)), (_by_factor(0.0, log), lambda x, y, z: div(x, y))
)
xlog1py = Function(
    "xlog1py",
    on_numbers(_times_log(log1p.of)),
    (_by_factor(-1.0, log1p), lambda x, y, z: div(x, add(1.0, y))),
)


def _entropy(x: Element) -> Element:
    """−x·log x; −∞ of negative numbers."""
    if type(x) is float:
        return x if x != x or x == 0.0 else -_INF
    sign = balls.sign(x)
    return -x * x.log() if sign == 1 else -_INF if sign == -1 else balls.UNSURE


entropy = Function("entr", on_numbers(_entropy), (lambda x, y: sub(neg(log(x)), 1.0),))


def _logit(x: arb) -> Element:
    if x.is_exact() and x == 1:
        return _INF
    return x.log() - (1 - x).log()


logit = Function(
    "logit",
    on_numbers(function(_logit, low=0.0, high=1.0, zero=-_INF)),
    (lambda x, y: unless(div(1.0, mul(x, sub(1.0, x))), is_nan(y)),),
)


@functools.cache
def logit_between(eps: float) -> Function:
    """The logit of x clamped to [eps, 1 − eps]. Where eps is more than ½, a number below it and
    above 1 − eps is clamped to the one or the other; torch does not say to which."""
    low, high = balls.element(eps), 1 - arb(eps) if eps < 1 else 0.0
    value = logit.of

    def of(x: Element) -> Element:
        if type(x) is float and x != x:
            return x
        if eps <= _MIDDLE:
            return value(balls.minimum(balls.maximum(x, low), high))
        if balls.less(high, x) is False:
            return value(low)
        return value(high) if balls.less(x, low) is False else balls.UNSURE

    def slope(x: Node, y: Node) -> Node:
        inside = and_(less_equal(eps, x), less_equal(x, Scalar(high)))
        return unless(where(inside, div(1.0, mul(x, sub(1.0, x))), 0.0), is_nan(x))

    return Function("logit within bounds", on_numbers(of), (slope,))


def _sinc_slope(x: arb) -> Element:
    """(cos πx − sinc x)/x; near 0 by its alternating series Σ (−1)ᵏ·2k/(2k + 1)!·π²ᵏ·x²ᵏ⁻¹."""
    if not abs(x) < 0.01:
        return (x.cos_pi() - x.sinc_pi()) / x
    square, total, k = (arb.pi() * x) ** 2, arb(0), 1
    term = -(arb.pi() ** 2) * x  # (−1)ᵏ·π²ᵏ·x²ᵏ⁻¹
    while True:
        summand = term * (2 * k) / arb.fac_ui(2 * k + 1)
        total += summand
        term, k = -term * square, k + 1
        remainder = abs(term) * (2 * k) / arb.fac_ui(2 * k + 1)
        if remainder <= abs(total) * arb(2) ** -flint.ctx.prec or k > 300:
            return total + remainder.union(-remainder)


_slope_of_sinc = Function(
    "sinc'", on_numbers(function(_sinc_slope, at_low=balls.UNSURE, at_high=balls.UNSURE, zero=0.0))
)
sinc = Function(
    "sinc",
    on_numbers(function(arb.sinc_pi, at_low=balls.UNSURE, at_high=balls.UNSURE)),
    (lambda x, y: _slope_of_sinc(x),),
)
