"""Correctly rounded sums and fused multiply-adds of float32 and float64 arrays, from NumPy's basic
operations.

Rounding a float64 result to float32 would round twice. The float64 sum is therefore rounded *to
odd* (an inexact result has its last bit set); rounding that to float32 is correct (Boldo and
Melquiond, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .exact_pairs import two_product, two_sum

Array = np.ndarray[Any, Any]


def odd(s: Array, e: Array) -> Array:
    """s + e rounded to odd, where s is a sum rounded to nearest and e its rounding error."""
    bits = s.view(np.int64)
    needs_odd = ((bits & 1) == 0) & (e != 0.0) & np.isfinite(s)
    if not needs_odd.any():
        return s
    step = np.where((e > 0.0) == (s > 0.0), 1, -1)
    rounded: Array = np.where(needs_odd, bits + step, bits).view(np.float64)
    return rounded


def fma(a: Array, b: Array, c: Array) -> Array:
    """a·b + c, rounded once, in the format of ``c`` (float32 or float64)."""
    if c.dtype == np.float32:
        return _sum32(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    product, low = two_product(a, b)
    high, small = two_sum(c, low)
    v, e = two_sum(product, high)
    s, t = two_sum(small, e)
    result: Array = v + odd(s, t)
    return result


def together(parts: list[Array], kind: Any) -> Array:
    """The exact sum of several float64 arrays, rounded once to ``kind``, as in a multi-term
    addition."""
    sums: list[Array] = []
    for part in parts:  # Shewchuk's expansions: non-overlapping parts whose sum is exact
        remainder, errors = part, []
        for partial in sums:
            remainder, low = two_sum(remainder, partial)
            errors.append(low)
        sums = [*errors, remainder]
    total = sums[0]
    # Renormalize from the small end, so that all but the last two parts vanish or are negligible.
    for _ in range(2):
        renewed: list[Array] = []
        total = sums[0]
        for part in sums[1:]:
            total, low = two_sum(part, total)
            renewed.append(low)
        sums = sorted_by_size([*renewed, total])
    low_part = sums[0]
    for part in sums[1:-1]:
        s, e = two_sum(part, low_part)
        low_part = odd(s, e)
    s, e = two_sum(sums[-1], low_part)
    return odd(s, e).astype(kind) if kind != np.float64 else s


def shortened(x: Array, bits: int, mode: str) -> Array:
    """float32 numbers rounded to ``bits`` bits: ``nearest even``, ``nearest away`` (ties away from
    zero) or ``toward zero``."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    scaled = np.ldexp(mantissa, bits)
    half_away = np.trunc(scaled + np.copysign(0.5, scaled))
    rounded = {
        "nearest even": np.rint(scaled),
        "nearest away": half_away,
        "toward zero": np.trunc(scaled),
    }[mode]
    result: Array = np.ldexp(rounded, exponent - bits).astype(x.dtype)
    return result


def aligned(parts: list[Array], guard: int) -> Array:
    """The sum of several float64 arrays as matrix units compute it in float32: each term is
    truncated ``guard`` bits below the last float32 bit of the largest, the truncated terms are
    added exactly, and the sum is truncated to float32.
    """
    stacked = np.stack(np.broadcast_arrays(*parts))
    largest = np.frexp(np.abs(stacked).max(axis=0))[1]
    # Exact, since these are integers far below 2^53.
    total = np.trunc(np.ldexp(stacked, 24 + guard - largest)).sum(axis=0)
    mantissa, exponent = np.frexp(total)
    result: Array = np.ldexp(
        np.trunc(np.ldexp(mantissa, 24)), exponent - 24 + largest - 24 - guard
    ).astype(np.float32)
    return result


def sorted_by_size(parts: list[Array]) -> list[Array]:
    """The parts sorted elementwise by magnitude, smallest first."""
    stacked = np.stack(np.broadcast_arrays(*parts))
    order = np.argsort(np.abs(stacked), axis=0, kind="stable")
    return list(np.take_along_axis(stacked, order, axis=0))


def _sum32(product: Array, addend: Array) -> Array:
    s, e = two_sum(product, addend)
    return odd(s, e).astype(np.float32)
