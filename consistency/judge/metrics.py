"""Measuring one output against its reference: errors in ulp and in G·u·S, and the few numbers that
any rule can be applied to.

Works in blocks of 8 K elements with reused buffers, so that a large tensor stays bound by memory
bandwidth and a small one by some twenty NumPy calls. Knows no tolerance: see
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

BLOCK = (
    1 << 13
    # below the 10,000 elements from which OpenBLAS takes several threads for a dot product, and
    # waits for them
)
_FLOOR = 1e-300  # stands for an S of 0, so that no quotient is 0/0
_SQUARE_ROOT_OF_FLOOR = 1e-150
_SMALLEST_GROUP = 16
SIGNS_FROM = 256  # sign statistics mean nothing for fewer elements
UNUSUAL_PEAK = 36.0  # σ²: the largest of many healthy errors stays below 6 σ


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.a = np.empty(BLOCK)
        self.b = np.empty(BLOCK)
        self.c = np.empty(BLOCK)


_SCRATCH = _Scratch()


@dataclass(slots=True)
class Sums:
    """Running totals over blocks. ``bad`` turns True at the first NaN or infinity, and the careful
    path takes over.

    ``error`` is |actual − reference| where one block held all of it: valid until the next look at
    anything.
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
    """What every comparison with the same reference asks of it, found out once: how many numbers
    are not 0, and their binades.

    Of references that fit into one block; a larger one would take as long to read again as to
    compute.
    """

    def __init__(self, reference: Doubles) -> None:
        self.nonzero = int(np.count_nonzero(reference))
        self._reference = reference
        self._binades: dict[int, Doubles] = {}

    def binade(self, form: Format) -> Doubles:
        found = self._binades.get(form.precision)
        if found is None:
            found = self._binades[form.precision] = binade(
                self._reference, form, np.empty_like(self._reference)
            )
        return found


def absolute_and_ulp(
    actual: npt.NDArray[Any],
    reference: Doubles,
    tail: Doubles | None,
    form: Format,
    known: ReferenceBinades | None = None,
) -> Sums:
    """First look: max e, max e/ulp and the sums that need no S. ``actual`` is any floating dtype,
    both are flat."""
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
    """One block of the first look; leaves |actual − reference| in the scratch."""
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
        # e/ulp without a pass for the constant factor: a power of two changes no digit.
        np.divide(e, binade(r, form, t) if known is None else known.binade(form), out=t)
        sums.ulp_max = max(sums.ulp_max, _largest(t) * 2.0 ** (form.precision - 1))


def _largest(array: Doubles) -> float:
    """The largest element, NaN if there is one: for a few numbers in a third of the time of
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

    ``model`` is the unit, or ``(unit, p, q)`` where errors in units of a healthy computation's σ
    are wanted, too: σ² = p·ref² + q·S² per element (see
    :mod:`consistency.reference.rounding_variance`). As σ ≥ √q·S, the first quotient bounds them:
    where few elements are unremarkable by that bound, they stay 0. ``sizes`` stand for ref in σ, if
    given.
    """
    unit, p, q = model if isinstance(model, tuple) else (model, 0.0, 0.0)
    n = reference.size
    if q == 0.0 and not isinstance(magnitude, np.ndarray):
        sums.scaled_max = sums.abs_max / max(magnitude * unit, _FLOOR)
        return
    for start in range(0, n, BLOCK):
        one = n <= BLOCK  # then nothing needs to be cut, and e may be there already
        block = slice(start, start + BLOCK)
        r = reference if one else reference[block]
        e, t = _SCRATCH.a[: r.size], _SCRATCH.b[: r.size]
        if sums.error is None:
            np.subtract(actual if one else actual[block], r, out=e)
            if tail is not None:
                np.subtract(e, tail if one else tail[block], out=e)
            np.abs(e, out=e)
        s = magnitude if one or not isinstance(magnitude, np.ndarray) else magnitude[block]
        np.divide(e, s, out=t)
        largest = _largest(t)
        if not largest < np.inf:  # an S of 0 somewhere, or of NaN, which counts as 0
            s = np.fmax(s, _FLOOR)
            largest = _largest(np.divide(e, s, out=t))
        sums.scaled_max = max(sums.scaled_max, largest / unit)
        if q and (
            n >= SIGNS_FROM
            or largest * largest > UNUSUAL_PEAK * q
            or float(t.dot(t)) > _unusual_squares(n) * q
        ):
            _in_sigmas(e, r if sizes is None else sizes[block], s, p / q, q, sums)


def _unusual_squares(elements: int) -> float:
    """The least sum of squares, in σ², that an RMS may have which rules object to: twice σ, with
    what chance adds."""
    return elements * (2.0 * scatter(elements)) ** 2


