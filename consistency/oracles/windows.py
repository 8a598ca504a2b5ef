"""Oracles of convolutions, their transposes, average pooling and folding: sums over windows, in double-double.

A window's position is a whole-number index into the flattened image, worked out here from the definition; an index of the image's
size stands for padding. Errors as in :mod:`consistency.oracles.sums`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .answer import Unsure
from .double_double import DoubleDouble, as_dd, matmul

Array = Any
Sizes = Any


def each(value: Sizes, n: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * n if len(values) == 1 else values


def positions(
    sizes: Sequence[int], outputs: Sequence[int], kernel: Sequence[int], stride: Sequence[int], before: Sequence[int],
    dilation: Sequence[int],
) -> Array:  # fmt: skip
    """(outputs…, kernel…) flattened to two dimensions: which element of an image of ``sizes`` a window's place reads."""
    n, flat, inside = len(sizes), np.zeros((1,) * (2 * len(sizes)), np.int64), np.ones((1,) * (2 * len(sizes)), bool)
    for d in range(n):
        index = np.arange(outputs[d])[:, None] * stride[d] + np.arange(kernel[d])[None, :] * dilation[d] - before[d]
        shape = [1] * (2 * n)
        shape[d], shape[n + d] = outputs[d], kernel[d]
        flat = flat * sizes[d] + index.reshape(shape)
        inside = inside & ((index >= 0) & (index < sizes[d])).reshape(shape)
    return np.where(inside, flat, math.prod(sizes)).reshape(math.prod(outputs), math.prod(kernel))


def _images(x: Array, n: int) -> Array:
    """(batch, channels, pixels and one zero more)."""
    flat = x.reshape(*x.shape[: x.ndim - n], -1)
    return np.concatenate([flat, np.zeros((*flat.shape[:-1], 1))], -1)


