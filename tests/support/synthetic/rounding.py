"""float64 arrays with fewer bits: what an operand, a product or a partial sum keeps. Vectorized
NumPy, exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Round = Callable[[Array], Array]


def _to_integers(x: Array, bits: int) -> tuple[Array, Any]:
    """The numbers scaled so that ``bits`` significant bits stand before the point, and the
    exponents that were taken away."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(mantissa, bits), exponent - bits


def nearest_even(bits: int) -> Round:
    def kept(x: Array) -> Array:
        scaled, exponent = _to_integers(x, bits)
        return np.ldexp(np.rint(scaled), exponent)

    return kept


def nearest_away(bits: int) -> Round:
    def kept(x: Array) -> Array:
        scaled, exponent = _to_integers(x, bits)
        return np.ldexp(np.trunc(scaled + np.copysign(0.5, scaled)), exponent)

    return kept


def toward_zero(bits: int) -> Round:
    def kept(x: Array) -> Array:
        scaled, exponent = _to_integers(x, bits)
        return np.ldexp(np.trunc(scaled), exponent)

    return kept


def upward(bits: int) -> Round:
    def kept(x: Array) -> Array:
        scaled, exponent = _to_integers(x, bits)
        return np.ldexp(np.ceil(scaled), exponent)

    return kept


def downward(bits: int) -> Round:
    def kept(x: Array) -> Array:
        scaled, exponent = _to_integers(x, bits)
        return np.ldexp(np.floor(scaled), exponent)

    return kept


def exactly(x: Array) -> Array:
    return x


def to_odd(x: Array, y: Array) -> Array:
    """x + y in float64, rounded to odd: rounding that again to at most 51 bits is as if the exact
    sum were rounded once."""
    total = x + y
    back = total - x
    error = (x - (total - back)) + (y - back)
    words = total.view(np.int64)
    away = (error > 0) == (total > 0)  # the exact sum lies further from zero than the rounded one
    odd = np.where(away, words | 1, np.where(words & 1, words, words - 1))
    return np.where((error == 0) | ~np.isfinite(total), words, odd).view(np.float64)
