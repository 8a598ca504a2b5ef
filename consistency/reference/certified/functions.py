"""Elementary functions of one or two elements, with their derivatives."""

from __future__ import annotations

import math
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
    equal,
    is_finite,
    is_nan,
    less_equal,
    mul,
    neg,
    not_,
    on_numbers,
    or_,
    sub,
    unless,
    where,
)
from .nodes import Node

_INF, _NAN = math.inf, math.nan


def _unary(name: str, of: Any, slope: Any, **bounds: Any) -> Function:
    """A function; where it is not defined, its slope is unknown."""
    if "low" not in bounds and "high" not in bounds:
        return Function(name, on_numbers(function(of, **bounds)), (slope,))

    def inside(x: Node, y: Node) -> Node:
        return unless(slope(x, y), and_(is_nan(y), not_(is_nan(x))))

    return Function(name, on_numbers(function(of, **bounds)), (inside,))


def ln2() -> Node:
    return Scalar(arb.const_log2)


def ln10() -> Node:
    return Scalar(arb.const_log10)


def pi() -> Node:
    return Scalar(arb.pi)


def square(x: Node) -> Node:
    return mul(x, x)


def _one_less(x: Node) -> Node:
    return mul(sub(1.0, x), add(1.0, x))


def _at_zero(of: Any) -> Any:
    """A function of numbers ≥ 0 that is infinite at 0."""

    def value(x: arb) -> Element:
        return _INF if x.is_zero() else of(x)

    return on_numbers(function(value, low=0.0, at_high=0.0, zero=_INF))


_over_root = Function("1/√x", _at_zero(arb.rsqrt))
_inverse = Function("1/x right of 0", _at_zero(lambda x: 1 / x))
exp = _unary("exp", arb.exp, lambda x, y: y, at_low=0.0, at_high=_INF)
exp2 = _unary("exp2", lambda x: arb(2) ** x, lambda x, y: mul(y, ln2()), at_low=0.0, at_high=_INF)
expm1 = _unary("expm1", arb.expm1, lambda x, y: exp(x), at_low=arb(-1), at_high=_INF, zero="odd")
log = _unary("log", arb.log, lambda x, y: div(1.0, x), low=0.0, at_high=_INF, zero=-_INF)
log2 = _unary(
    "log2",
    lambda x: x.log() / arb.const_log2(),
    lambda x, y: div(1.0, mul(x, ln2())),
    low=0.0,
    at_high=_INF,
    zero=-_INF,
)
log10 = _unary(
    "log10",
    lambda x: x.log() / arb.const_log10(),
    lambda x, y: div(1.0, mul(x, ln10())),
    low=0.0,
    at_high=_INF,
    zero=-_INF,
)
sqrt = _unary("sqrt", arb.sqrt, lambda x, y: div(0.5, y), low=0.0, at_high=_INF, zero="odd")
sin: Function = _unary("sin", arb.sin, lambda x, y: cos(x), zero="odd")
cos: Function = _unary("cos", arb.cos, lambda x, y: neg(sin(x)))
tan = _unary("tan", arb.tan, lambda x, y: add(1.0, square(y)), zero="odd")
asin = _unary(
    "asin", arb.asin, lambda x, y: _over_root(_one_less(x)), low=-1.0, high=1.0, zero="odd"
)
acos = _unary("acos", arb.acos, lambda x, y: neg(_over_root(_one_less(x))), low=-1.0, high=1.0)
sinh: Function = _unary(
    "sinh", arb.sinh, lambda x, y: cosh(x), at_low=-_INF, at_high=_INF, zero="odd"
)
cosh: Function = _unary("cosh", arb.cosh, lambda x, y: sinh(x), at_low=_INF, at_high=_INF)
asinh = _unary(
    "asinh",
    arb.asinh,
    lambda x, y: div(1.0, sqrt(add(square(x), 1.0))),
    at_low=-_INF,
    at_high=_INF,
    zero="odd",
)
acosh = _unary(
    "acosh",
    arb.acosh,
    lambda x, y: mul(_over_root(sub(x, 1.0)), _over_root(add(x, 1.0))),
    low=1.0,
    at_high=_INF,
    zero=_NAN,
)


def _atanh(x: arb) -> Element:
    if x.is_exact() and abs(x) == 1:
        return math.copysign(_INF, 1.0 if x > 0 else -1.0)
    return x.atanh()


def _log1p(x: arb) -> Element:
    return -_INF if x.is_exact() and x == -1 else x.log1p()


atanh = _unary("atanh", _atanh, lambda x, y: _inverse(_one_less(x)), low=-1.0, high=1.0, zero="odd")
log1p = _unary(
    "log1p", _log1p, lambda x, y: div(1.0, add(1.0, x)), low=-1.0, at_high=_INF, zero="odd"
)


def _half_pi(x: Element) -> Element:
    return arb.pi() / 2 if x > 0 else -arb.pi() / 2


