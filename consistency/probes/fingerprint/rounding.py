"""Correctly rounded sums and fused multiply-adds of arrays, in float32 and float64, by NumPy's
plain operations.

A float32 fused multiply-add is not the float64 one rounded to float32: that would round twice. The
sum in float64 is rounded *to odd* instead (an inexact result has its last bit set); rounding that
to float32 is right (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .exact_pairs import two_product, two_sum

Array = np.ndarray[Any, Any]


def odd(s: Array, e: Array) -> Array:
    """s + e rounded to odd, where s is their sum rounded to nearest and e what rounding took
    away."""
    bits = s.view(np.int64)
    even = ((bits & 1) == 0) & (e != 0.0) & np.isfinite(s)
    if not even.any():
        return s
    step = np.where((e > 0.0) == (s > 0.0), 1, -1)
    fixed: Array = np.where(even, bits + step, bits).view(np.float64)
    return fixed


def fma(a: Array, b: Array, c: Array) -> Array:
    """a·b + c, rounded once, in the format of ``c`` (float32 or float64)."""
    if c.dtype == np.float32:
        return _sum32(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    product, low = two_product(a, b)
    high, small = two_sum(c, low)
    v, e = two_sum(product, high)
    s, t = two_sum(small, e)
    found: Array = v + odd(s, t)
    return found


def together(parts: list[Array], kind: Any) -> Array:
    """The exact sum of several float64 arrays, rounded once to ``kind``: what a unit does that adds
    several terms at once."""
    sums: list[Array] = []
    for part in parts:  # Shewchuk's expansions: non-overlapping parts whose sum is exact
        rest, kept = part, []
        for other in sums:
            rest, low = two_sum(rest, other)
            kept.append(low)
        sums = [*kept, rest]
    total = sums[0]
    for _ in range(
        2
    ):  # renormalize from the small end, so that all but the last two parts vanish or lie far below
        renewed: list[Array] = []
        total = sums[0]
        for part in sums[1:]:
            total, low = two_sum(part, total)
            renewed.append(low)
        sums = sorted_by_size([*renewed, total])
    below = sums[0]
    for part in sums[1:-1]:
        s, e = two_sum(part, below)
        below = odd(s, e)
    s, e = two_sum(sums[-1], below)
    return odd(s, e).astype(kind) if kind != np.float64 else s


def shortened(x: Array, bits: int, mode: str) -> Array:
    """float32 numbers with ``bits`` bits: ``nearest even``, ``nearest away`` (from zero, of ties)
    or ``toward zero``."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    scaled = np.ldexp(mantissa, bits)
    away = np.trunc(scaled + np.copysign(0.5, scaled))
    whole = {
        "nearest even": np.rint(scaled),
        "nearest away": away,
        "toward zero": np.trunc(scaled),
    }[mode]
    found: Array = np.ldexp(whole, exponent - bits).astype(x.dtype)
    return found


def aligned(parts: list[Array], guard: int) -> Array:
    """The sum of several float64 arrays as matrix units make it, in float32: each is cut off
    ``guard`` bits below the last bit that the largest of them has in float32, what is left is added
    exactly, and the sum is cut to float32.
    """
    stacked = np.stack(np.broadcast_arrays(*parts))
    largest = np.frexp(np.abs(stacked).max(axis=0))[1]
    whole = np.trunc(np.ldexp(stacked, 24 + guard - largest)).sum(
        axis=0
    )  # whole numbers far below 2^53: exact
    mantissa, exponent = np.frexp(whole)
    found: Array = np.ldexp(
        np.trunc(np.ldexp(mantissa, 24)), exponent - 24 + largest - 24 - guard
    ).astype(np.float32)
    return found


def sorted_by_size(parts: list[Array]) -> list[Array]:
    """The parts element by element from the smallest to the largest in magnitude."""
    stacked = np.stack(np.broadcast_arrays(*parts))
    order = np.argsort(np.abs(stacked), axis=0, kind="stable")
    return list(np.take_along_axis(stacked, order, axis=0))


def _sum32(product: Array, addend: Array) -> Array:
    s, e = two_sum(product, addend)
    return odd(s, e).astype(np.float32)
