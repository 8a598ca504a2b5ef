"""Double-double arithmetic on NumPy arrays: a number is the unevaluated sum of two float64, some 106 bits.

Every operation is a fixed sequence of float64 operations on whole arrays, so that sums and products of thousands of numbers take
milliseconds. Error bounds are relative, with u = 2⁻⁵³, as proved in Joldes, Muller & Popescu, *Tight and rigorous error bounds for
basic building blocks of double-word arithmetic* (ACM TOMS 44, 2017): sum 3u², product 5u², quotient 15u². They hold as long as
nothing overflows and no product's tail is subnormal: numbers between 2⁻⁴⁰⁰ and 2⁴⁰⁰ (see :func:`within_range`). NaN and infinities
go where float64 takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_SPLIT = 134217729.0  # 2²⁷ + 1 cuts a significand of 53 bits in two halves (Veltkamp)
_SMALLEST, _LARGEST = 2.0**-400, 2.0**400


def two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a + b as its rounded value and the exact rest (Knuth; Møller). Exact unless it overflows."""
    s = a + b
    virtual = s - a
    return s, (a - (s - virtual)) + (b - virtual)


def quick_two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """The same for |a| ≥ |b| (Dekker)."""
    s = a + b
    return s, b - (s - a)


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a · b as its rounded value and the exact rest (Dekker, with Veltkamp's split in place of a fused multiply-add)."""
    p = a * b
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def within_range(*arrays: Doubles) -> bool:
    """Whether all finite numbers that are not 0 lie where the error bounds hold, also after a few products."""
    for array in arrays:
        size = np.abs(array[np.isfinite(array) & (array != 0.0)])
        if size.size and not (size.min() >= _SMALLEST and size.max() <= _LARGEST):
            return False
    return True


class DoubleDouble:
    """An array of double-doubles, ``high`` + ``low``, both float64 of one shape; ``high`` is the sum rounded to nearest."""

    __slots__ = ("high", "low")
    __array_ufunc__ = None  # NumPy leaves `array + DoubleDouble` to us

    def __init__(self, high: npt.ArrayLike, low: npt.ArrayLike | None = None) -> None:
        self.high: Doubles = np.asarray(high, dtype=np.float64)
        self.low: Doubles = np.zeros_like(self.high) if low is None else np.asarray(low, dtype=np.float64)

    @classmethod
    def _made(cls, high: Doubles, low: Doubles) -> DoubleDouble:
        """Where the value is not finite there is no rest."""
        return cls(high, np.where(np.isfinite(high), low, 0.0))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.high.shape

    @property
    def ndim(self) -> int:
        return self.high.ndim

    def __getitem__(self, index: Any) -> DoubleDouble:
        return DoubleDouble(self.high[index], self.low[index])

    def _moved(self, move: Any) -> DoubleDouble:
        return DoubleDouble(move(self.high), move(self.low))

    def reshape(self, *shape: int) -> DoubleDouble:
        return self._moved(lambda x: x.reshape(shape))

    def moveaxis(self, source: int, target: int) -> DoubleDouble:
        return self._moved(lambda x: np.moveaxis(x, source, target))

    # --- arithmetic ------------------------------------------------------------------------------------------------

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.high, -self.low)

    def __abs__(self) -> DoubleDouble:
        sign = np.where(self.high < 0.0, -1.0, 1.0)
        return DoubleDouble(np.abs(self.high), self.low * sign)

    def __add__(self, other: Any) -> DoubleDouble:
        """Error 3u² (AccurateDWPlusDW)."""
        other = as_dd(other)
        s, s2 = two_sum(self.high, other.high)
        t, t2 = two_sum(self.low, other.low)
        v, v2 = quick_two_sum(s, s2 + t)
        high, low = quick_two_sum(v, t2 + v2)
        finite = np.isfinite(s)
        return DoubleDouble(np.where(finite, high, s), np.where(finite, low, 0.0))

    __radd__ = __add__

    def __sub__(self, other: Any) -> DoubleDouble:
        return self + -as_dd(other)

    def __rsub__(self, other: Any) -> DoubleDouble:
        return as_dd(other) + -self

    def __mul__(self, other: Any) -> DoubleDouble:
        """Error 5u² (DWTimesDW2)."""
        other = as_dd(other)
        p, p2 = two_product(self.high, other.high)
        rest = p2 + (self.high * other.low + self.low * other.high)
        high, low = quick_two_sum(p, rest)
        finite = np.isfinite(p)
        return DoubleDouble(np.where(finite, high, p), np.where(finite, low, 0.0))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> DoubleDouble:
        """Error 15u² (DWDivDW2)."""
        other = as_dd(other)
        q = self.high / other.high
        rest = self - DoubleDouble(*two_product(q, other.high)) - DoubleDouble(*two_product(q, other.low))
        high, low = quick_two_sum(q, rest.high / other.high)
        finite = np.isfinite(q) & np.isfinite(other.high)
        return DoubleDouble(np.where(finite, high, q), np.where(finite, low, 0.0))

    def __rtruediv__(self, other: Any) -> DoubleDouble:
        return as_dd(other) / self

    def sqrt(self) -> DoubleDouble:
        """One Newton step from float64's root (Karp & Markstein 1997); error below 4u². √0 is 0, negative numbers give NaN."""
        root = np.sqrt(self.high)
        square = DoubleDouble(*two_product(root, root))
        step = (self - square).high / (2.0 * np.where(root > 0.0, root, 1.0))
        high, low = quick_two_sum(root, step)
        usable = np.isfinite(root) & (root > 0.0)
        return DoubleDouble(np.where(usable, high, root), np.where(usable, low, 0.0))

    # --- reductions ------------------------------------------------------------------------------------------------

    def sum(self, dims: int | Sequence[int] | None = None, keepdims: bool = False) -> DoubleDouble:
        """Pairwise; error ≤ 3u²·⌈log₂ n⌉·Σ|x|."""
        axes = tuple(range(self.ndim)) if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
        axes = tuple(axis % max(self.ndim, 1) for axis in axes)
        kept = [axis for axis in range(self.ndim) if axis not in axes]
        shape = [self.shape[axis] for axis in kept]
        order = [*(axis for axis in axes if axis < self.ndim), *kept]
        length = int(np.prod([self.shape[axis] for axis in order[: self.ndim - len(kept)]], dtype=np.int64))
        rows = self._moved(lambda x: np.ascontiguousarray(x.transpose(order)).reshape(length, *shape))
        total = rows._halved()
        if keepdims:
            return total.reshape(*[1 if axis in axes else size for axis, size in enumerate(self.shape)])
        return total

    def _halved(self) -> DoubleDouble:
        rows = self
        if rows.shape[0] == 0:
            return DoubleDouble(np.zeros(rows.shape[1:]))
        while rows.shape[0] > 1:
            half = rows.shape[0] // 2
            added = rows[:half] + rows[half : 2 * half]
            odd = rows[2 * half :]
            rows = DoubleDouble(np.concatenate([added.high, odd.high]), np.concatenate([added.low, odd.low]))
        return rows[0]

    def cumsum(self, axis: int) -> DoubleDouble:
        """Running sums in log₂ n steps over the whole array (Hillis & Steele 1986); error ≤ 3u²·⌈log₂ n⌉·Σ|x|."""
        lines, step = self.moveaxis(axis, 0), 1
        while step < lines.shape[0]:
            shifted = lines[step:] + lines[:-step]
            lines = DoubleDouble(np.concatenate([lines.high[:step], shifted.high]), np.concatenate([lines.low[:step], shifted.low]))
            step *= 2
        return lines.moveaxis(0, axis)