def _atan(x: Element) -> Element:
    if type(x) is float:
        return _half_pi(x) if x - x != 0.0 and x == x else x
    return x.atan()


atan = Function("atan", on_numbers(_atan), (lambda x, y: div(1.0, add(1.0, square(x))),))
tanh = Function(
    "tanh",
    on_numbers(
        lambda x: (
            arb(int(math.copysign(1, x)))
            if type(x) is float and abs(x) == _INF
            else x
            if type(x) is float
            else x.tanh()
        )
    ),
    (lambda x, y: sub(1.0, square(y)),),
)


def _sigmoid(x: Element) -> Element:
    """1/(1 + e⁻ˣ), arranged so that no exponential is large."""
    if type(x) is float:
        return x if x != x else arb(0.5) if x == 0.0 else arb(1) if x > 0.0 else 0.0
    power = (-abs(x)).exp()
    return 1 / (1 + power) if x >= 0 else power / (1 + power) if x <= 0 else 1 / (1 + (-x).exp())


sigmoid: Function = Function(
    "sigmoid", on_numbers(_sigmoid), (lambda x, y: mul(sigmoid(x), sigmoid(neg(x))),)
)


def _abs(x: Element) -> Element:
    return abs(x)


def _sign(x: Element) -> Element:
    """−1, 0, 1; NaN of NaN. The sign of its zero is not documented."""
    if type(x) is float:
        return x if x != x else arb(0 if x == 0.0 else 1 if x > 0 else -1)
    sign = balls.sign(x)
    return arb(0).union(arb(-1)).union(arb(1)) if sign is None else balls.element(sign)


sign = Function("sign", on_numbers(_sign))
abs_ = Function(
    "abs", on_numbers(_abs), (lambda x, y: unless(sign(x), is_nan(x)),)
)  # torch returns 0 for NaN


def _whole(of: Any) -> Any:
    return on_numbers(lambda x: x if type(x) is float else _signed_zero(of(x), x))


def _signed_zero(result: arb, x: arb) -> Element:
    return (
        math.copysign(0.0, 1.0 if x > 0 else -1.0)
        if result.is_zero() and not x.is_zero()
        else result
    )


def _truncated(x: arb) -> arb:
    return x.floor() if x > 0 else x.ceil() if x < 0 else x.floor().union(x.ceil())


def nearest_even(x: arb) -> arb:
    """The nearest integer, ties to even."""
    low = (x - arb(0.5)).ceil()
    high = (x + arb(0.5)).floor()
    if low.is_exact() and high.is_exact() and low == high:
        return low
    if x.is_exact():  # just between two
        return low if (low / 2).is_integer() else high
    return low.union(high)


floor = Function("floor", _whole(arb.floor))
ceil = Function("ceil", _whole(arb.ceil))
trunc = Function("trunc", _whole(_truncated))
round_ = Function("round", _whole(nearest_even))


# --- of two elements


def _is_whole(x: Element) -> bool:
    return type(x) is arb and x.is_exact() and x.is_integer()


def _odd(x: arb) -> bool:
    return not (x / 2).is_integer()


def power(x: Element, y: Element) -> Element:
    """x to the power y with IEEE 754's special cases (pow)."""
    if (type(y) is float and y == 0.0) or (type(y) is arb and y.is_zero()):
        return balls.ONE
    if type(x) is arb and x.is_exact() and x == 1:
        return balls.ONE
    if type(x) is float and type(y) is float:
        if x != x or y != y:
            return _NAN
        return math.pow(x, y) if x != 0.0 else (0.0 if y > 0 else _INF)
    if type(y) is float:  # NaN or infinite, of a regular base
        if y != y:
            return y
        size = abs(x)
        if size == 1:
            return balls.ONE
        return (
            (_INF if y > 0 else 0.0)
            if size > 1
            else (0.0 if y > 0 else _INF)
            if size < 1
            else balls.UNSURE
        )
    if type(x) is float:
        if x != x:
            return x
        is_whole, sign = _is_whole(y), balls.sign(y)
        if not y.is_exact() and not y.is_integer() and y.contains_integer():
            return balls.UNSURE
        if sign is None or sign == 0:
            return balls.UNSURE
        size = (0.0 if sign > 0 else _INF) if x == 0.0 else (_INF if sign > 0 else 0.0)
        return math.copysign(size, x) if is_whole and _odd(y) else size
    if _is_whole(y) and abs(y) < 1 << 40:
        return x ** y.unique_fmpz()
    if x > 0:
        return x**y
    if x < 0:
        if _is_whole(y):
            return -((-x) ** y) if _odd(y) else (-x) ** y
        return _NAN if y.is_exact() or not y.contains_integer() else balls.UNSURE
    if x.is_zero():
        sign = balls.sign(y)
        return balls.ZERO if sign == 1 else _INF if sign == -1 else balls.UNSURE
    return (
        balls.UNSURE if not (y > 0) else (x.abs_upper() ** y).union(0) if x >= 0 else balls.UNSURE
    )


