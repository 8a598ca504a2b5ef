"""Convolutions and their gradients, as sums of products over one index set.

A convolution is the trilinear form Σ x·w·y over *meetings*: triples of elements of an image, a
kernel and a result. Per axis, the coordinates that meet are listed as triples. Each of the three
tensors is a sum over the other two, so that gradients of a convolution are of the same form.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import balls
from .balls import Elements
from .movement import Labels, row_major
from .nodes import Node, Positions, Shape

IMAGE, KERNEL, RESULT = range(3)


@dataclass(frozen=True)
class Axis:
    """Triples (image, kernel, result) of flat offsets that meet, and the stride and size of each of
    the three tensors along this axis."""

    triples: Labels
    strides: tuple[int, int, int]
    sizes: tuple[int, int, int]

    @functools.cache  # noqa: B019 (axes live as long as their convolution)
    def of(self, role: int) -> list[Labels]:
        """For each coordinate of one of the three tensors, the triples that contain it."""
        coordinates = self.triples[:, role] // max(self.strides[role], 1)
        order = np.argsort(coordinates, kind="stable")
        ends = np.searchsorted(coordinates[order], np.arange(self.sizes[role] + 1))
        return [self.triples[order[a:b]] for a, b in itertools.pairwise(ends.tolist())]

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class SlidingProducts(Node):
    """For each element of the tensor in ``role``, the sum of the products of the other two over all
    meetings."""

    def __init__(
        self, axes: Sequence[Axis], shapes: Sequence[Shape], role: int, inputs: Sequence[Node]
    ) -> None:
        super().__init__(shapes[role], inputs)
        self.axes, self.shapes, self.role = tuple(axes), tuple(shapes), role
        self.others = [r for r in range(3) if r != role]
        self.kind = "real" if all(node.kind == "real" for node in inputs) else "int"

    def _triples_at(self, position: int) -> list[Labels]:
        result = []
        for axis in self.axes:
            stride = axis.strides[self.role]
            result.append(
                axis.of(self.role)[position // stride % axis.sizes[self.role] if stride else 0]
            )
        return result

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        lists: tuple[list[Labels], ...] = ([], [])
        for position in positions.tolist():
            met = self._triples_at(position)
            for offsets, role in zip(lists, self.others, strict=True):
                offsets.append(
                    functools.reduce(
                        lambda a, b: np.add.outer(a, b).reshape(-1),
                        [triples[:, role] for triples in met],
                    )
                )
        return tuple(
            np.concatenate(offsets) if offsets else np.empty(0, dtype=np.int64) for offsets in lists
        )

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        a, b = given[0].tolist(), given[1].tolist()
        sums, begin = [], 0
        for position in positions.tolist():
            count = math.prod(len(triples) for triples in self._triples_at(position))
            x, y = a[begin : begin + count], b[begin : begin + count]
            sums.append(
                balls.dot(x, y)
                if self.kind == "real"
                else sum(p * q for p, q in zip(x, y, strict=True))
            )
            begin += count
        return sums

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        first, second = self.inputs
        gradients = []
        for role, other_role, node in zip(
            self.others, reversed(self.others), (second, first), strict=True
        ):
            by_role = {self.role: gradient, other_role: node}
            gradients.append(
                SlidingProducts(
                    self.axes, self.shapes, role, [by_role[r] for r in range(3) if r != role]
                )
            )
        return gradients


def meetings(
    image: Shape,
    kernel: Shape,
    result: Shape,
    groups: int,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[list[Axis], list[Shape]]:
    """Axes for an image (batch, channels, *size), a kernel (output channels, channels per group,
    *size) and a result.

    Coordinates i, k, o along a spatial axis meet where i = o·stride − padding + k·dilation.
    """
    batch, inside, outside = image[0], image[1] // groups, result[1] // groups
    shapes = [image, kernel, result]
    strides = [row_major(shape) for shape in shapes]
    axes = [
        _axis(_diagonal(batch, (1, 0, 1)), (strides[0][0], 0, strides[2][0]), (batch, 1, batch))
    ]
    of_group = (strides[0][1] * inside, strides[1][0] * outside, strides[2][1] * outside)
    axes.append(_axis(_diagonal(groups, (1, 1, 1)), of_group, (groups, groups, groups)))
    axes.append(
        _axis(_diagonal(inside, (1, 1, 0)), (strides[0][1], strides[1][1], 0), (inside, inside, 1))
    )
    axes.append(
        _axis(
            _diagonal(outside, (0, 1, 1)), (0, strides[1][0], strides[2][1]), (1, outside, outside)
        )
    )
    for d in range(len(stride)):
        k, o = np.meshgrid(np.arange(kernel[2 + d]), np.arange(result[2 + d]), indexing="ij")
        i = o * stride[d] - padding[d] + k * dilation[d]
        triples = np.stack([i.reshape(-1), k.reshape(-1), o.reshape(-1)], 1)
        inside_of = (triples[:, 0] >= 0) & (triples[:, 0] < image[2 + d])
        along = tuple(s[2 + d] for s in strides)
        axes.append(_axis(triples[inside_of], along, (image[2 + d], kernel[2 + d], result[2 + d])))
    return axes, shapes


def _diagonal(size: int, present: tuple[int, int, int]) -> Labels:
    coordinates: Labels = np.arange(size)[:, None] * np.array(present)
    return coordinates


def _axis(coordinates: Labels, strides: Sequence[int], sizes: tuple[int, int, int]) -> Axis:
    a, b, c = strides
    return Axis(coordinates * np.array([a, b, c]), (a, b, c), sizes)


def windows(
    labels: Labels,
    size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Labels:
    """im2col: windows of images (…, channels, rows, columns) as columns (…, channels·window,
    positions); −1 stands for padding."""
    rows, columns = labels.shape[-2:]
    edge = [(0, 0)] * (labels.ndim - 2) + [(p, p) for p in padding]
    padded = np.pad(labels, edge, constant_values=-1)
    steps = zip((rows, columns), size, dilation, padding, stride, strict=True)
    places = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in steps]
    row, column = (
        np.arange(k)[:, None] * d + np.arange(n) * s
        for k, d, n, s in zip(size, dilation, places, stride, strict=True)
    )
    taps = padded[
        ..., row[:, None, :, None], column[None, :, None, :]
    ]  # (…, channels, k₁, k₂, places₁, places₂)
    columns_of_windows: Labels = taps.reshape(
        (*labels.shape[:-3], labels.shape[-3] * math.prod(size), math.prod(places))
    )
    return columns_of_windows
