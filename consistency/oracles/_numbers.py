"""Real numbers of 160 bits and unbounded exponents, by mpmath, also as elements of NumPy's object arrays.

NumPy calls a method of the element for ``np.exp(array of objects)``; the numbers of our own mpmath context have these methods, so
that formulas written for NumPy arrays compute in it unchanged.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

BITS = 160
NO_TAIL = 2.0**-960  # below, what float64 leaves over is itself subnormal
_METHODS = ("exp", "expm1", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")


def available() -> bool:
    return context() is not None


@functools.cache
def context() -> Any:
    """The mpmath context, or None where mpmath cannot be imported."""
    try:
        import mpmath
    except ImportError:
        return None
    made = mpmath.MPContext()
    made.prec = BITS
    number = made.mpf
    for name in _METHODS:
        setattr(number, name, _method(getattr(made, name)))
    number.log = _method(made.ln)
    number.log2 = _method(lambda x: made.log(x, 2))
    number.log10 = _method(made.log10)
    number.exp2 = lambda x: made.mpf(2) ** x
    number.arctan, number.arcsin, number.arccos = number.atan, number.asin, number.acos
    number.arctanh, number.arcsinh, number.arccosh = number.atanh, number.asinh, number.acosh
    number.logaddexp = lambda x, y: max(x, y) if max(abs(x), abs(y)) == made.inf else max(x, y) + made.log1p(made.exp(-abs(x - y)))
    return made


def _method(function: Any) -> Any:
    """Of a real number; NaN where the result is complex."""

    def call(x: Any) -> Any:
        result = function(x)
        return context().nan if hasattr(result, "_mpc_") else result

    return call


def from_doubles(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """float64 numbers as objects, exactly."""
    made: Any = np.frompyfunc(context().mpf, 1, 1)(array)
    return np.asarray(made, dtype=object)


def split(value: Any) -> tuple[float, float]:
    """A number as the nearest float64 (subnormals, overflow to infinity included) and the rest, 0 where that is subnormal."""
    if not hasattr(value, "_mpf_"):
        value = context().mpf(value)
    high = _nearest(value)
    if not math.isfinite(high) or abs(high) < NO_TAIL:
        return high, 0.0
    return high, _nearest(value - high)


def _nearest(value: Any) -> float:
    """Correctly rounded to nearest even: Python's conversion and division of whole numbers are."""
    sign, mantissa, exponent, bits = value._mpf_
    if not mantissa:
        return float(value)  # 0, NaN, infinities
    mantissa = -int(mantissa) if sign else int(mantissa)
    if exponent + bits > 1025:
        return math.copysign(math.inf, mantissa)
    if exponent + bits < -1080:
        return math.copysign(0.0, mantissa)
    try:
        return float(mantissa << exponent) if exponent >= 0 else mantissa / (1 << -exponent)
    except OverflowError:
        return math.copysign(math.inf, mantissa)


def to_doubles(array: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """An array of objects as (high, tail)."""
    flat = [split(item) for item in array.reshape(-1)]
    pairs = np.array(flat, dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0].reshape(array.shape), pairs[:, 1].reshape(array.shape)
