"""Pooling over windows and over equal shares of the input."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from consistency.backends.numpy.convolution import Sizes, pad_ends, windows
from consistency.backends.numpy.dimensions import (
    count,
    per_dimension,
    reduce_rows,
    row_mean,
    row_sum,
)
from consistency.backends.numpy.dtypes import Array, constant
from consistency.backends.numpy.implementations import implements

RowKernel = Callable[[Array], Array]


def _row_max(rows: Array) -> Array:
    return np.asarray(rows.max(-1))


def _pool(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    fill: float,
    reduction: RowKernel,
) -> Array:
    """Reduce every window of the padded input."""
    patches = windows(pad_ends(x, before, after, fill), kernel, stride, dilation)
    return reduce_rows(patches, range(patches.ndim - len(kernel), patches.ndim), False, reduction)


def _padding_after(
    size: int, kernel: int, stride: int, dilation: int, padding: int, ceil_mode: bool
) -> int:
    """ceil_mode adds a last, partial window, provided that it starts within the input or its left
    padding."""
    reach = dilation * (kernel - 1) + 1
    windows, remainder = divmod(size + 2 * padding - reach, stride)
    if ceil_mode and remainder and (windows + 1) * stride < size + padding:
        windows += 1
    return max(padding, windows * stride + reach - size - padding)


def _all_padding_after(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> list[int]:
    sizes = x.shape[x.ndim - len(kernel) :]
    return [
        _padding_after(*each, ceil_mode)
        for each in zip(sizes, kernel, stride, dilation, padding, strict=True)
    ]


def _lowest(x: Array) -> float:
    return -np.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)


def _average(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    n: int,
) -> Array:
    kernel = per_dimension(kernel_size, n)
    steps = per_dimension(stride, n) if stride else kernel
    before, unit_dilation = per_dimension(padding, n), (1,) * n
    after = _all_padding_after(x, kernel, steps, unit_dilation, before, ceil_mode)
    total = _pool(x, kernel, steps, unit_dilation, before, after, 0, row_sum)
    if divisor_override:
        return total / constant(divisor_override, x)
    # How many elements each window really covers: the padding counts if asked, what ceil_mode adds
    # never does.
    covered = np.ones(x.shape[-n:], x.dtype)
    if count_include_pad:
        covered, after = (
            pad_ends(covered, before, before, 1),
            [a - b for a, b in zip(after, before, strict=True)],
        )
        before = (0,) * n
    return total / _pool(covered, kernel, steps, unit_dilation, before, after, 0, row_sum)


def _adaptive(
    x: Array, output_size: int | Sequence[int | None], n: int, reduction: RowKernel
) -> Array:
    """Output i of m covers the input from ⌊i·size/m⌋ to ⌈(i+1)·size/m⌉."""
    spatial = x.shape[-n:]
    sizes = [output_size] if isinstance(output_size, int) else list(output_size)
    sizes = sizes * n if len(sizes) == 1 else sizes
    counts = [size if m is None else m for size, m in zip(spatial, sizes, strict=True)]
    shares = [
        [slice(i * size // m, -(-(i + 1) * size // m)) for i in range(m)]
        for size, m in zip(spatial, counts, strict=True)
    ]
    result = np.empty((*x.shape[:-n], *counts), x.dtype)
    for spot in product(*map(range, counts)):
        window: tuple[Any, ...] = (..., *(share[i] for share, i in zip(shares, spot, strict=True)))
        target: tuple[Any, ...] = (..., *spot)
        result[target] = reduce_rows(x[window], range(x.ndim - n, x.ndim), False, reduction)
    return result


def adaptive_average(x: Array, output_size: int | Sequence[int | None], n: int) -> Array:
    return _adaptive(x, output_size, n, row_mean)


def _offer_pools(n: int) -> None:
    @implements(f"nn.functional.max_pool{n}d", wide=True)
    def max_pool(
        input: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Array:
        if return_indices:
            raise NotImplementedError("return_indices")
        kernel, pads, spread = (per_dimension(v, n) for v in (kernel_size, padding, dilation))
        steps = per_dimension(stride, n) if stride else kernel
        after = _all_padding_after(input, kernel, steps, spread, pads, ceil_mode)
        return _pool(input, kernel, steps, spread, pads, after, _lowest(input), _row_max)

    @implements(f"nn.functional.adaptive_avg_pool{n}d", wide=True, integers=False)
    def adaptive_avg_pool(input: Array, output_size: int | Sequence[int | None]) -> Array:
        return adaptive_average(input, output_size, n)

    @implements(f"nn.functional.adaptive_max_pool{n}d", wide=True, integers=False)
    def adaptive_max_pool(
        input: Array, output_size: int | Sequence[int | None], return_indices: bool = False
    ) -> Array:
        if return_indices:
            raise NotImplementedError("return_indices")
        return _adaptive(input, output_size, n, _row_max)

    @implements(f"nn.functional.lp_pool{n}d", wide=True, integers=False)
    def lp_pool(
        input: Array,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> Array:
        """(Σ xᵖ)^(1/p), a NaN for most roots of a negative sum; ceil_mode's partial windows are
        scaled up as if whole."""
        power = constant(norm_type, input)
        window_size = constant(count(per_dimension(kernel_size, n)), input)
        mean = _average(np.power(input, power), kernel_size, stride, 0, ceil_mode, True, None, n)
        return np.asarray(np.power(mean * window_size, constant(1, input) / power))


for _n in (1, 2, 3):
    _offer_pools(_n)


@implements("nn.functional.avg_pool1d", wide=True, integers=False)
def avg_pool1d(
    input: Array,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    return _average(input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def _offer_avg_pool(n: int) -> None:
    @implements(f"nn.functional.avg_pool{n}d", wide=True, integers=False)
    def avg_pool(
        input: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        return _average(
            input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, n
        )


for _n in (2, 3):
    _offer_avg_pool(_n)
