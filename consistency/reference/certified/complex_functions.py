"""Elementary functions of complex numbers, with the branch cuts of C99: the sign of a zero
determines the side of the cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import acb, arb

from . import balls
from . import elementwise as real
from .balls import Element
from .complex_numbers import Pair, add, div, mul, neg, pair, square_modulus, sub
from .elementwise import Function
from .functions import ln2, ln10
from .nodes import Node

Point = Callable[[arb, arb], acb]
Cut = Callable[[arb], bool | None]


def _no_cut(of: Callable[[acb], acb]) -> Callable[[Element, Element], acb | None]:
    return lambda re, im: of(acb(balls.ball(re), balls.ball(im)))


def on_real_cut(
    of: Callable[[acb], acb], cut: Cut, above: Callable[[arb], tuple[arb, arb]]
) -> Callable[[Element, Element], acb | None]:
    """A function with a cut on the real axis where ``cut`` holds; ``above`` is its value there on
    the side of +0. Real on real arguments."""

    def value(re: Element, im: Element) -> acb | None:
        x, y = balls.ball(re), balls.ball(im)
        if not y.is_zero():
            return of(acb(x, y))
        on_cut = cut(x)
        if on_cut is False:
            return of(acb(x, y))
        if on_cut is None or type(im) is not float:
            return None  # on which side of the cut?
        a, b = above(x)
        return acb(a, b if math.copysign(1.0, im) > 0 else -b)

    return value


def turned(
    value: Callable[[Element, Element], acb | None],
) -> Callable[[Element, Element], acb | None]:
    """g(z) = −i·f(i·z), as asinh from asin and atan from atanh."""

    def call(re: Element, im: Element) -> acb | None:
        result = value(-im, re)
        return None if result is None else acb(result.imag, -result.real)

    return call


def analytic(
    name: str,
    of: Callable[[acb], acb] | Callable[[Element, Element], acb | None],
    slope: Callable[[Any, Any], Any],
    *,
    cuts: bool = False,
) -> Callable[[Any], Pair]:
    """A holomorphic function of complex tensors. ``slope(z, f(z))`` is its derivative as a pair.

    With ``cuts`` it is a function of elements that returns None where the side is unknown. Results
    for infinities and NaN are unknown.
    """
    function: Any = of if cuts else _no_cut(of)  # type: ignore[arg-type]

    def part(which: str) -> Function:
        def value(re: Element, im: Element) -> Element:
            for x in (re, im):
                if type(x) is float and x - x != 0.0:
                    return balls.UNSURE
            result = function(re, im)
            return balls.UNSURE if result is None else getattr(result, which)

        def by_re(re: Node, im: Node, y: Node) -> Node:
            return getattr(derivative(re, im), "re" if which == "real" else "im")  # type: ignore[no-any-return]

        def by_im(re: Node, im: Node, y: Node) -> Node:
            slope = derivative(re, im)
            return real.neg(slope.im) if which == "real" else slope.re

        return Function(f"{which} of {name}", value, (by_re, by_im))

    def derivative(re: Node, im: Node) -> Pair:
        z = Pair(re, im)
        return pair(slope(z, call(z)))

    parts = part("real"), part("imag")

    def call(z: Any) -> Pair:
        z = pair(z)
        return Pair(parts[0](z.re, z.im), parts[1](z.re, z.im))

    return call


def _below(bound: float) -> Cut:
    return lambda x: True if x < bound else False if x >= bound else None


def _outside(x: arb) -> bool | None:
    """Of [−1, 1]."""
    return True if x > 1 or x < -1 else False if x >= -1 and x <= 1 else None


def _half_pi(x: arb) -> arb:
    return arb.pi() / 2 if x > 0 else -arb.pi() / 2


def _log_above(x: arb) -> tuple[arb, arb]:
    return (-x).log(), arb.pi()


def _log1p_above(x: arb) -> tuple[arb, arb]:
    return (-1 - x).log(), arb.pi()


def _sqrt_above(x: arb) -> tuple[arb, arb]:
    return arb(0), (-x).sqrt()


def _asin_above(x: arb) -> tuple[arb, arb]:
    return _half_pi(x), abs(x).acosh()


def _acos_above(x: arb) -> tuple[arb, arb]:
    return (arb(0) if x > 0 else arb.pi()), -abs(x).acosh()


def _acosh_above(x: arb) -> tuple[arb, arb]:
    if x >= -1:
        return arb(0), x.acos()
    return (-x).acosh(), arb.pi()


def _atanh_above(x: arb) -> tuple[arb, arb]:
    return (1 / x).atanh(), arb.pi() / 2


def _logarithm(scale: Callable[[], Node] | None) -> Callable[[Any], Pair]:
    def call(z: Any) -> Pair:
        result = log(z)
        return (
            result
            if scale is None
            else Pair(real.div(result.re, scale()), real.div(result.im, scale()))
        )

    return call


def _one_less_square(z: Any) -> Any:
    """√(1 − z)·√(1 + z). Subtracting from z keeps the sign of a zero, which determines the side of
    the roots' cuts."""
    return mul(sqrt(neg(sub(z, 1.0))), sqrt(sub(z, -1.0)))


