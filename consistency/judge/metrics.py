"""Measurement of one output against its reference: errors in ulp and in G·u·S, reduced to a few
numbers to which any rule can be applied.

Works in blocks of 8 K elements with reused buffers, so that large tensors are limited by memory
bandwidth and small ones need about twenty NumPy calls. Uses no tolerance: see
:mod:`consistency.judge.judge`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.dtypes import Format, binade

Doubles = npt.NDArray[np.float64]

BLOCK = 1 << 13  # OpenBLAS uses several threads for dot products from 10,000 elements on
_FLOOR = 1e-300  # replaces an S of 0, so that no quotient is 0/0
_SQUARE_ROOT_OF_FLOOR = 1e-150
_SMALLEST_GROUP = 16
SIGNS_FROM = 256  # elements needed for sign statistics
UNUSUAL_PEAK = 36.0  # σ²: the largest of many healthy errors stays below 6 σ


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.a = np.empty(BLOCK)
        self.b = np.empty(BLOCK)
        self.c = np.empty(BLOCK)


_SCRATCH = _Scratch()


@dataclass(slots=True)
class Sums:
    """Running totals over blocks. ``bad`` is set at the first NaN or infinity, which need the
    slower path.

    ``error`` is |actual − reference| if one block holds all of it: valid until the next
    measurement.
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
    bad: bool = False
    error: Doubles | None = field(default=None, compare=False, repr=False)


class ReferenceBinades:
    """Properties of a reference that every comparison needs: the number of nonzero elements, and
    binades.

    Only for references that fit into one block; for larger ones reading costs as much as computing.
    """

    def __init__(self, reference: Doubles) -> None:
        self.nonzero = int(np.count_nonzero(reference))
        self._reference = reference
        self._binades: dict[int, Doubles] = {}

    def binade(self, form: Format) -> Doubles:
        binades = self._binades.get(form.precision)
        if binades is None:
            binades = self._binades[form.precision] = binade(
                self._reference, form, np.empty_like(self._reference)
            )
        return binades


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
    if 0 < n <= BLOCK:
        _accumulate(actual, reference, tail, form, sums, n, known)
        sums.error = _SCRATCH.a[:n]
        return sums
    for start in range(0, n, BLOCK):
        block = slice(start, start + BLOCK)
        _accumulate(
            actual[block], reference[block], None if tail is None else tail[block], form, sums, n
        )
        if sums.bad:
            break
    return sums


