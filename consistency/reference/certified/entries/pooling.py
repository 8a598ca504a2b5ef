"""Average and maximum pooling, and max-unpooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..balls import Element, Elements, Unknowable
from ..computed_positions import Lookup, once_each
from ..elementwise import Function, div
from ..movement import Labels, gather, reshape, scatter
from ..nodes import Constant, Node, Positions, whole_numbers
from ..orders import is_nan, keys
from ..sliding_windows import Windows, adaptive, fractional, sliding, spread
from ..sums import sum_
from . import entry


def _planes(x: Node, rank: int) -> int:
    return math.prod(x.shape[:-rank])


def _sums(x: Node, windows: Windows) -> Node:
    labels = windows.labels(_planes(x, len(windows.axes)))
    return sum_(gather(x, labels, labels.shape), 1)


def _average(
    self: Any,
    rank: int,
    result: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    count_include_pad: bool,
    divisor_override: Any,
) -> Node:
    """Divided by the number of elements in the window, with or without padding, but never beyond
    the padding (ceil_mode)."""
    kernel, spatial = spread(kernel_size, rank), self.shape[-rank:]
    steps, pads = spread(stride or kernel_size, rank), spread(padding, rank)
    out_size = tuple(result.shape[-rank:])
    windows = sliding(spatial, out_size, kernel, steps, pads, (1,) * rank)
    planes = _planes(self, rank)
    if divisor_override is not None:
        divisor = np.full(planes * math.prod(out_size), divisor_override)
    elif not count_include_pad:
        divisor = windows.counts(planes)
    else:
        sizes = [
            [min(i * s - p + k, size + p) - (i * s - p) for i in range(n)]
            for n, k, s, p, size in zip(out_size, kernel, steps, pads, spatial, strict=True)
        ]
        one = np.ones((), dtype=np.int64)
        for of_axis in sizes:
            one = np.multiply.outer(one, np.asarray(of_axis))
        divisor = np.tile(one.reshape(-1), planes)
    if (divisor == 0).any():
        raise Unknowable("the average of a window without elements")
    return reshape(
        div(_sums(self, windows), Constant(divisor.astype(np.float64))), tuple(result.shape)
    )


@entry("avg_pool1d")
def avg_pool1d(
    self: Any, kernel_size: Any, result: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    return _average(self, 1, result, kernel_size, stride, padding, count_include_pad, None)


@entry("avg_pool2d")
def avg_pool2d(
    self: Any, kernel_size: Any, result: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    return _average(
        self, 2, result, kernel_size, stride, padding, count_include_pad, divisor_override
    )


@entry("avg_pool3d")
def avg_pool3d(
    self: Any, kernel_size: Any, result: Any, stride: Any = (), padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    return _average(
        self, 3, result, kernel_size, stride, padding, count_include_pad, divisor_override
    )


@entry("adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_average(self: Any, output_size: Any, result: Any) -> Any:
    windows = adaptive(self.shape[-len(output_size) :], result.shape[-len(output_size) :])
    planes = _planes(self, len(output_size))
    return reshape(
        div(_sums(self, windows), Constant(windows.counts(planes).astype(np.float64))),
        tuple(result.shape),
    )


def _largest(row: list[Element]) -> int:
    """The index of the window's first maximum; NaN is larger than all numbers."""
    sort_keys = keys(row)
    best = 0
    for i in range(1, len(row)):
        if sort_keys[best] < sort_keys[i]:
            best = i
    return best


class Largest(Node):
    """For each window the flat position of its maximum, ignoring padding.

    The maximum is NaN if the window contains NaN; which of several NaN is undocumented, and unsure
    with ``unique``.
    """

    kind = "int"

    def __init__(self, x: Node, labels: Labels, unique: bool) -> None:
        super().__init__(labels.shape[:1], (x,))
        self.labels, self.unique = labels, unique

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        labels = self.labels[positions]
        return (labels[labels >= 0],)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        values, begin, maxima = given[0].tolist(), 0, []
        for row in self.labels[positions]:
            places = row[row >= 0]
            if not places.size:
                raise Unknowable("the maximum of a window without elements")
            window = values[begin : begin + places.size]
            if self.unique and sum(map(is_nan, window)) > 1:
                raise Unknowable("which of several NaN a maximum is")
            maxima.append(int(places[_largest(window)]))
            begin += places.size
        return maxima


def _maximum(self: Node, windows: Windows, shape: tuple[int, ...]) -> tuple[Node, Node]:
    """Maxima, and their positions in the plane."""
    rank = len(windows.axes)
    values, at = _picked(self, windows.labels(_planes(self, rank)))
    return reshape(values, shape), reshape(_within(at, math.prod(windows.spatial)), shape)


def _picked(self: Node, labels: Labels) -> tuple[Node, Node]:
    at = Largest(self, labels, True)
    values = Lookup(
        self, Largest(self, labels, False), np.zeros(at.size, dtype=np.int64), unique=at
    )
    return values, at


def _within(at: Node, plane: int) -> Node:

    return Function(
        "position in its plane", lambda p: None if p is None else p % plane, kind="int"
    )(at)


@entry(
    "max_pool1d",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "max_pool1d_with_indices",
)
def max_pool(
    self: Any,
    kernel_size: Any,
    result: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    shape = tuple((result[0] if isinstance(result, (tuple, list)) else result).shape)
    rank = len(kernel_size)
    windows = sliding(
        self.shape[-rank:], shape[-rank:], spread(kernel_size, rank), spread(stride or kernel_size,
        rank), spread(padding, rank),
        spread(dilation, rank),
    )  # fmt: skip
    maxima = _maximum(self, windows, shape)
    return maxima if isinstance(result, (tuple, list)) else maxima[0]


@entry("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(self: Any, output_size: Any, result: Any) -> Any:
    rank = len(output_size)
    return _maximum(
        self, adaptive(self.shape[-rank:], result[0].shape[-rank:]), tuple(result[0].shape)
    )


@entry("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(
    self: Any, kernel_size: Any, output_size: Any, random_samples: Any, result: Any
) -> Any:
    """Every plane has windows of its own. Torch's random numbers are in the order of the spatial
    dimensions of volumes; of images, the first is that of the columns."""
    rank, shape = len(kernel_size), tuple(result[0].shape)
    planes, spatial = _planes(self, rank), self.shape[-rank:]
    if not isinstance(random_samples, Constant):
        raise Unknowable("places of windows that are computed")
    size, labels = math.prod(spatial), []
    for plane, numbers in enumerate(random_samples.data.reshape(planes, rank).tolist()):
        places = [Fraction(number) for number in numbers]
        windows = fractional(
            spatial, output_size, kernel_size, places[::-1] if rank == 2 else places
        )
        labels.append(windows.labels(1) + plane * size)
    values, at = _picked(self, np.concatenate(labels))
    return reshape(values, shape), reshape(_within(at, size), shape)


@entry("max_unpool2d", "max_unpool3d")
def max_unpool(
    self: Any, indices: Any, output_size: Any, result: Any, stride: Any = None, padding: Any = None
) -> Any:
    """Each element at its position in a plane of zeros."""
    rank = len(output_size)
    plane = math.prod(result.shape[-rank:])

    def labels() -> Any:
        own = np.repeat(np.arange(_planes(self, rank)), math.prod(self.shape[-rank:]))
        return once_each(own * plane + whole_numbers(indices).reshape(-1))

    return scatter(self, labels, tuple(result.shape))