def _pow_by_base(x: Node, y: Node, z: Node) -> Node:
    return where(equal(y, 0.0), 0.0, mul(y, pow_(x, sub(y, 1.0))))


def _pow_by_exponent(x: Node, y: Node, z: Node) -> Node:
    return where(and_(equal(x, 0.0), less_equal(0.0, y)), 0.0, mul(z, log(x)))


pow_ = Function("pow", on_numbers(power), (_pow_by_base, _pow_by_exponent))


def _angle(y: Element, x: Element) -> Element:
    """The angle of the point (x, y): atan2 with IEEE 754's special cases."""
    if type(x) is float and type(y) is float:
        if x != x or y != y:
            return _NAN
        quarter = math.atan2(y, x)
        eighths = round(quarter / (math.pi / 4))
        return math.copysign(0.0, y) if eighths == 0 else arb.pi() * eighths / 4
    for z in (x, y):
        if type(z) is float and z != z:
            return _NAN
    if type(x) is float:  # x is ±0 or ±∞ and y regular
        sign = balls.sign(y)
        if not sign:
            return balls.UNSURE
        if x == 0.0:
            return arb.pi() * sign / 2
        return math.copysign(0.0, sign) if x > 0 else arb.pi() * sign
    if type(y) is float:
        if y != 0.0:
            return arb.pi() / 2 if y > 0 else -arb.pi() / 2
        sign = balls.sign(x)
        return balls.UNSURE if not sign else y if sign > 0 else arb.pi() * int(math.copysign(1, y))
    return arb.atan2(y, x)


def _squares(x: Node, y: Node) -> Node:
    """x² + y²; unknown where both are 0, because the angle has no slope there."""
    return unless(add(square(x), square(y)), and_(equal(x, 0.0), equal(y, 0.0)))


atan2 = Function(
    "atan2",
    on_numbers(_angle),
    (lambda a, b, y: div(b, _squares(a, b)), lambda a, b, y: neg(div(a, _squares(a, b)))),
)


def _hypot(x: Element, y: Element) -> Element:
    for z in (x, y):
        if type(z) is float and abs(z) == _INF:
            return _INF
    return square_root(balls.add(balls.mul(x, x), balls.mul(y, y)))


square_root = function(arb.sqrt, low=0.0, at_high=_INF, zero="odd")
hypot_value = on_numbers(_hypot)
hypot = Function("hypot", hypot_value, (lambda a, b, y: div(a, y), lambda a, b, y: div(b, y)))


def _copy_sign(x: Element, y: Element) -> Element:
    if type(y) is float and y == y:
        negative: bool | None = math.copysign(1.0, y) < 0
    else:
        sign = balls.sign(y)
        negative = None if not sign else sign < 0
    size = abs(x)
    if negative is None:
        return size.union(-size) if type(size) is arb else balls.UNSURE
    return -size if negative else size


def _pull_sign(a: Node, b: Node, y: Node) -> Node:
    """1 or −1, whether x keeps its sign; 0 at 0, as in torch; unknown at infinities, where torch
    divides ∞ by ∞."""
    return unless(mul(sign(a), copysign_of_one(b)), not_(is_finite(a)))


copysign = Function("copysign", on_numbers(_copy_sign), (_pull_sign, None))


def copysign_of_one(b: Node) -> Node:
    return copysign(1.0, b)


def _remainder(x: Element, y: Element) -> Element:
    """x − y·⌊x/y⌋, in Python's manner: with the sign of y."""
    return _modulo(x, y, arb.floor)


def _fmod(x: Element, y: Element) -> Element:
    """x − y·trunc(x/y), in C's manner: with the sign of x, a zero, too."""
    result = _modulo(x, y, _truncated)
    if type(result) is arb and result == 0 and type(x) is arb:
        sign = balls.sign(x)
        return result if not sign else math.copysign(0.0, sign)
    return result


def _modulo(x: Element, y: Element, to_integer: Any) -> Element:
    if type(x) is float and x == 0.0 and type(y) is arb:
        return x
    if type(x) is float or type(y) is float:
        if (
            type(y) is float
            and y == y
            and abs(y) == _INF
            and not (type(x) is float and x - x != 0.0)
        ):
            sign = balls.sign(x)
            if to_integer is _truncated or sign in (0, balls.sign(y)):
                return x
            return balls.UNSURE if sign is None else y
        return _NAN
    return x - y * to_integer(x / y)


def _by_divisor(to_integer: Function) -> Any:
    """The slopes of a remainder, unknown where the remainder is not defined."""
    return (
        lambda a, b, y: unless(1.0, is_nan(y)),
        lambda a, b, y: unless(neg(to_integer(div(a, b))), or_(is_nan(y), not_(is_finite(b)))),
    )


remainder = Function("remainder", on_numbers(_remainder), _by_divisor(floor))
fmod = Function("fmod", on_numbers(_fmod), _by_divisor(trunc))