_sqrt_value = on_real_cut(acb.sqrt, _below(0.0), _sqrt_above)
_asin_value = on_real_cut(acb.asin, _outside, _asin_above)
_atanh_value = on_real_cut(acb.atanh, _outside, _atanh_above)

exp = analytic("exp", acb.exp, lambda z, y: y)
exp2 = analytic("exp2", lambda z: (z * arb.const_log2()).exp(), lambda z, y: mul(y, ln2()))
expm1 = analytic("expm1", acb.expm1, lambda z, y: add(y, 1.0))
log = analytic(
    "log", on_real_cut(acb.log, _below(0.0), _log_above), lambda z, y: div(1.0, z), cuts=True
)
log1p = analytic(
    "log1p",
    on_real_cut(acb.log1p, _below(-1.0), _log1p_above),
    lambda z, y: div(1.0, add(1.0, z)),
    cuts=True,
)
log2, log10 = _logarithm(ln2), _logarithm(ln10)
sqrt = analytic("sqrt", _sqrt_value, lambda z, y: div(0.5, y), cuts=True)
sin: Callable[[Any], Pair] = analytic("sin", acb.sin, lambda z, y: cos(z))
cos: Callable[[Any], Pair] = analytic("cos", acb.cos, lambda z, y: neg(sin(z)))
tan = analytic("tan", acb.tan, lambda z, y: add(1.0, mul(y, y)))
sinh: Callable[[Any], Pair] = analytic("sinh", acb.sinh, lambda z, y: cosh(z))
cosh: Callable[[Any], Pair] = analytic("cosh", acb.cosh, lambda z, y: sinh(z))
tanh = analytic("tanh", acb.tanh, lambda z, y: sub(1.0, mul(y, y)))
asin = analytic("asin", _asin_value, lambda z, y: div(1.0, _one_less_square(z)), cuts=True)
acos = analytic(
    "acos",
    on_real_cut(acb.acos, _outside, _acos_above),
    lambda z, y: neg(div(1.0, _one_less_square(z))),
    cuts=True,
)
atan = analytic("atan", turned(_atanh_value), lambda z, y: div(1.0, add(1.0, mul(z, z))), cuts=True)
asinh = analytic(
    "asinh", turned(_asin_value), lambda z, y: div(1.0, sqrt(sub(mul(z, z), -1.0))), cuts=True
)
acosh = analytic(
    "acosh",
    on_real_cut(acb.acosh, _below(1.0), _acosh_above),
    lambda z, y: div(1.0, mul(sqrt(sub(z, 1.0)), sqrt(sub(z, -1.0)))),
    cuts=True,
)
atanh = analytic("atanh", _atanh_value, lambda z, y: div(1.0, sub(1.0, mul(z, z))), cuts=True)


def power(base: Any, exponent: Any) -> Any:
    """exp(w·log z); integer and half-integer exponents avoid the logarithm and its cut."""
    if isinstance(exponent, (int, float)) and float(exponent).is_integer() and abs(exponent) <= 64:
        result: Any = 1.0
        for _ in range(abs(int(exponent))):
            result = base if isinstance(result, float) else mul(result, base)
        if not exponent:
            return pair(result)
        return result if exponent > 0 else _reciprocal(result)
    if isinstance(exponent, float) and exponent in (0.5, -0.5):
        root = sqrt(base)
        return root if exponent > 0 else _reciprocal(root)
    return exp(mul(exponent, log(base)))


# With imaginary parts within ±1.5, exponentials lie to the right of the imaginary axis, and so do
# their sums, whatever the order: every way to compute the logarithm has the same branch.
_RIGHT = 1.5


def is_left(z: Any) -> Node:
    """Where an exponential may lie on the left of the imaginary axis."""
    return real.less(_RIGHT, real.maximum(pair(z).im, real.neg(pair(z).im)))


def log_of_sum(exponentials: Any, left: Node) -> Pair:
    """The logarithm of sums of exponentials; unknown where one of them is ``left``, since which
    branch it is on then is not documented."""
    result = log(exponentials)
    return Pair(real.doubted(result.re, left), real.doubted(result.im, left))


def logaddexp(a: Any, b: Any) -> Pair:
    return log_of_sum(add(exp(pair(a)), exp(pair(b))), real.or_(is_left(a), is_left(b)))


def _reciprocal(z: Any) -> Any:
    """1/z, unknown at 0."""
    result = div(1.0, z)
    doubt = real.equal(square_modulus(z), 0.0)
    return Pair(real.doubted(result.re, doubt), real.doubted(result.im, doubt))
