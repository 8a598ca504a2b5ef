"""Resampling on regular grids: each output element is a weighted sum of neighbors, one axis after
the other.

Scales and positions are rational numbers: a scale is input size ÷ output size, or 1 ÷ scale factor
if that is given; with aligned corners it is the ratio of the distances of the outermost pixels'
centers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .. import balls
from ..balls import Unknowable
from ..elementwise import Function, mul, on_numbers
from ..movement import expand, gather, reshape
from ..nodes import Node
from ..orders import rows_along
from ..rationals import Fractions
from ..sums import sum_
from . import ENTRIES

Taps = list[tuple[int, Fraction]]  # input positions and their weights
Axis = Callable[
    [int, int, Fraction, bool], list[Taps]
]  # of (input size, output size, scale, align_corners)
Along = Callable[[Node, int, list[Taps]], Node]


def weighted(x: Node, dim: int, taps: list[Taps]) -> Node:
    """Along one dimension, element i is the sum of the input's elements in ``taps[i]`` times their
    weights."""
    matrix, restore = rows_along(x, dim)
    rows, width = matrix.shape
    count = max(map(len, taps))
    table = [[*of_one, *[(-1, Fraction(0))] * (count - len(of_one))] for of_one in taps]
    places = np.array([[place for place, _ in row] for row in table], dtype=np.int64).reshape(
        1, len(taps), count
    )
    labels = np.where(places >= 0, np.arange(rows)[:, None, None] * width + places, -1)
    weights = Fractions([weight for row in table for _, weight in row], (1, len(taps), count))
    return restore(
        sum_(mul(gather(matrix, labels, labels.shape), expand(weights, labels.shape)), 2)
    )


def smoothed(x: Node, dim: int, taps: list[Taps]) -> Node:
    """As :func:`weighted`, where it is a matter of rounding whether a weight is 0 and its pixel
    one of those that are multiplied: NaN and infinities there leave the result unknown."""
    result = weighted(x, dim, taps)
    if all(weight for row in taps for _, weight in row):
        return result
    return _either(result, weighted(x, dim, [[tap for tap in row if tap[1]] for row in taps]))


_either = Function(
    "either", on_numbers(balls.union), (lambda a, b, y: 1.0, lambda a, b, y: None)
)  # the gradient is the first one's


def nearest(size: int, wanted: int, scale: Fraction, aligned: bool) -> list[Taps]:
    """Where the size stays or doubles, torch does not look at the scale factor, of which it is
    the rounded product; others may. Raises Unknowable where that names another pixel."""
    places = [min(math.floor(i * scale), size - 1) for i in range(wanted)]
    if wanted in (size, 2 * size) and places != [i * size // wanted for i in range(wanted)]:
        raise Unknowable("the size stays or doubles, and the scale factor names other pixels")
    return [[(place, Fraction(1))] for place in places]


def nearest_exact(size: int, wanted: int, scale: Fraction, aligned: bool) -> list[Taps]:
    return [
        [(min(math.floor((i + Fraction(1, 2)) * scale), size - 1), Fraction(1))]
        for i in range(wanted)
    ]


def _place(i: int, scale: Fraction, aligned: bool) -> Fraction:
    return i * scale if aligned else scale * (i + Fraction(1, 2)) - Fraction(1, 2)


def linear(size: int, wanted: int, scale: Fraction, aligned: bool) -> list[Taps]:
    """Between two neighbors, where the size changes; the outermost pixels are extended."""
    if size == wanted and scale == 1:
        return [[(i, Fraction(1))] for i in range(wanted)]
    taps: list[Taps] = []
    for i in range(wanted):
        x = max(_place(i, scale, aligned), Fraction(0))
        low = min(math.floor(x), size - 1)
        t = min(x - low, Fraction(1))
        high = min(low + 1, size - 1)
        taps.append([(low, Fraction(1))] if low == high else [(low, 1 - t), (high, t)])
    return taps


def keys_filter(distance: Fraction, a: Fraction) -> Fraction:
    """R. Keys' cubic convolution kernel (IEEE Trans. ASSP 29, 1981): of a = −1/2 and, in torch's
    bicubic, −3/4."""
    x = abs(distance)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else Fraction(0)


def cubic(size: int, wanted: int, scale: Fraction, aligned: bool) -> list[Taps]:
    taps: list[Taps] = []
    for i in range(wanted):
        x = _place(i, scale, aligned)
        low = math.floor(x)
        near = range(low - 1, low + 3)
        taps.append([(min(max(j, 0), size - 1), keys_filter(x - j, Fraction(-3, 4))) for j in near])
    return taps


def triangle(distance: Fraction) -> Fraction:
    return max(1 - abs(distance), Fraction(0))


def catmull_rom(distance: Fraction) -> Fraction:
    return keys_filter(distance, Fraction(-1, 2))


def antialiased(kernel: Callable[[Fraction], Fraction], reach: int) -> Axis:
    """When downsampling, the kernel is stretched by the scale; weights are divided by their sum, as
    in PIL. Pixels on the very edge are listed with their weight, which is 0."""

    def axis(size: int, out_size: int, scale: Fraction, aligned: bool) -> list[Taps]:
        stretch = max(scale, Fraction(1))
        taps: list[Taps] = []
        for i in range(out_size):
            center = scale * (i + Fraction(1, 2)) - Fraction(1, 2)
            first = max(math.ceil(center - reach * stretch), 0)
            last = min(math.floor(center + reach * stretch), size - 1)
            weights = [kernel((j - center) / stretch) for j in range(first, last + 1)]
            total = sum(weights)
            taps.append([(first + j, w / total) for j, w in enumerate(weights)])
        return taps

    return axis


def _entry(rank: int, axis: Axis, along: Along = weighted) -> Callable[..., Any]:
    def call(
        result: Any, self: Any = None, input: Any = None, output_size: Any = None,
        align_corners: bool = False, scales: Any = None,
        scales_d: Any = None, scales_h: Any = None, scales_w: Any = None, scale_factors: Any = None,
    ) -> Any:  # fmt: skip
        x: Node = self if input is None else input
        factors: Sequence[Any] = (
            scale_factors
            or [scales_d, scales_h, scales_w if scales is None else scales][3 - rank :]
        )
        for d, factor in enumerate(factors, x.ndim - rank):
            size, out_size = x.shape[d], int(result.shape[d])
            scale = _scale(size, out_size, factor, align_corners)
            x = along(x, d, axis(size, out_size, scale, align_corners))
        return reshape(x, tuple(result.shape))

    return call


def _scale(size: int, out_size: int, factor: Any, aligned: bool) -> Fraction:
    if aligned:
        return Fraction(size - 1, out_size - 1) if out_size > 1 else Fraction(0)
    return 1 / Fraction(factor) if factor else Fraction(size, out_size)


for _rank, _smooth in enumerate(("linear", "bilinear", "trilinear"), 1):
    ENTRIES[f"upsample_nearest{_rank}d"] = _entry(_rank, nearest)
    ENTRIES[f"_upsample_nearest_exact{_rank}d"] = _entry(_rank, nearest_exact)
    ENTRIES[f"upsample_{_smooth}{_rank}d"] = _entry(_rank, linear)
ENTRIES["upsample_bicubic2d"] = _entry(2, cubic)
ENTRIES["_upsample_bilinear2d_aa"] = _entry(2, antialiased(triangle, 1), smoothed)
ENTRIES["_upsample_bicubic2d_aa"] = _entry(2, antialiased(catmull_rom, 2), smoothed)
