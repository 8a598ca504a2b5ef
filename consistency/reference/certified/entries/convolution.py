"""Convolutions, transposed convolutions, and the extraction of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import complex_numbers as c
from ..convolutions import IMAGE, RESULT, SlidingProducts, meetings, windows
from ..movement import gather, reshape, scatter
from ..nodes import Node
from . import entry


def _spread(value: Any, rank: int) -> list[int]:
    values = [int(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
    return values * rank if len(values) == 1 else values


@entry(
    "convolution",
    "_convolution",
    "convolution_overrideable",
    "mkldnn_convolution",
    "_slow_conv2d_forward",
    "slow_conv3d",
    "thnn_conv2d",
)
def convolution(
    input: Any, weight: Any, result: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1,
    transposed: bool = False, output_padding: Any = None, groups: int = 1, benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = False, allow_tf32: bool = False, kernel_size: Any = None,
) -> Any:  # fmt: skip
    """A transposed convolution exchanges the roles of image and result."""
    out = result[0] if isinstance(result, tuple) else result
    rank = weight.ndim - 2
    shape = tuple(out.shape)
    image, kind = (shape, IMAGE) if transposed else (input.shape, RESULT)
    windowed = input.shape if transposed else shape
    axes, shapes = meetings(
        image,
        weight.shape,
        windowed,
        groups,
        _spread(stride, rank),
        _spread(padding, rank),
        _spread(dilation, rank),
    )

    def of(x: Node, w: Node) -> Node:
        return SlidingProducts(axes, shapes, kind, [w, x] if transposed else [x, w])

    output = c._bilinear(of, input, weight)
    if bias is None:
        return output
    return c.add(output, c.each(lambda b: reshape(b, (1, b.size, *[1] * rank)), bias))


@entry("im2col")
def im2col(
    self: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any, result: Any
) -> Any:
    def move(x: Node) -> Node:
        numbers = np.arange(x.size).reshape(x.shape)
        return gather(
            x, lambda: windows(numbers, kernel_size, dilation, padding, stride), tuple(result.shape)
        )

    return c.each(move, self)


@entry("col2im")
def col2im(
    self: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
    result: Any,
) -> Any:
    def move(x: Node) -> Node:
        shape = tuple(result.shape)
        numbers = np.arange(result.numel()).reshape(shape)
        return scatter(x, lambda: windows(numbers, kernel_size, dilation, padding, stride), shape)

    return c.each(move, self)
