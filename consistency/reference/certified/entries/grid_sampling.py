"""Sampling at computed positions: affine_grid and grid_sample, as torch.nn.functional documents
them."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction
from typing import Any

import numpy as np

from ..balls import Element
from ..computed_positions import Lookup
from ..elementwise import Function, add, and_, div, less, mul, on_numbers, sub, where
from ..functions import floor, nearest_even
from ..movement import Labels, expand, labeled, reshape
from ..nodes import Constant, Node
from ..rationals import Fractions
from ..rounding import whole
from . import entry

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


def _base(size: int, aligned: bool) -> Node:
    """Pixel centers between −1 and 1; with aligned corners the outermost ones lie on the bounds."""
    if aligned:
        values = [Fraction(2 * i, size - 1) - 1 if size > 1 else Fraction(0) for i in range(size)]
    else:
        values = [Fraction(2 * i + 1, size) - 1 for i in range(size)]
    return Fractions(values, (size,))


@entry("affine_grid_generator")
def affine_grid(theta: Any, size: Any, align_corners: bool) -> Any:
    """theta·(x, y, …, 1) for each pixel's center."""
    spatial = list(size[2:])
    axes = [_base(n, align_corners) for n in reversed(spatial)]  # x is the last dimension
    shape = tuple(spatial)
    coordinates = [
        expand(reshape(axis, (*(1,) * (len(shape) - 1 - i), axis.size, *(1,) * i)), shape)
        for i, axis in enumerate(axes)
    ]
    ones: Node = Constant(np.ones(shape))
    result: Node | None = None
    for k, base in enumerate([*coordinates, ones]):
        column = reshape(_last(theta, k), (theta.shape[0], *(1,) * len(shape), theta.shape[1]))
        part = mul(column, reshape(base, (1, *shape, 1)))
        result = part if result is None else add(result, part)
    assert result is not None
    return result


def _last(x: Node, k: int) -> Node:
    """Component k of the last dimension."""
    return labeled(x, lambda labels: labels[..., k])


# --- places

_whole = Function("whole number", whole, kind="int")
_nearest = Function(
    "nearest whole number", on_numbers(lambda x: x if type(x) is float else nearest_even(x))
)


def _unnormalized(grid: Node, size: int, aligned: bool) -> Node:
    """From [−1, 1] to pixel coordinates."""
    if aligned:
        return mul(add(grid, 1.0), (size - 1) / 2)
    return mul(sub(mul(add(grid, 1.0), float(size)), 1.0), 0.5)


def _reflected(x: Node, size: int, aligned: bool) -> Node:
    """Reflected at the borders repeatedly; at a border the slope is that of the inside, as in
    torch."""
    low, span = (0.0, float(size - 1)) if aligned else (-0.5, float(size))
    if span == 0.0:
        return mul(x, 0.0)
    distance = sub(x, low)
    distance = mul(distance, where(less(distance, 0.0), -1.0, 1.0))
    flips = floor(div(distance, span))
    remainder = sub(distance, mul(flips, span))
    odd = Function("odd", _odd, kind="bool")(flips)
    return add(where(odd, sub(span, remainder), remainder), low)


def _odd(x: Element) -> bool | None:
    integer = whole(x)
    return None if integer is None else integer % 2 == 1


def _clipped(x: Node, size: int) -> Node:
    """Clamped to the border pixels; the slope is 0 outside and on the border."""
    top = float(size - 1)
    inside = and_(less(0.0, x), less(x, top))
    return where(inside, x, where(less(0.0, x), top, 0.0))


def _padded(x: Node, size: int, padding: int, aligned: bool) -> Node:
    if padding == ZEROS:
        return x
    return _clipped(_reflected(x, size, aligned) if padding == REFLECTION else x, size)


# --- samples


@entry("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    input: Any,
    grid: Any,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    result: Any,
) -> Any:
    sizes = input.shape[2:]
    parts = [_last(grid, d) for d in range(len(sizes))]
    places = [
        _unnormalized(part, size, align_corners)
        for part, size in zip(reversed(parts), sizes, strict=True)
    ]  # x comes first in the grid and last in the picture
    if interpolation_mode == BICUBIC:
        return _bicubic(input, places, padding_mode, align_corners, result)
    places = [
        _padded(x, size, padding_mode, align_corners) for x, size in zip(places, sizes, strict=True)
    ]
    if interpolation_mode == NEAREST:
        return _pixel(input, [_whole(_nearest(x)) for x in places], result)
    lows = [floor(x) for x in places]
    shares = [sub(x, low) for x, low in zip(places, lows, strict=True)]
    corners = []
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        at = [_whole(add(low, float(step))) for low, step in zip(lows, corner, strict=True)]
        weights = [
            share if step else sub(1.0, share) for share, step in zip(shares, corner, strict=True)
        ]
        corners.append(
            mul(_pixel(input, at, result), _of_channels(functools.reduce(mul, weights), result))
        )
    return functools.reduce(add, corners)


def _of_channels(x: Node, result: Any) -> Node:
    """The same index for all channels."""
    return expand(reshape(x, (x.shape[0], 1, *x.shape[1:])), tuple(result.shape))


def _pixel(picture: Node, at: list[Node], result: Any) -> Node:
    """The pixels at integer positions in each channel, 0 outside."""
    sizes = picture.shape[2:]
    padded = labeled(
        picture, lambda x: np.pad(x, [(0, 0), (0, 0)] + [(1, 1)] * len(sizes), constant_values=-1)
    )

    def place(*indices: int | None) -> int | None:
        flat = 0
        for i, size in zip(indices, sizes, strict=True):
            if i is None:
                return None
            flat = flat * (size + 2) + (i + 1 if 0 <= i < size else 0)
        return flat

    index = _of_channels(Function("place in the plane", place, kind="int")(*at), result)
    plane = int(np.prod([n + 2 for n in sizes]))
    offset: Labels = np.repeat(
        np.arange(picture.shape[0] * picture.shape[1]) * plane,
        index.size // (picture.shape[0] * picture.shape[1]),
    )
    return Lookup(padded, index, offset)


def _cubic_weights(t: Node) -> list[Node]:
    """Keys' cubic convolution with a = −3/4 at distances 1 + t, t, 1 − t and 2 − t."""
    a = -0.75

    def near(x: Node) -> Node:
        return add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1.0)

    def far(x: Node) -> Node:
        return mul(sub(mul(add(mul(sub(x, 5.0), x), 8.0), x), 4.0), a)

    return [far(add(t, 1.0)), near(t), near(sub(1.0, t)), far(sub(2.0, t))]


def _bicubic(picture: Node, places: list[Node], padding: int, aligned: bool, result: Any) -> Node:
    """Sixteen pixels around an unpadded position; each of them is padded if outside the image."""
    lows = [floor(x) for x in places]
    weights = [_cubic_weights(sub(x, low)) for x, low in zip(places, lows, strict=True)]
    terms: list[Node] = []
    for i, j in itertools.product(range(4), repeat=2):
        at = [
            _whole(_padded(add(low, float(step - 1)), size, padding, aligned))
            for low, step, size in zip(lows, (i, j), picture.shape[2:], strict=True)
        ]
        terms.append(
            mul(
                _pixel(picture, at, result), _of_channels(mul(weights[0][i], weights[1][j]), result)
            )
        )
    return functools.reduce(add, terms)