def _in_sigmas(
    e: Doubles, r: Doubles, s: Doubles | float, ratio: float, q: float, sums: Sums
) -> None:
    """e² / (q·(S² + ratio·ref²)), summed up and its largest."""
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
    """The group of elements whose errors (``squares``, in σ²) stand out most: RMS, members, and
    where they are.

    Groups are the slices of each dimension, tiles of 16 × 16 of the last two, and the last of each
    vector that fill no 8. Groups of fewer than 16 elements scatter too much to tell anything.
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
            others = tuple(d for d in range(len(shape)) if d != dim)
            consider(
                array.mean(others),
                squares.size // size,
                lambda i, dim=dim: f"where index {dim} is {i}",  # type: ignore[misc]
            )
    left = shape[-1] % 8 if shape else 0
    if left and shape[-1] > 8:
        tail = array[..., -left:]
        consider(
            np.asarray([tail.mean()]),
            tail.size,
            lambda i: f"in the last {left} of each {shape[-1]}",
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
    """By how much the RMS of so many healthy errors may lie above its expectation."""
    return 1.0 + 3.0 / math.sqrt(members)


def errors(actual: npt.NDArray[Any], reference: Doubles, tail: Doubles | None) -> Doubles:
    """|actual − reference| as a fresh array."""
    e = actual.astype(np.float64) - reference
    if tail is not None:
        e -= tail
    return np.abs(e)


def pareto_front(
    error: Doubles, ulp: Doubles, scale: Doubles | float | None
) -> tuple[tuple[tuple[float, float], ...], tuple[int, ...]]:
    """Corners (ulp/e, G·u·S/e) of the lower-left convex hull over the elements with e > 0, and the
    element behind each.

    max ρ over all elements is 1 / min(c·a + λ·b) over these corners, for any c, λ ≥ 0. Without S, b
    is 0.
    """
    where = np.flatnonzero(error > 0.0)
    if not where.size:
        return (), ()
    with np.errstate(over="ignore", divide="ignore"):
        a = ulp[where] / error[where]
        b = (
            np.zeros_like(a)
            if scale is None
            else (scale[where] if isinstance(scale, np.ndarray) else scale) / error[where]
        )
    low_a, low_b = int(np.argmin(a)), int(np.argmin(b))
    inside = np.flatnonzero(
        (a <= a[low_b]) & (b <= b[low_a])
    )  # nothing outside this box can be a corner
    order = inside[np.lexsort((b[inside], a[inside]))]
    front = order[np.r_[True, b[order][1:] < np.minimum.accumulate(b[order])[:-1]]]
    pareto_points: list[int] = []
    for i in front.tolist():
        while len(pareto_points) >= 2 and _not_convex(
            a, b, pareto_points[-2], pareto_points[-1], i
        ):
            pareto_points.pop()
        pareto_points.append(i)
    return tuple((float(a[i]), float(b[i])) for i in pareto_points), tuple(
        int(where[i]) for i in pareto_points
    )


def _not_convex(a: Doubles, b: Doubles, i: int, j: int, k: int) -> bool:
    x, y = float(a[i]), float(b[i])  # Python's floats overflow without a warning
    return (float(a[j]) - x) * (float(b[k]) - y) - (float(b[j]) - y) * (float(a[k]) - x) <= 0.0


def rho(pareto_points: tuple[tuple[float, float], ...], c: float, lam: float) -> tuple[float, int]:
    """max ρ (× budget) for one rule, and which corner causes it. No corners: (0, -1)."""
    if not pareto_points:
        return 0.0, -1
    budgets = [c * a + lam * b for a, b in pareto_points]
    least = min(range(len(budgets)), key=budgets.__getitem__)
    return (1.0 / budgets[least] if budgets[least] > 0.0 else float("inf")), least


def pattern_of(error: Doubles, shape: tuple[int, ...]) -> str:
    """Where the large errors lie, if they lie together: a tail, a row, one position in every
    vector. Empty if scattered."""
    where = (
        np.flatnonzero(error > 0.25 * error.max()) if error.size else np.empty(0, dtype=np.int64)
    )
    if error.size < 16 or not 2 <= where.size <= error.size // 2:
        return ""
    first, last = int(where[0]), int(where[-1])
    if last == error.size - 1 and where.size == last - first + 1:
        return f"only in the last {where.size} of {error.size} elements"
    if first == 0 and where.size == last + 1:
        return f"only in the first {where.size} of {error.size} elements"
    index = np.unravel_index(where, shape)
    for dim, size in enumerate(shape):
        hit = np.unique(index[dim])
        if size >= 8 and hit.size == 1 and where.size >= 4:
            return f"only where index {dim} is {int(hit[0])}"
        if size >= 16 and where.size >= 8:  # fewer lie at such places by chance
            for width in (32, 16, 8, 4):
                if np.unique(hit % width).size == 1 and hit.size >= 2:
                    return f"only where index {dim} is {int(hit[0] % width)} modulo {width}"
            if hit.min() >= size - size % 8 and size % 8:
                return f"only in the last {size % 8} of {size} along dimension {dim}"
    return ""
