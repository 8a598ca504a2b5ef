"""Measurement of one output against its reference: errors in ulp and in G·u·S, reduced to a few
numbers to which any rule can be applied.

Works in blocks of 8 K elements with reused buffers, so that large tensors are limited by memory
bandwidth and small ones need about twenty NumPy calls. Uses no tolerance: see
:mod:`consistency.judge.judge`.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.dtypes import EXPONENT, Format, binade

Doubles = npt.NDArray[np.float64]

BLOCK = 1 << 13  # OpenBLAS uses several threads for dot products from 10,000 elements on
KEPT = 1 << 17  # elements whose errors stay in a buffer (1 MiB) between the two parts
_FLOOR = 1e-300  # replaces an S of 0, so that no quotient is 0/0
_SQUARE_ROOT_OF_FLOOR = 1e-150
_SMALL = 4.0  # × the smallest normal number
SIGNS_FROM = 256  # elements needed for sign statistics
UNUSUAL_PEAK = 36.0  # σ²: the largest of many healthy errors stays below 6 σ


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.a = np.empty(BLOCK)
        self.b = np.empty(BLOCK)
        self.c = np.empty(BLOCK)
        self.d = np.empty(BLOCK)
        self.flags, self.other_flags = np.empty((2, BLOCK), dtype=np.bool_)
        self._errors = self.a

    def errors(self, n: int) -> Doubles:
        """Room for the errors of ``n`` elements."""
        if n > self._errors.size:
            self._errors = np.empty(KEPT)
        return self._errors[:n]


_SCRATCH = _Scratch()


@dataclass(slots=True)
class Sums:
    """Running totals over blocks. ``bad`` is set at the first NaN or infinity, which need the
    slower path.

    ``small`` tells whether a number of the reference is below four times the smallest normal one
    and not 0. ``error`` is |actual − reference| of all elements, unless they are too many: valid
    until the next measurement.
    """

    ulp_max: float = 0.0
    scaled_max: float = 0.0
    abs_max: float = 0.0
    squares: float = 0.0
    sigma_squares: float = 0.0
    sigma_max: float = 0.0
    differing: int = 0
    nonzero: int = 0
    positive: int = 0
    negative: int = 0
    outward: int = 0
    small: bool = False
    bad: bool = False
    error: Doubles | None = field(default=None, compare=False, repr=False)


class ReferenceBinades:
    """Properties of a reference that every comparison needs: the number of nonzero elements, which
    are positive, and binades.

    Only for references of at most :data:`KEPT` elements; for larger ones reading costs as much as
    computing.
    """

    def __init__(self, reference: Doubles) -> None:
        self.nonzero = int(np.count_nonzero(reference))
        self._reference = reference
        self._binades: dict[int, tuple[Doubles, bool]] = {}
        self._positive: npt.NDArray[np.bool_] | None = None

    @property
    def positive(self) -> npt.NDArray[np.bool_]:
        if self._positive is None:
            self._positive = self._reference > 0.0
        return self._positive

    def binade(self, form: Format) -> tuple[Doubles, bool]:
        """The binades, and whether a number is small (:class:`Sums`)."""
        known = self._binades.get(form.precision)
        if known is None:
            binades = binade(self._reference, form, np.empty_like(self._reference))
            normal = int(np.count_nonzero(binades >= _SMALL * form.smallest_normal))
            self._binades[form.precision] = known = binades, normal < self.nonzero
        return known


def absolute_and_ulp(
    actual: npt.NDArray[Any],
    reference: Doubles,
    tail: Doubles | None,
    form: Format,
    known: ReferenceBinades | None = None,
) -> Sums:
    """First part: max e, max e/ulp and the sums that need no S. ``actual`` has any floating
    dtype, both are flat."""
    sums, n = Sums(), reference.size
    if 0 < n <= KEPT:
        sums.error = _SCRATCH.errors(n)
    if 0 < n <= BLOCK:
        _accumulate(actual, reference, tail, form, sums, n, known)
    else:
        for start in range(0, n, BLOCK):
            block = slice(start, start + BLOCK)
            _accumulate(
                actual[block],
                reference[block],
                None if tail is None else tail[block],
                form,
                sums,
                n,
                known,
                start,
            )
            if sums.bad:
                break
    if known is not None and not sums.bad:
        sums.nonzero, sums.small = known.nonzero, n > 0 and known.binade(form)[1]
    return sums


def _accumulate(
    actual: npt.NDArray[Any],
    r: Doubles,
    tail: Doubles | None,
    form: Format,
    sums: Sums,
    n: int,
    known: ReferenceBinades | None = None,
    start: int = 0,
) -> None:
    """One block of the first part, which begins at element ``start``; leaves |actual − reference|
    in ``sums.error`` or the first scratch buffer."""
    size = r.size
    t = _SCRATCH.b[:size]
    e = _SCRATCH.a[:size] if sums.error is None else sums.error[start : start + size]
    np.subtract(actual, r, out=e)
    if tail is not None:
        np.subtract(e, tail, out=e)
    if known is None:
        before = sums.nonzero
        binades = _binade_and_nonzero(r, form, t, sums)
        all_nonzero = sums.nonzero - before == size
    else:
        binades, all_nonzero = known.binade(form)[0], known.nonzero == n
        binades = binades if n == size else binades[start : start + size]
    flags = _SCRATCH.flags[:size]
    if n >= SIGNS_FROM:
        positive = int(np.count_nonzero(np.greater(e, 0.0, out=flags)))
        other = _SCRATCH.other_flags[:size]
        differing = positive + int(np.count_nonzero(np.less(e, 0.0, out=other)))
        if differing == size and all_nonzero:  # away from zero: of the sign of r
            if known is None:
                r_positive = np.greater(r, 0.0, out=other)
            else:
                r_positive = known.positive if n == size else known.positive[start : start + size]
            outward = size - int(np.count_nonzero(np.not_equal(flags, r_positive, out=flags)))
        else:
            products = np.multiply(e, r, out=_SCRATCH.c[:size])
            outward = int(np.count_nonzero(np.greater(products, 0.0, out=flags)))
        np.abs(e, out=e)
    else:
        np.abs(e, out=e)
        positive, outward, differing = 0, 0, int(np.count_nonzero(e))
    largest = _largest(e)
    if not largest < np.inf:
        sums.bad = True
        return
    if largest > 0.0:
        sums.abs_max = max(sums.abs_max, largest)
        sums.differing += differing
        if n >= SIGNS_FROM:
            sums.outward += outward
            sums.positive += positive
            sums.negative += differing - positive
        sums.squares += float(e.dot(e))
        # e/ulp; the constant factor, a power of two, is applied to the maximum.
        np.divide(e, binades, out=t)
        sums.ulp_max = max(sums.ulp_max, _largest(t) * 2.0 ** (form.precision - 1))


def _binade_and_nonzero(r: Doubles, form: Format, out: Doubles, sums: Sums) -> Doubles:
    """The binades of a block; counts its numbers that are not 0. If none is small, one comparison
    shows both that none is 0 and that no binade is below the smallest normal number."""
    np.bitwise_and(r.view(np.uint64), EXPONENT, out=out.view(np.uint64))
    flags = _SCRATCH.flags[: r.size]
    normal = int(np.count_nonzero(np.greater_equal(out, _SMALL * form.smallest_normal, out=flags)))
    if normal == r.size:
        sums.nonzero += normal
        return out
    nonzero = _nonzero(r, flags)
    sums.nonzero += nonzero
    sums.small |= normal < nonzero
    return np.maximum(out, form.smallest_normal, out=out)


def _nonzero(numbers: Doubles, flags: npt.NDArray[np.bool_]) -> int:
    """The number of nonzero elements. Of many, counting the flags of a comparison takes half the
    time of counting numbers."""
    if numbers.size < SIGNS_FROM:
        return int(np.count_nonzero(numbers))
    return int(np.count_nonzero(np.not_equal(numbers, 0.0, out=flags)))


def _largest(array: Doubles) -> float:
    """The largest element, or NaN if there is one; for small arrays three times as fast as
    ``max``."""
    return float(array.item(array.argmax()))


def scaled(
    actual: npt.NDArray[Any],
    reference: Doubles,
    tail: Doubles | None,
    magnitude: Doubles | float,
    model: tuple[float, float, float] | float,
    sums: Sums,
    sizes: Doubles | None = None,
    squares: Doubles | None = None,
) -> None:
    """Second part, for errors above correct rounding: max e/(unit·S) with unit = G(n)·u.

    ``model`` is the unit, or ``(unit, p, q)`` for errors in units of the σ of a healthy
    computation: σ² = p·ref² + q·S² per element (see
    :mod:`consistency.reference.rounding_variance`). As σ ≥ √q·S, the first quotient bounds them: if
    there are few elements and none is unusual by that bound, the σ statistics stay 0. ``sizes``
    replaces ref in σ, if given. ``squares`` takes e² of every element in q·σ², unless σ
    statistics stay 0.
    """
    unit, p, q = model if isinstance(model, tuple) else (model, 0.0, 0.0)
    n = reference.size
    if q == 0.0 and not isinstance(magnitude, np.ndarray):
        sums.scaled_max = sums.abs_max / max(magnitude * unit, _FLOOR)
        return
    for start in range(0, n, BLOCK):
        single_block = n <= BLOCK  # no slicing needed, and e may already be computed
        block = slice(start, start + BLOCK)
        r = reference if single_block else reference[block]
        t = _SCRATCH.b[: r.size]
        e = _SCRATCH.a[: r.size] if sums.error is None else sums.error[block]
        if sums.error is None:
            np.subtract(actual if single_block else actual[block], r, out=e)
            if tail is not None:
                np.subtract(e, tail if single_block else tail[block], out=e)
            np.abs(e, out=e)
        s = magnitude if single_block or not isinstance(magnitude, np.ndarray) else magnitude[block]
        np.divide(e, s, out=t)
        largest = _largest(t)
        if not largest < np.inf:  # an S of 0 or NaN, which counts as 0
            s = np.fmax(s, _FLOOR)
            largest = _largest(np.divide(e, s, out=t))
        sums.scaled_max = max(sums.scaled_max, largest / unit)
        if q and (
            n >= SIGNS_FROM
            or largest * largest > UNUSUAL_PEAK * q
            or float(t.dot(t)) > _unusual_squares(n) * q
        ):
            _add_sigma_statistics(
                e,
                r if sizes is None else sizes[block],
                s,
                p / q,
                q,
                sums,
                t if squares is None else squares[block],
            )


def _unusual_squares(elements: int) -> float:
    """The smallest suspicious sum of squares, in σ²: an RMS of twice σ, with the scatter of its
    estimate."""
    return elements * (2.0 * scatter(elements)) ** 2


def scatter(members: int) -> float:
    """The factor by which the RMS of that many healthy errors may exceed its expectation."""
    return 1.0 + 3.0 / math.sqrt(members)


def _add_sigma_statistics(
    e: Doubles,
    r: Doubles,
    s: Doubles | float,
    ratio: float,
    q: float,
    sums: Sums,
    squares: Doubles,
) -> None:
    """Add e² / (q·(S² + ratio·ref²)) to the sum and the maximum; keep it in ``squares``, times
    q."""
    v, w = _SCRATCH.c[: r.size], _SCRATCH.d[: r.size]
    np.multiply(r, r, out=v)
    np.multiply(v, ratio, out=v)
    np.add(v, np.multiply(s, s, out=w) if isinstance(s, np.ndarray) else s * s, out=v)
    np.multiply(e, e, out=w)
    np.divide(w, v, out=squares)
    largest = _largest(squares)
    if not largest < np.inf:
        np.maximum(np.sqrt(v, out=v), _SQUARE_ROOT_OF_FLOOR, out=v)  # below it S² is 0
        np.divide(e, v, out=squares)
        largest = _largest(np.multiply(squares, squares, out=squares))
    sums.sigma_squares += float(squares.sum()) / q
    sums.sigma_max = max(sums.sigma_max, largest / q)


def errors(actual: npt.NDArray[Any], reference: Doubles, tail: Doubles | None) -> Doubles:
    """|actual − reference| as a new array."""
    e = actual.astype(np.float64) - reference
    if tail is not None:
        e -= tail
    return np.abs(e)
