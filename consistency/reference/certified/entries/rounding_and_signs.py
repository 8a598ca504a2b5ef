"""Rounding to integers, signs, and the components of floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from flint import arb

from ....core.dtypes import FORMATS, Format, name_of
from .. import balls
from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from .. import integers as w
from ..balls import Element, Unsure
from ..complex_numbers import Pair
from ..elementwise import (
    Function,
    div,
    doubted,
    equal,
    is_nan,
    mul,
    not_,
    on_numbers,
    to_real,
    where,
)
from ..integers import whole
from ..nodes import Constant
from . import ENTRIES, entry

for _name, _real in {"floor": f.floor, "ceil": f.ceil, "trunc": f.trunc}.items():
    ENTRIES[_name] = (lambda of: lambda self: self if whole(self) else of(self))(_real)


@entry("frac")
def frac(self: Any) -> Any:
    """x − trunc(x)."""
    return e.sub(self, f.trunc(self))


@entry("round")
def round_(self: Any, decimals: int = 0) -> Any:
    """To the nearest, ties to even; with ``decimals``, x·10ᵈ is rounded exactly."""
    if whole(self):
        if decimals < 0:
            raise Unsure("whole numbers rounded to tens")
        return self
    scale = 10 ** abs(decimals)
    if decimals >= 0:
        return f.round_(self) if not decimals else div(f.round_(mul(self, scale)), scale)
    return mul(f.round_(div(self, scale)), scale)


@entry("sign")
def sign(self: Any) -> Any:
    """For NaN torch returns 0, which is not documented."""
    return w.sign(self) if whole(self) else doubted(f.sign(self), is_nan(self))


@entry("sgn")
def sgn(self: Any) -> Any:
    if not isinstance(self, Pair):
        return sign(self)
    size = c.modulus(self)
    zero = equal(size, 0.0)
    doubt = e.or_(not_(e.is_finite(self.re)), not_(e.is_finite(self.im)))
    return c.each(lambda x: doubted(where(zero, 0.0, div(x, where(zero, 1.0, size))), doubt), self)


def _replaced(nan: float, high: float, low: float) -> Function:
    replacements = [balls.element(value) for value in (nan, high, low)]

    def of(x: Element) -> Element:
        if type(x) is not float or x == 0.0:
            return x
        return replacements[0] if x != x else replacements[1] if x > 0.0 else replacements[2]

    return Function("nan to num", on_numbers(of), (lambda x, y: where(e.is_finite(x), 1.0, 0.0),))


@entry("nan_to_num")
def nan_to_num(
    self: Any, result: Any, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Any:
    """By default NaN becomes 0 and an infinity the dtype's largest number."""
    if not isinstance(self, Pair) and whole(self):
        return self
    form = torch.finfo(result.dtype)
    replacements = (
        0.0 if nan is None else nan,
        form.max if posinf is None else posinf,
        form.min if neginf is None else neginf,
    )
    of = _replaced(*map(float, replacements))
    return c.each(of, self)


def _split(x: Element) -> tuple[Element, int | None]:
    """C leaves the exponent of an infinity and of NaN open; torch and NumPy say 0 (Inductor's
    smallest integer was mended as a defect, pytorch#143790)."""
    if type(x) is float:
        return x, 0
    if not x.is_finite() or x.contains(0):
        return balls.UNSURE, None
    mantissa, exponent = abs(x).mid().man_exp()
    power = int(exponent) + int(mantissa).bit_length()
    part = x / arb(2) ** power
    inside = abs(part)
    return (part, power) if inside >= 0.5 and inside < 1 else (balls.UNSURE, None)


_mantissa = Function("mantissa", on_numbers(lambda x: _split(x)[0]))
_exponent = Function("exponent", on_numbers(lambda x: _split(x)[1]), kind="int")


@entry("frexp")
def frexp(self: Any) -> Any:
    """x = mantissa·2^exponent, the mantissa in [½, 1)."""
    return _mantissa(self), _exponent(self)


@entry("ldexp")
def ldexp(self: Any, other: Any) -> Any:
    return mul(self, f.exp2(to_real(other)))


@entry("heaviside")
def heaviside(self: Any, values: Any) -> Any:
    if whole(self, values):
        return where(e.less(self, 0), 0, where(equal(self, 0), values, 1))
    result = where(e.less(self, 0.0), 0.0, where(equal(self, 0.0), values, 1.0))
    return doubted(result, is_nan(self))


def _after(form: Format) -> Callable[[Element, Element], Element]:
    """The number of a format next to x in the direction of y, for exact elements that it holds."""

    def after(x: Element, y: Element) -> Element:
        numbers = [float(z) if type(z) is float else float(z.mid()) for z in (x, y)]
        for z, number in zip((x, y), numbers, strict=True):
            if type(z) is not float and not (z.is_exact() and z == number):
                return balls.UNSURE
        first, second = numbers
        return balls.element(_next_toward(first, second, form))

    return after


def _next_toward(x: float, y: float, form: Format) -> float:
    if form is FORMATS["float64"] or x != x or y != y or x == y:
        return math.nextafter(x, y)
    away = (y > x) == (x > 0.0) or x == 0.0  # from zero
    _, exponent = math.frexp(x)
    # Toward zero, the step below a power of two is that of the binade below.
    lower = not away and abs(x) == math.ldexp(0.5, exponent)
    smallest = form.smallest_normal * 2.0 ** (1 - form.precision)
    step = max(math.ldexp(1.0, exponent - lower - form.precision), smallest)
    if math.isinf(x):
        return math.copysign(form.overflow * (1.0 - form.unit_roundoff), x)
    if x == 0.0:
        return math.copysign(smallest, y)
    size = abs(x) + step if away else abs(x) - step
    return math.copysign(math.inf if size >= form.overflow else size, x)


_next_after = {
    name: Function(f"next after in {name}", on_numbers(_after(form)))
    for name, form in FORMATS.items()
}


@entry("nextafter")
def nextafter(self: Any, other: Any, result: Any) -> Any:
    function = _next_after.get(name_of(result.dtype))
    if function is None:
        raise Unsure("the next number of another dtype")
    return function(self, other)


@entry("signbit")
def signbit(self: Any) -> Any:
    """NaN has a sign bit as well (IEEE 754-2019, isSignMinus), which is known of one that is given
    and of none that is computed."""
    if whole(self):
        return e.less(self, 0)
    return Constant(np.signbit(self.data)) if isinstance(self, Constant) else _sign_bit(self)


def _negative(x: Element) -> bool | None:
    if type(x) is float:
        return None if x != x else math.copysign(1.0, x) < 0.0
    sign = balls.sign(x)
    return None if not sign else sign < 0


_sign_bit = Function("sign bit", on_numbers(_negative), kind="bool")
