"""Error-free transformations of float64 arrays: the rounded sum or product and its exact error.

Exact unless a value overflows or a product's error is subnormal (Dekker 1971; Knuth, TAOCP 2,
4.2.2). NaN and infinities propagate as in float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_SPLIT = 134217729.0  # 2²⁷ + 1 cuts a significand of 53 bits in two halves (Veltkamp)


def two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a + b as its rounded value and the exact error (Knuth; Møller)."""
    s = a + b
    virtual = s - a
    return s, (a - (s - virtual)) + (b - virtual)


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a · b as its rounded value and the exact error (Dekker, with Veltkamp's split in place of a
    fused multiply-add)."""
    p = a * b
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2