def _accumulate(
    actual: npt.NDArray[Any],
    r: Doubles,
    tail: Doubles | None,
    form: Format,
    sums: Sums,
    n: int,
    known: ReferenceBinades | None = None,
) -> None:
    """One block of the first part; leaves |actual − reference| in the scratch buffer."""
    e, t = _SCRATCH.a[: r.size], _SCRATCH.b[: r.size]
    np.subtract(actual, r, out=e)
    if tail is not None:
        np.subtract(e, tail, out=e)
    if n >= SIGNS_FROM:
        sums.positive += int(np.count_nonzero(e > 0.0))
        sums.negative += int(np.count_nonzero(e < 0.0))
        np.multiply(e, r, out=t)
        sums.outward += int(np.count_nonzero(t > 0.0))
    np.abs(e, out=e)
    largest = _largest(e)
    if not largest < np.inf:
        sums.bad = True
        return
    sums.nonzero += int(np.count_nonzero(r)) if known is None else known.nonzero
    if largest > 0.0:
        sums.abs_max = max(sums.abs_max, largest)
        sums.differing += int(np.count_nonzero(e))
        sums.squares += float(e.dot(e))
        # e/ulp; the constant factor, a power of two, is applied to the maximum.
        np.divide(e, binade(r, form, t) if known is None else known.binade(form), out=t)
        sums.ulp_max = max(sums.ulp_max, _largest(t) * 2.0 ** (form.precision - 1))


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
) -> None:
    """Second part, for errors above correct rounding: max e/(unit·S) with unit = G(n)·u.

    ``model`` is the unit, or ``(unit, p, q)`` for errors in units of the σ of a healthy
    computation: σ² = p·ref² + q·S² per element (see
    :mod:`consistency.reference.rounding_variance`). As σ ≥ √q·S, the first quotient bounds them: if
    there are few elements and none is unusual by that bound, the σ statistics stay 0. ``sizes``
    replaces ref in σ, if given.
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
        e, t = _SCRATCH.a[: r.size], _SCRATCH.b[: r.size]
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
            _add_sigma_statistics(e, r if sizes is None else sizes[block], s, p / q, q, sums)


def _unusual_squares(elements: int) -> float:
    """The smallest suspicious sum of squares, in σ²: an RMS of twice σ, with the scatter of its
    estimate."""
    return elements * (2.0 * scatter(elements)) ** 2


def _add_sigma_statistics(
    e: Doubles, r: Doubles, s: Doubles | float, ratio: float, q: float, sums: Sums
) -> None:
    """Add e² / (q·(S² + ratio·ref²)) to the sum and the maximum."""
    t, v = _SCRATCH.b[: r.size], _SCRATCH.c[: r.size]
    np.multiply(r, ratio, out=t)
    np.multiply(t, r, out=t)
    np.multiply(s, s, out=v)
    np.add(v, t, out=v)
    np.sqrt(v, out=v)
    np.divide(e, v, out=t)
    largest = _largest(t)
    if not largest < np.inf:
        np.maximum(v, _SQUARE_ROOT_OF_FLOOR, out=v)  # below it S² is 0
        largest = _largest(np.divide(e, v, out=t))
    sums.sigma_squares += float(t.dot(t)) / q
    sums.sigma_max = max(sums.sigma_max, largest * largest / q)


def clustered(squares: Doubles, shape: tuple[int, ...]) -> tuple[float, int, str] | None:
    """The group of elements with the most unusual errors (``squares``, in σ²): RMS, members, and
    location.

    Groups are the slices of each dimension, tiles of 16 × 16 of the last two, and the remainders
    modulo 8 of the last. Groups of fewer than 16 elements scatter too much.
    """
    best: tuple[float, int, str] | None = None
    array = squares.reshape(shape)

    def consider(means: Doubles, members: int, where: Callable[[int], str]) -> None:
        nonlocal best
        if members < _SMALLEST_GROUP or not means.size:
            return
        worst = int(np.argmax(means))
        rms = math.sqrt(float(means.reshape(-1)[worst]))
        if best is None or rms / scatter(members) > best[0] / scatter(best[1]):
            best = (rms, members, where(worst))

    for dim, size in enumerate(shape):
        if size > 1:
            other_dims = tuple(d for d in range(len(shape)) if d != dim)
            consider(
                array.mean(other_dims),
                squares.size // size,
                lambda i, dim=dim: f"where index {dim} is {i}",  # type: ignore[misc]
            )
    remainder = shape[-1] % 8 if shape else 0
    if remainder and shape[-1] > 8:
        tail = array[..., -remainder:]
        consider(
            np.asarray([tail.mean()]),
            tail.size,
            lambda i: f"in the last {remainder} of each {shape[-1]}",
        )
    if len(shape) >= 2 and min(shape[-2:]) >= 32:
        rows, columns = shape[-2] // 16, shape[-1] // 16
        tiles = (
            array[..., : rows * 16, : columns * 16].reshape(-1, rows, 16, columns, 16).mean((2, 4))
        )
        consider(
            tiles,
            256,
            lambda i: f"in the tile from row {i // columns % rows * 16}, column {i % columns * 16}",
        )
    return best


def scatter(members: int) -> float:
    """The factor by which the RMS of that many healthy errors may exceed its expectation."""
    return 1.0 + 3.0 / math.sqrt(members)


def errors(actual: npt.NDArray[Any], reference: Doubles, tail: Doubles | None) -> Doubles:
    """|actual − reference| as a new array."""
    e = actual.astype(np.float64) - reference
    if tail is not None:
        e -= tail
    return np.abs(e)


def pareto_front(
    error: Doubles, ulp: Doubles, scale: Doubles | float | None
) -> tuple[tuple[tuple[float, float], ...], tuple[int, ...]]:
    """Points (ulp/e, G·u·S/e) of the lower-left convex hull over the elements with e > 0, and the
    element of each.

    max ρ over all elements is 1 / min(c·a + λ·b) over these points, for any c, λ ≥ 0. Without S, b
    is 0.
    """
    nonzero = np.flatnonzero(error > 0.0)
    if not nonzero.size:
        return (), ()
    with np.errstate(over="ignore", divide="ignore"):
        a = ulp[nonzero] / error[nonzero]
        b = (
            np.zeros_like(a)
            if scale is None
            else (scale[nonzero] if isinstance(scale, np.ndarray) else scale) / error[nonzero]
        )
    low_a, low_b = int(np.argmin(a)), int(np.argmin(b))
    # nothing outside this box can be a corner
    candidates = np.flatnonzero((a <= a[low_b]) & (b <= b[low_a]))
    sorted_candidates = candidates[np.lexsort((b[candidates], a[candidates]))]
    front = sorted_candidates[
        np.r_[True, b[sorted_candidates][1:] < np.minimum.accumulate(b[sorted_candidates])[:-1]]
    ]
    pareto_points: list[int] = []
    for i in front.tolist():
        while len(pareto_points) >= 2 and _is_not_convex(
            a, b, pareto_points[-2], pareto_points[-1], i
        ):
            pareto_points.pop()
        pareto_points.append(i)
    return tuple((float(a[i]), float(b[i])) for i in pareto_points), tuple(
        int(nonzero[i]) for i in pareto_points
    )


def _is_not_convex(a: Doubles, b: Doubles, i: int, j: int, k: int) -> bool:
    x, y = float(a[i]), float(b[i])  # Python's floats overflow without a warning
    return (float(a[j]) - x) * (float(b[k]) - y) - (float(b[j]) - y) * (float(a[k]) - x) <= 0.0


def rho(pareto_points: tuple[tuple[float, float], ...], c: float, lam: float) -> tuple[float, int]:
    """max ρ (× budget) for one rule, and the Pareto point that causes it. No points: (0, -1)."""
    if not pareto_points:
        return 0.0, -1
    budgets = [c * a + lam * b for a, b in pareto_points]
    min_index = min(range(len(budgets)), key=budgets.__getitem__)
    return (1.0 / budgets[min_index] if budgets[min_index] > 0.0 else float("inf")), min_index


def pattern_of(error: Doubles, shape: tuple[int, ...]) -> str:
    """Where the large errors lie if they lie together: a tail, a row, one position modulo a
    width. Empty if scattered."""
    large = (
        np.flatnonzero(error > 0.25 * error.max()) if error.size else np.empty(0, dtype=np.int64)
    )
    if error.size < 16 or not 2 <= large.size <= error.size // 2:
        return ""
    first, last = int(large[0]), int(large[-1])
    if last == error.size - 1 and large.size == last - first + 1:
        return f"only in the last {large.size} of {error.size} elements"
    if first == 0 and large.size == last + 1:
        return f"only in the first {large.size} of {error.size} elements"
    index = np.unravel_index(large, shape)
    for dim, size in enumerate(shape):
        indices = np.unique(index[dim])
        if size >= 8 and indices.size == 1 and large.size >= 4:
            return f"only where index {dim} is {int(indices[0])}"
        if size >= 16 and large.size >= 8:  # fewer lie at such places by chance
            for width in (32, 16, 8, 4):
                if np.unique(indices % width).size == 1 and indices.size >= 2:
                    return f"only where index {dim} is {int(indices[0] % width)} modulo {width}"
            if indices.min() >= size - size % 8 and size % 8:
                return f"only in the last {size % 8} of {size} along dimension {dim}"
    return ""
