"""Convolutions as one matrix product over explicit patches (im2col), and the scattering of patches
back (col2im)."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from consistency.backends.numpy.dimensions import count, per_dimension
from consistency.backends.numpy.dtypes import Array
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.matmul import matmul

Sizes = int | Sequence[int]


def windows(
    x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Array:
    """A read-only view of every patch of the last dimensions: (…, outputs…, kernel…)."""
    n = len(kernel)
    lead = x.ndim - n
    outputs = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(x.shape[lead:], kernel, stride, dilation, strict=True)
    ]
    if min(outputs) < 0:
        raise ValueError(f"a kernel of {tuple(kernel)} does not fit into {x.shape[lead:]}")
    steps, within = x.strides[lead:], x.strides[lead:]
    return as_strided(
        x,
        shape=(*x.shape[:lead], *outputs, *kernel),
        strides=(
            *x.strides[:lead],
            *(step * s for step, s in zip(steps, stride, strict=True)),
            *(step * d for step, d in zip(within, dilation, strict=True)),
        ),
        writeable=False,
    )


def pad_ends(x: Array, before: Sequence[int], after: Sequence[int], value: float = 0) -> Array:
    """`x` with its last dimensions padded by a constant."""
    lead = [(0, 0)] * (x.ndim - len(before))
    return np.pad(x, [*lead, *zip(before, after, strict=True)], constant_values=x.dtype.type(value))


def _ends(
    padding: Sizes | str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Padding before and after; 'same' puts the odd element after, as PyTorch does."""
    if padding == "valid":
        return [0] * len(kernel), [0] * len(kernel)
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError("padding='same' needs a stride of 1")
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return [t // 2 for t in totals], [t - t // 2 for t in totals]
    if isinstance(padding, str):
        raise ValueError(f"padding must be 'valid', 'same' or numbers, not {padding!r}")
    both = list(per_dimension(padding, len(kernel)))
    return both, both


def _convolve(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> Array:
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return np.asarray(_convolve(x[None], weight, bias, stride, padding, dilation, groups)[0])
    kernel, strides, dilations = (
        weight.shape[2:],
        per_dimension(stride, n),
        per_dimension(dilation, n),
    )
    x = pad_ends(x, *_ends(padding, kernel, strides, dilations))
    patches = windows(x, kernel, strides, dilations)  # batch, channels, outputs…, kernel…
    batch, outputs = x.shape[0], patches.shape[2 : 2 + n]
    inner = weight.shape[1] * count(kernel)
    split = patches.reshape(batch, groups, weight.shape[1], *outputs, *kernel)
    columns = np.moveaxis(split, 2, 2 + n).reshape(batch, groups, count(outputs), inner)
    rows = weight.reshape(groups, weight.shape[0] // groups, inner)
    result = matmul(rows, columns.swapaxes(-1, -2)).reshape(batch, weight.shape[0], *outputs)
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def scatter_windows(
    patches: Array, shape: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Array:
    """The sum of patches (…, outputs…, kernel…), each laid where `windows` would take it from, into
    zeros."""
    n = len(shape)
    outputs, kernel = patches.shape[-2 * n : -n], patches.shape[-n:]
    result = np.zeros((*patches.shape[: -2 * n], *shape), patches.dtype)
    for offset in product(*map(range, kernel)):
        targets = (
            slice(o * d, o * d + s * (m - 1) + 1, s) if m else slice(0, 0)
            for o, d, s, m in zip(offset, dilation, stride, outputs, strict=True)
        )
        spots: tuple[Any, ...] = (..., *targets)
        source: tuple[Any, ...] = (..., *offset)
        result[spots] += patches[source]
    return result


def _without_margins(x: Array, margins: Sequence[int]) -> Array:
    """`x` with as much cut off from both ends of each of its last dimensions."""
    sizes = x.shape[x.ndim - len(margins) :]
    inside: tuple[Any, ...] = (
        ...,
        *(slice(m, size - m) for m, size in zip(margins, sizes, strict=True)),
    )
    return np.asarray(x[inside])


def _convolve_transposed(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Array:
    """Every input element lays its multiple of the kernel into the output (the adjoint of a
    convolution)."""
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return np.asarray(
            _convolve_transposed(
                x[None], weight, bias, stride, padding, output_padding, groups, dilation
            )[0]
        )
    kernel, batch = weight.shape[2:], x.shape[0]
    strides, paddings, extras, dilations = (
        per_dimension(v, n) for v in (stride, padding, output_padding, dilation)
    )
    channels, per_group = weight.shape[:2]
    columns = x.reshape(batch, groups, channels // groups, count(x.shape[2:])).swapaxes(-1, -2)
    rows = weight.reshape(groups, channels // groups, per_group * count(kernel))
    patches = matmul(columns, rows).reshape(batch, groups, *x.shape[2:], per_group, *kernel)
    patches = np.moveaxis(patches, 2 + n, 2).reshape(
        batch, groups * per_group, *x.shape[2:], *kernel
    )
    full = [
        (size - 1) * s + d * (k - 1) + 1 + max(extra, 0)
        for size, s, d, k, extra in zip(
            x.shape[2:], strides, dilations, kernel, extras, strict=True
        )
    ]
    result = scatter_windows(patches, full, strides, dilations)
    result = _without_margins(result, paddings)
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def _offer_convolution(n: int) -> None:
    @implements(f"nn.functional.conv{n}d", wide=True, complex=True, one_dtype=True)
    def conv(
        input: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Array:
        return _convolve(input, weight, bias, stride, padding, dilation, groups)

    @implements(f"nn.functional.conv_transpose{n}d", wide=True, complex=True, one_dtype=True)
    def conv_transpose(
        input: Array,
        weight: Array,
        bias: Array | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Array:
        return _convolve_transposed(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )


for _n in (1, 2, 3):
    _offer_convolution(_n)


# --- patches on their own


@implements("nn.functional.unfold", wide=True, complex=True)
def unfold(
    input: Array, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Array:
    if input.ndim == 3:
        return np.asarray(unfold(input[None], kernel_size, dilation, padding, stride)[0])
    kernel, dilations, paddings, strides = (
        per_dimension(v, 2) for v in (kernel_size, dilation, padding, stride)
    )
    patches = windows(pad_ends(input, paddings, paddings), kernel, strides, dilations)
    batch, channels, rows, columns = patches.shape[:4]
    return patches.transpose(0, 1, 4, 5, 2, 3).reshape(
        batch, channels * kernel[0] * kernel[1], rows * columns
    )


@implements("nn.functional.fold", wide=True, complex=True)
def fold(
    input: Array,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Array:
    if input.ndim == 2:
        return np.asarray(fold(input[None], output_size, kernel_size, dilation, padding, stride)[0])
    size, kernel, dilations, paddings, strides = (
        per_dimension(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    padded = [one + 2 * p for one, p in zip(size, paddings, strict=True)]
    outputs = [
        (one - d * (k - 1) - 1) // s + 1
        for one, d, k, s in zip(padded, dilations, kernel, strides, strict=True)
    ]
    channels = input.shape[1] // math.prod(kernel)
    patches = input.reshape(input.shape[0], channels, *kernel, *outputs)
    patches = patches.transpose(0, 1, 4, 5, 2, 3)
    result = scatter_windows(patches, padded, strides, dilations)
    return _without_margins(result, paddings)
