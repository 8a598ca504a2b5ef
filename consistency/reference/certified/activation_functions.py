"""Activation functions. Results are unknown where an infinity makes the formula NaN, or torch's
kernels differ.

At a kink the slope is that of the side chosen by torch's ``>``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb

from . import balls
from .balls import Element, function
from .elementwise import (
    Function,
    Scalar,
    add,
    and_,
    div,
    is_finite,
    is_nan,
    less,
    less_equal,
    mul,
    not_,
    on_numbers,
    or_,
    sub,
    unless,
    where,
)
from .error_functions import density, ndtr
from .functions import expm1, sigmoid
from .nodes import Node

_INF = math.inf


def _regular(
    of: Callable[[arb], Element],
    zero: str = "odd",
    *,
    at_low: Element = balls.UNSURE,
    at_high: Element = balls.UNSURE,
) -> Callable[..., Element]:
    return on_numbers(function(of, zero=zero, at_low=at_low, at_high=at_high))


def _of_regular(slope: Any) -> Any:
    """A slope that is unknown at infinities."""
    return lambda x, y: unless(slope(x, y), not_(is_finite(x)))


def _softplus(x: arb) -> arb:
    """log(1 + eˣ)."""
    return (x + (-x).exp().log1p()) if x > 0 else x.exp().log1p()


def _log_sigmoid(x: arb) -> arb:
    return -_softplus(-x)


def _half(x: arb) -> arb:
    """tanh(log(1 + eˣ)) = (e²ˣ + 2eˣ)/(e²ˣ + 2eˣ + 2)."""
    power = (-abs(x)).exp()
    if x > 0:
        return (1 + 2 * power) / (1 + 2 * power + 2 * power * power)
    power = x.exp()
    return power * (power + 2) / (power * (power + 2) + 2)


def _half_slope(x: arb) -> arb:
    """4eˣ(eˣ + 1)/(e²ˣ + 2eˣ + 2)²."""
    if x > 0:
        power = (-x).exp()
        return 4 * power**2 * (1 + power) / (1 + 2 * power + 2 * power**2) ** 2
    power = x.exp()
    return 4 * power * (power + 1) / (power * (power + 2) + 2) ** 2


softplus = Function(
    "softplus", _regular(_softplus, "", at_low=0.0, at_high=_INF), (lambda x, y: sigmoid(x),)
)
log_sigmoid = Function(
    "log sigmoid",
    _regular(_log_sigmoid, "", at_low=-_INF, at_high=0.0),
    (lambda x, y: sigmoid(mul(x, -1.0)),),
)
_gate = Function("tanh of softplus", _regular(_half, ""))
_gate_slope = Function("its slope", _regular(_half_slope, ""))
silu = Function(
    "silu",
    _regular(lambda x: x * sigmoid.of(x), at_high=_INF),
    (_of_regular(lambda x, y: mul(sigmoid(x), add(1.0, mul(x, sigmoid(mul(x, -1.0)))))),),
)
mish = Function(
    "mish",
    _regular(lambda x: x * _half(x), at_high=_INF),
    (_of_regular(lambda x, y: add(_gate(x), mul(x, _gate_slope(x)))),),
)
gelu = Function(
    "gelu",
    _regular(lambda x: x * ndtr.of(x), at_high=_INF),
    (_of_regular(lambda x, y: add(ndtr(x), mul(x, density(x)))),),
)


def _inner(x: arb) -> arb:
    """x/2·(1 + tanh z), as documented for ``approximate="tanh"``, is x·σ(2z): this is 2z =
    2√(2/π)·(x + 0.044715·x³)."""
    return 2 * (2 / arb.pi()).sqrt() * (x + arb(44715) / 1000000 * x**3)


def _inner_slope(x: arb) -> arb:
    return 2 * (2 / arb.pi()).sqrt() * (1 + 3 * arb(44715) / 1000000 * x**2)


def _gelu_tanh_slope(x: arb) -> Element:
    z = _inner(x)
    return sigmoid.of(z) + x * sigmoid.of(z) * sigmoid.of(-z) * _inner_slope(x)


_gelu_slope = Function("slope of gelu by tanh", _regular(_gelu_tanh_slope, ""))
gelu_by_tanh = Function(
    "gelu by tanh",
    _regular(lambda x: x * sigmoid.of(_inner(x)), at_high=_INF),
    (lambda x, y: _gelu_slope(x),),
)


def _kept(x: Element, gradient: Element) -> Element:
    return x if type(x) is float and x != x else gradient


# A result that is NaN where x is; its slope is unknown there.
_nan_in = Function(
    "NaN kept",
    on_numbers(_kept),
    (lambda x, made, y: unless(0.0, is_nan(x)), lambda x, made, y: unless(1.0, is_nan(x))),
)


def _step(x: Node, gradient: Node) -> Node:
    """A slope made of comparisons, unknown for NaN."""
    return unless(gradient, is_nan(x))


def hardtanh(x: Node, low: Any, high: Any) -> Node:
    """Clamping between two bounds; at the bounds the slope is 0."""
    of = Function(
        "hardtanh",
        on_numbers(lambda v, a, b: balls.minimum(balls.maximum(v, a), b)),
        (lambda v, a, b, y: _step(v, where(and_(less(a, v), less(v, b)), 1.0, 0.0)), None, None),
    )
    return of(x, low, high)


def threshold(x: Node, bound: Any, value: Any) -> Node:
    return where(less_equal(x, bound), value, x)


def _sloped(x: Node, positive: Any, at_most_zero: Any) -> Node:
    """One function for x > 0 and one for x ≤ 0; NaN is kept. Each receives 0 on the other's side,
    where it may be infinite."""
    test = less(0.0, x)
    return _nan_in(x, where(test, positive(where(test, x, 0.0)), at_most_zero(where(test, 0.0, x))))


def relu(x: Node) -> Node:
    return _nan_in(x, where(less(0.0, x), x, 0.0))


def leaky_relu(x: Node, slope: Any) -> Node:
    return _sloped(x, lambda v: v, lambda v: mul(v, slope))


def elu(x: Node, alpha: Any, scale: Any, input_scale: Any) -> Node:
    """scale·x, or scale·alpha·(e^(x·input_scale) − 1) for x ≤ 0."""
    return _sloped(
        x, lambda v: mul(v, scale), lambda v: mul(mul(expm1(mul(v, input_scale)), alpha), scale)
    )


def hardshrink(x: Node, bound: Any) -> Node:
    return _nan_in(x, where(or_(less(bound, x), less(x, mul(bound, -1.0))), x, 0.0))


def softshrink(x: Node, bound: Any) -> Node:
    low = mul(bound, -1.0)
    return _nan_in(x, where(less(bound, x), sub(x, bound), where(less(x, low), add(x, bound), 0.0)))


def softplus_of(x: Node, beta: Any, bound: Any) -> Node:
    """log(1 + e^(βx))/β; as documented, x itself where βx is above the threshold."""
    scaled = mul(x, beta)
    return where(less(bound, scaled), x, div(softplus(scaled), beta))


def _third(x: Node) -> Node:
    return div(add(x, 3.0), 6.0)


def hardsigmoid(x: Node) -> Node:
    """min(max(x + 3, 0), 6)/6."""
    return _nan_in(x, where(less_equal(x, -3.0), 0.0, where(less_equal(3.0, x), 1.0, _third(x))))


def hardswish(x: Node) -> Node:
    """x·min(max(x + 3, 0), 6)/6, which is −∞·0 at −∞; documented as 0, not −0, below −3."""
    inner = where(is_finite(x), x, 0.0)
    above = where(less_equal(3.0, x), x, mul(inner, _third(inner)))
    result = where(less_equal(x, -3.0), Scalar(lambda: arb(0)), above)
    return unless(_nan_in(x, result), and_(not_(is_finite(x)), less(x, 0.0)))


def prelu(x: Node, weight: Node) -> Node:
    return _sloped(x, lambda v: v, lambda v: mul(v, weight))


# The constants of selu are documented as decimals; torch's kernel is called with their nearest
# float64.
SELU_AS_CALLED = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def documented_selu() -> tuple[Node, Node]:
    """The documented constants alpha and scale."""
    return Scalar(lambda: arb("1.6732632423543772848170429916717")), Scalar(
        lambda: arb("1.0507009873554804934193349852946")
    )
