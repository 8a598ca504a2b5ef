"""Elements of certified computations: balls for regular numbers, Python floats where the special
rules of IEEE 754 apply.

An *element* is an ``arb`` (a finite ball that contains the exact value; exactly 0 is a zero of
unknown sign) or one of the floats NaN, ±infinity, 0.0 and −0.0, which obey IEEE 754. A ball that is
not finite is *unsure*: higher precision may help. Integer elements are ``int``, booleans ``bool``;
None where overlapping balls leave them undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flint
import numpy as np
import numpy.typing as npt
from flint import arb

Element = Any  # arb | float | int | bool | None
Elements = npt.NDArray[np.object_]

UNSURE = arb("nan")
ZERO, ONE = arb(0), arb(1)
_INF = math.inf
_NAN = math.nan


class Unsure(Exception):  # noqa: N818 (an answer, not an error)
    """Nothing can be proved in this precision; the text says why."""


class Unknowable(Unsure):
    """Nothing can be proved in any precision."""


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the precision of balls in bits, in this process, until the context ends."""
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before


def element(value: float | int) -> Element:
    """An exact number as an element."""
    if type(value) is float and (value == 0.0 or value - value != 0.0):
        return value
    return arb(value) if value else 0.0


def elements(array: npt.NDArray[Any]) -> Elements:
    """A NumPy array as flat elements: floats exactly, integers as ``int``, booleans as ``bool``."""
    values = array.reshape(-1).tolist()
    result = np.empty(len(values), dtype=object)
    result[:] = [element(v) for v in values] if array.dtype.kind == "f" else values
    return result


def ball(x: Element) -> arb:
    """An element as a ball: zeros are 0, NaN and infinities are unsure."""
    if type(x) is arb:
        return x
    if type(x) is float:
        return ZERO if x == 0.0 else UNSURE
    return UNSURE if x is None else arb(int(x))


def real(x: Element) -> Element:
    """An integer or boolean as a real number."""
    kind = type(x)
    if kind is arb or kind is float:
        return x
    return UNSURE if x is None else (arb(int(x)) if x else 0.0)


def sign(x: Element) -> int | None:
    """−1, 0 or 1; None for NaN and where a ball does not decide it."""
    if type(x) is float:
        return None if x != x else (x > 0.0) - (x < 0.0)
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0 if x.is_exact() and x == 0 else None


def add(a: Element, b: Element) -> Element:
    if type(a) is arb:
        if type(b) is arb:
            return a + b
        a, b = b, a
    if type(b) is float:
        return a + b
    if a == 0.0:
        return b
    return a if b.is_finite() or a != a else UNSURE


def neg(a: Element) -> Element:
    return -a


def sub(a: Element, b: Element) -> Element:
    return add(a, -b)


def mul(a: Element, b: Element) -> Element:
    if type(a) is arb:
        if type(b) is arb:
            return a * b
        a, b = b, a
    if type(b) is float:
        return a * b
    if a != a:
        return a
    negative = sign(b)
    if a == 0.0:
        return ZERO * b if not negative else (a if negative > 0 else -a)
    return UNSURE if negative is None else _NAN if negative == 0 else a * negative


def div(a: Element, b: Element) -> Element:
    if type(b) is float:
        if b == 0.0:
            return _by_zero(a, b)
        if type(a) is float:
            return a / b
        if b != b:
            return b
        side = sign(a)
        return ZERO if not side else math.copysign(0.0, b) * side  # by an infinity
    if type(a) is arb:
        return _NAN if _is_zero(a) and _is_zero(b) else a / b
    side = sign(b)
    if a != a:
        return a
    if a == 0.0:
        return ZERO / b if side is None else _NAN if side == 0 else a * side
    return a * side if side else UNSURE


def _is_zero(x: arb) -> bool:
    return bool(x.is_zero())


