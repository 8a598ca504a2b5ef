"""Sliding windows over the last dimensions of a tensor: the elements that each window contains."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .movement import Labels

Ranges = list[list[int]]


@dataclass(frozen=True)
class Windows:
    """For each spatial dimension and output position, the input positions of a window; positions in
    the padding are negative or too large."""

    spatial: tuple[int, ...]
    axes: tuple[tuple[tuple[int, ...], ...], ...]

    @functools.cached_property
    def plane(self) -> Labels:
        """For each window of a plane, the flat positions in the plane, −1 in the padding; all of
        one width."""
        widths = [max(len(window) for window in axis) for axis in self.axes]
        count = math.prod(len(axis) for axis in self.axes)
        plane = np.zeros((*(len(axis) for axis in self.axes), *widths), dtype=np.int64)
        inside = np.ones_like(plane, dtype=bool)
        rank = len(self.axes)
        for d, (axis, size, width) in enumerate(zip(self.axes, self.spatial, widths, strict=True)):
            table = np.full((len(axis), width), -1, dtype=np.int64)
            for i, window in enumerate(axis):
                table[i, : len(window)] = window
            shape = [1] * (2 * rank)
            shape[d], shape[rank + d] = table.shape
            table = table.reshape(shape)
            inside &= (table >= 0) & (table < size)
            plane = plane * size + np.clip(table, 0, size - 1)
        return np.where(inside, plane, -1).reshape(count, math.prod(widths))

    def labels(self, planes: int) -> Labels:
        """The same for a tensor with this number of planes."""
        plane = self.plane
        size = math.prod(self.spatial)
        return np.where(plane >= 0, np.arange(planes)[:, None, None] * size + plane, -1).reshape(
            -1, plane.shape[1]
        )

    def counts(self, planes: int) -> Labels:
        """The number of elements of the tensor in each window."""
        return np.tile((self.plane >= 0).sum(axis=1), planes)


def sliding(
    spatial: Sequence[int], wanted: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Windows:  # fmt: skip
    """Window i starts at i·stride − padding and takes every ``dilation``-th element."""
    axes = []
    for n, k, s, p, d in zip(wanted, kernel, stride, padding, dilation, strict=True):
        axes.append(tuple(tuple(i * s - p + j * d for j in range(k)) for i in range(n)))
    return Windows(tuple(spatial), tuple(axes))


def adaptive(spatial: Sequence[int], wanted: Sequence[int]) -> Windows:
    """Window i goes from ⌊i·size/wanted⌋ to ⌈(i + 1)·size/wanted⌉."""
    axes = []
    for size, n in zip(spatial, wanted, strict=True):
        axes.append(tuple(tuple(range(i * size // n, -(-(i + 1) * size // n))) for i in range(n)))
    return Windows(tuple(spatial), tuple(axes))


def fractional(
    spatial: Sequence[int], wanted: Sequence[int], kernel: Sequence[int],
    places: Sequence[Fraction],
) -> Windows:  # fmt: skip
    """Window i begins at ⌊(i + r)·α⌋ − ⌊r·α⌋ with α = (size − kernel) / (windows − 1), and the last
    one at the end."""
    axes = []
    for size, n, k, r in zip(spatial, wanted, kernel, places, strict=True):
        step = Fraction(size - k, n - 1) if n > 1 else Fraction(0)
        begins = [math.floor((i + r) * step) - math.floor(r * step) for i in range(n - 1)]
        axes.append(tuple(tuple(range(b, b + k)) for b in (*begins, size - k)))
    return Windows(tuple(spatial), tuple(axes))


def spread(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number repeated for each dimension, as torch does."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * rank if len(values) == 1 else values