def as_dd(value: Any) -> DoubleDouble:
    """Numbers and arrays as double-doubles. Whole numbers beyond 2⁵³ keep up to 106 bits."""
    if isinstance(value, DoubleDouble):
        return value
    if isinstance(value, int) and abs(value) > 2**53:
        return DoubleDouble(float(value), float(value - int(float(value))))
    array = np.asarray(value)
    if array.dtype == np.int64:
        high = array.astype(np.float64)
        if (np.abs(high) >= 2.0**53).any():
            return DoubleDouble(high, (array - np.where(np.abs(high) < 2.0**63, high, 0.0).astype(np.int64)).astype(np.float64))
        return DoubleDouble(high)
    return DoubleDouble(array)


_BLOCK = 1 << 18  # products made at once: 2 MiB for each of a dozen temporary arrays


def matmul(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """(…, m, k) times (…, k, n), batches broadcasting; error ≤ (5 + 3·⌈log₂ k⌉)·u²·|a|·|b|."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    left = a._moved(lambda x: np.broadcast_to(x, (*lead, m, k)).reshape(-1, m, k))
    right = b._moved(lambda x: np.broadcast_to(x, (*lead, k, n)).reshape(-1, k, n))
    high, low = np.zeros((left.shape[0], m, n)), np.zeros((left.shape[0], m, n))
    rows = max(_BLOCK // max(k * n, 1), 1)
    for batch in range(left.shape[0] if k else 0):
        for start in range(0, m, rows):
            part = left[batch, start : start + rows, :, None] * right[batch][None]
            total = part.sum(1)
            high[batch, start : start + rows], low[batch, start : start + rows] = total.high, total.low
    return DoubleDouble(high.reshape(*lead, m, n), low.reshape(*lead, m, n))


def where(condition: npt.NDArray[np.bool_], a: Any, b: Any) -> DoubleDouble:
    a, b = as_dd(a), as_dd(b)
    return DoubleDouble(np.where(condition, a.high, b.high), np.where(condition, a.low, b.low))


def concatenate(parts: Sequence[DoubleDouble], axis: int) -> DoubleDouble:
    return DoubleDouble(np.concatenate([p.high for p in parts], axis), np.concatenate([p.low for p in parts], axis))