def _by_zero(a: Element, b: float) -> Element:
    if type(a) is float:
        return _NAN if a != a or a == 0.0 else math.copysign(_INF, a) * math.copysign(1.0, b)
    side = sign(a)
    return UNSURE if side is None else _NAN if side == 0 else side * math.copysign(_INF, b)


def less(a: Element, b: Element) -> bool | None:
    """a < b; False with NaN, None where balls overlap."""
    if type(a) is float and type(b) is float:
        return a < b
    if (type(a) is float and a != a) or (type(b) is float and b != b):
        return False
    if type(a) is float and a - a != 0.0:
        return a < 0.0
    if type(b) is float and b - b != 0.0:
        return b > 0.0
    x, y = ball(a), ball(b)
    return True if x < y else False if x >= y else None


def equal(a: Element, b: Element) -> bool | None:
    if type(a) is float and type(b) is float:
        return a == b
    if (type(a) is float and a - a != 0.0) or (type(b) is float and b - b != 0.0):
        return False
    x, y = ball(a), ball(b)
    if not x.overlaps(y):
        return False
    return True if x.is_exact() and y.is_exact() and x == y else None


def choose(test: bool | None, a: Element, b: Element) -> Element:
    """``a`` or ``b``; a ball around both if ``test`` is undecided."""
    if test is None:
        return union(a, b)
    return a if test else b


def union(a: Element, b: Element) -> Element:
    if type(a) is float and type(b) is float and (a == b or (a != a and b != b)):
        return a
    return real(a).union(real(b)) if _regular(a) and _regular(b) else UNSURE


def _regular(x: Element) -> bool:
    return type(x) is arb


def maximum(a: Element, b: Element) -> Element:
    """The larger one; NaN if either is NaN."""
    for x in (a, b):
        if type(x) is float and x != x:
            return x
    test = less(a, b)
    if test is None and type(a) is arb and type(b) is arb:
        return a.max(b)
    return choose(test, b, a)


def minimum(a: Element, b: Element) -> Element:
    return -maximum(-a, -b)


def total(values: list[Element]) -> Element:
    """The exact sum, with the rules of IEEE 754 for infinities and NaN."""
    regular, special = ZERO, 0.0
    zeros = None
    for v in values:
        if type(v) is arb:
            regular = regular + v
        elif v == 0.0:
            zeros = v if zeros is None else zeros + v
        else:
            special = special + v
    if special != 0.0:  # an infinity or NaN
        return special if regular.is_finite() or special != special else UNSURE
    return zeros if zeros is not None and not any(type(v) is arb for v in values) else regular


def dot(a: Any, b: Any) -> Element:
    """An enclosure of Σ aᵢ·bᵢ."""
    try:
        product_sum = ZERO
        for x, y in zip(a, b, strict=True):
            if type(x) is arb and type(y) is arb:
                product_sum = product_sum + x * y
            else:
                product = mul(x, y)
                if type(product) is arb:
                    product_sum = product_sum + product
                elif product != 0.0:
                    raise ArithmeticError
        return product_sum
    except ArithmeticError:
        return total([mul(x, y) for x, y in zip(a, b, strict=True)])


def function(
    of: Callable[[arb], Element], *, low: float = -_INF, high: float = _INF, at_low: Element = _NAN,
    at_high: Element = _NAN,
    zero: str | Element = "", nan_outside: bool = True,
) -> Callable[[Element], Element]:  # fmt: skip
    """A real function of elements, defined on [low, high] (NaN outside); ``at_low`` and ``at_high``
    are its values at infinite bounds. ``zero``: ``odd`` returns a zero with its sign; another
    element is the value at 0."""

    def call(x: Element) -> Element:
        if type(x) is float:
            if x != x:
                return x
            if x == 0.0:
                if zero == "odd":
                    return x
                return of(ZERO) if isinstance(zero, str) else zero
            return (
                (at_high if high == _INF else _NAN)
                if x > 0.0
                else (at_low if low == -_INF else _NAN)
            )
        if nan_outside and ((low != -_INF and x < low) or (high != _INF and x > high)):
            return _NAN
        return of(x)

    return call