def conv(n: int) -> Callable[..., DoubleDouble]:
    def call(
        x: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> DoubleDouble:
        if x.ndim == n + 1:
            return call(x[None], weight, bias, stride, padding, dilation, groups)[0]
        kernel, steps, gaps = weight.shape[2:], each(stride, n), each(dilation, n)
        reach = [gap * (k - 1) for gap, k in zip(gaps, kernel, strict=True)]
        if padding == "same":
            before, both = [r // 2 for r in reach], reach
        else:
            before = [0] * n if padding == "valid" else list(each(padding, n))
            both = [2 * p for p in before]
        sizes = x.shape[2:]
        outputs = [(s + b - r - 1) // step + 1 for s, b, r, step in zip(sizes, both, reach, steps, strict=True)]
        index = positions(sizes, outputs, kernel, steps, before, gaps)
        batch, channels, filters = x.shape[0], x.shape[1] // groups, weight.shape[0] // groups
        patches = _images(x, n)[:, :, index].reshape(batch, groups, channels, *index.shape)
        columns = patches.transpose(0, 1, 2, 4, 3).reshape(batch, groups, channels * index.shape[1], index.shape[0])
        rows = weight.reshape(groups, filters, channels * index.shape[1])
        result = matmul(as_dd(rows), as_dd(columns)).reshape(batch, groups * filters, *outputs)
        return result if bias is None else result + bias.reshape(-1, *[1] * n)

    return call


def conv_transpose(n: int) -> Callable[..., DoubleDouble]:
    """The adjoint: a convolution of the image with zeros between its pixels and the kernel turned round."""

    def call(
        x: Array, weight: Array, bias: Array | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
        groups: int = 1, dilation: Sizes = 1,
    ) -> DoubleDouble:  # fmt: skip
        if x.ndim == n + 1:
            result: DoubleDouble = call(x[None], weight, bias, stride, padding, output_padding, groups, dilation)
            return result[0]
        steps, pads, extras, gaps = (each(v, n) for v in (stride, padding, output_padding, dilation))
        sizes, kernel = x.shape[2:], weight.shape[2:]
        reach = [gap * (k - 1) for gap, k in zip(gaps, kernel, strict=True)]
        spread = [(s - 1) * step + 1 + 2 * r + e for s, step, r, e in zip(sizes, steps, reach, extras, strict=True)]
        wide = np.zeros((*x.shape[:2], *spread))
        spots: tuple[Any, ...] = tuple(
            slice(r, r + (s - 1) * step + 1, step) for r, s, step in zip(reach, sizes, steps, strict=True)
        )
        wide[(..., *spots)] = x
        within: tuple[Any, ...] = tuple(slice(p, size - p) for p, size in zip(pads, spread, strict=True))
        wide = wide[(..., *within)]
        backwards: tuple[Any, ...] = (..., *([slice(None, None, -1)] * n))
        turned = weight[backwards]
        filters = turned.reshape(groups, x.shape[1] // groups, *turned.shape[1:]).swapaxes(1, 2)
        return conv(n)(wide, filters.reshape(-1, x.shape[1] // groups, *kernel), bias, 1, 0, dilation, groups)

    return call


def avg_pool(n: int) -> Callable[..., DoubleDouble]:
    def call(
        x: Array, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> DoubleDouble:  # fmt: skip
        kernel, pads, once = each(kernel_size, n), each(padding, n), (1,) * n
        steps, sizes = each(stride, n) if stride else kernel, x.shape[-n:]
        outputs = []
        for s, k, step, p in zip(sizes, kernel, steps, pads, strict=True):
            count = (s + 2 * p - k + (step - 1 if ceil_mode else 0)) // step + 1
            # A window that ceil_mode adds must begin inside the image or its left padding.
            outputs.append(count - 1 if ceil_mode and (count - 1) * step >= s + p else count)
        index = positions(sizes, outputs, kernel, steps, pads, once)
        total = as_dd(_images(x, n)[..., index]).sum(-1)
        counts: Array | float
        if divisor_override:
            counts = float(divisor_override)
        elif count_include_pad:
            padded = [s + 2 * p for s, p in zip(sizes, pads, strict=True)]
            counts = (positions(padded, outputs, kernel, steps, (0,) * n, once) < math.prod(padded)).sum(-1)
        else:
            counts = (index < math.prod(sizes)).sum(-1)
        shares: DoubleDouble = total / counts
        return shares.reshape(*x.shape[:-n], *outputs)

    return call


def adaptive_avg_pool(n: int) -> Callable[..., DoubleDouble]:
    """Output i of m covers the input from ⌊i·size/m⌋ to ⌈(i + 1)·size/m⌉: a matrix of shares along each dimension."""

    def call(x: Array, output_size: Any) -> DoubleDouble:
        sizes, wanted = x.shape[-n:], each(output_size, n)
        result = as_dd(x)
        count: Any = np.ones((1,) * n)
        for d in range(n):
            m = sizes[d] if wanted[d] is None else wanted[d]
            i, j = np.arange(m)[:, None], np.arange(sizes[d])[None, :]
            share = ((j >= i * sizes[d] // m) & (j < -(-(i + 1) * sizes[d] // m))).astype(np.float64)
            axis = x.ndim - n + d
            result = (
                matmul(result.moveaxis(axis, -1).reshape(1, -1, sizes[d]), as_dd(share.T))
                .reshape(*(s for a, s in enumerate(result.shape) if a != axis), m)
                .moveaxis(-1, axis)
            )
            count = count * share.sum(1).reshape([-1 if a == d else 1 for a in range(n)])
        shares: DoubleDouble = result / count
        return shares

    return call


def fold(
    x: Array, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> DoubleDouble:
    """The sum of patches, each laid where a window would read it: a matrix of zeros and ones."""
    if x.ndim == 2:
        return fold(x[None], output_size, kernel_size, dilation, padding, stride)[0]
    sizes, kernel, gaps, pads, steps = (each(v, 2) for v in (output_size, kernel_size, dilation, padding, stride))
    outputs = [(s + 2 * p - g * (k - 1) - 1) // step + 1 for s, p, g, k, step in zip(sizes, pads, gaps, kernel, steps, strict=True)]
    index = positions(sizes, outputs, kernel, steps, pads, gaps).T.reshape(-1)
    if index.size * math.prod(sizes) > 1 << 22:
        raise Unsure("too large")
    places = (index[:, None] == np.arange(math.prod(sizes))[None, :]).astype(np.float64)
    patches = x.reshape(x.shape[0], -1, math.prod(kernel) * math.prod(outputs))
    return matmul(as_dd(patches), as_dd(places)).reshape(x.shape[0], patches.shape[1], *sizes)


WINDOWS: dict[str, Callable[..., Any]] = {
    **{f"nn.functional.conv{n}d": conv(n) for n in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{n}d": conv_transpose(n) for n in (1, 2, 3)},
    **{f"nn.functional.avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_avg_pool{n}d": adaptive_avg_pool(n) for n in (1, 2, 3)},
    "nn.functional.fold": fold,
}
