"""Convolutions, and the sliding windows they are made of. S is the convolution of absolute
values."""

from __future__ import annotations

import math
from typing import Any

from .declare import EXACT, FLOATS, REAL, Call, Drawing, Operator, Sample, call, products
from .hooks import Tensors, hook
from .network_layers import as_in_networks, weights
from .parameter_sampling import per_dim, spread, summed

LINEAR = frozenset({"linear"})
MOST = {1: 65, 2: 14, 3: 6}  # the largest spatial size
KERNEL = {1: 9, 2: 5, 3: 3}
CHANNELS = {1: 17, 2: 9, 3: 5}


@hook
def terms(outputs: Tensors, x: Any, weight: Any, *_: Any, **__: Any) -> float:
    """n: input channels of a group × kernel elements, and the bias."""
    return float(weight[0].numel() + 1)


@hook
def terms_transposed(
    outputs: Tensors, x: Any, weight: Any, *_: Any, groups: int = 1, **__: Any
) -> float:
    return float(weight.shape[0] // groups * weight[0, 0].numel() + 1)


def windows(d: Drawing, rank: int) -> tuple[list[int], dict[str, int | list[int]], list[int]]:
    """Kernel, keyword arguments, and the least input size in each dimension."""
    kernel = [d.integer(1, KERNEL[rank]) for _ in range(rank)]
    kwargs: dict[str, int | list[int]] = {}
    if d.flag():
        kwargs = {
            "stride": per_dim(d, rank, 1, d.choice(3, 5)),
            "dilation": per_dim(d, rank, 1, d.choice(2, 3)),
            "padding": per_dim(d, rank, 0, 2),
        }
    dilation, padding = (
        spread(kwargs.get("dilation", 1), rank),
        spread(kwargs.get("padding", 0), rank),
    )
    if (
        kwargs and d.dtype == "bfloat16"
    ):  # oneDNN crashes where a window holds padding only (docs/findings.md)
        kwargs["padding"] = padding = [
            min(p, (k - 1) * s) for k, s, p in zip(kernel, dilation, padding, strict=True)
        ]
    min_sizes = [
        max(1, (k - 1) * s + 1 - 2 * p) for k, s, p in zip(kernel, dilation, padding, strict=True)
    ]
    return kernel, kwargs, min_sizes


def channels(d: Drawing, rank: int) -> tuple[int, int, int]:
    """Groups, and the input and output channels of one group; groups with one input channel are
    depthwise.

    Now and then there are as many as in the middle of a network: only long sums show how they are
    accumulated.
    """
    groups = d.choice(1, 1, 1, 2, 3, 8, 16)
    if groups == 1 and rank < 3 and not d.integer(0, 5):
        return 1, d.size(8, 64), d.size(4, 16)
    max_channels = max(1, CHANNELS[rank] // groups)
    return groups, d.size(1, max_channels), d.size(1, max_channels)


def pointwise(d: Drawing, rank: int) -> Call:
    """Kernels of one element, the middle of a network: many channels, of which the last block of 16
    is half full, and in two dimensions up to thousands of pixels. Shrinks to the fewest."""
    c_in, c_out = d.choice(8, 24, 104, 120), d.choice(16, 209, 208, 256)
    spatial = [d.choice(1, 7, 8)] * rank
    if rank == 2 and d.flag():
        spatial = [d.choice(16, 65, 64), 64]
        c_in, c_out = (c_in, 16) if d.flag() else (8, c_out)
    domain = summed(d, c_in)
    # oneDNN crashes where a window of bfloat16 holds padding only (docs/findings.md).
    padded = d.choice(False, False, True) and d.dtype != "bfloat16"
    kwargs = {"padding": 1} if padded else {}
    bias = (d.tensor((c_out,), domain),) if d.flag() else ()
    batch = () if d.flag() else (1,)
    return call(
        d.tensor((*batch, c_in, *spatial), domain),
        d.tensor((c_out, c_in, *[1] * rank), weights(domain)),
        *bias,
        **kwargs,
    )


def convolution(rank: int) -> Sample:
    """Batched and unbatched, with and without bias; padding as numbers, ``"same"`` or
    ``"valid"``. One in sixteen has a kernel of one element and many channels, and one is a layer of
    a well-known network."""

    def sample(d: Drawing) -> Call:
        kind = d.integer(0, 15)
        if kind == 15:
            return pointwise(d, rank)
        if kind == 14:
            return as_in_networks(d, rank)
        groups, c_in, c_out = channels(d, rank)
        kernel, kwargs, min_sizes = windows(d, rank)
        word = d.choice(None, None, None, "same", "valid")
        if word:
            min_sizes = [
                max(1, (k - 1) * s + 1)
                for k, s in zip(kernel, spread(kwargs.get("dilation", 1), rank), strict=True)
            ]
            kwargs = (
                {**kwargs, "padding": word}
                if word == "valid"
                else {"dilation": kwargs.get("dilation", 1), "padding": word}
            )
        if groups > 1:
            kwargs["groups"] = groups
        batch = () if d.flag() else (d.size(1, 3),)
        spatial = [d.size(low, max(low, MOST[rank])) for low in min_sizes]
        domain = summed(d, c_in * math.prod(kernel))
        bias = (d.tensor((groups * c_out,), domain),) if d.flag() else ()
        image = d.tensor((*batch, groups * c_in, *spatial), domain)
        return call(
            image, d.tensor((groups * c_out, c_in, *kernel), weights(domain)), *bias, **kwargs
        )

    return sample


def transposed(rank: int) -> Sample:
    """Batched and unbatched, with and without bias and output padding; one in sixteen is a layer of
    a well-known network."""

    def sample(d: Drawing) -> Call:
        if d.integer(0, 15) == 15:
            return as_in_networks(d, rank, transposed=True)
        groups, c_in, c_out = channels(d, rank)
        kernel, kwargs, _ = windows(d, rank)
        stride, dilation = (
            spread(kwargs.get("stride", 1), rank),
            spread(kwargs.get("dilation", 1), rank),
        )
        spatial = [d.size(1, MOST[rank] // 2) for _ in kernel]
        if kwargs:
            # At least one output element remains: of n input elements and a kernel of extent e,
            # (n - 1) · stride + e without padding.
            kwargs["padding"] = [
                d.integer(0, min(2, ((n - 1) * step + (k - 1) * s) // 2))
                for n, step, k, s in zip(spatial, stride, kernel, dilation, strict=True)
            ]
            kwargs["output_padding"] = [
                d.integer(0, max(pair) - 1) for pair in zip(stride, dilation, strict=True)
            ]
        if groups > 1:
            kwargs["groups"] = groups
        batch = () if d.flag() else (d.size(1, 3),)
        domain = summed(d, c_in * math.prod(kernel))
        bias = (d.tensor((groups * c_out,), domain),) if d.flag() else ()
        # Cropping the result is leaving out products, or multiplying with zeros, too.
        image = d.tensor((*batch, groups * c_in, *spatial), weights(domain))
        return call(
            image, d.tensor((groups * c_in, c_out, *kernel), weights(domain)), *bias, **kwargs
        )

    return sample


def unfold(d: Drawing) -> Call:
    kernel, kwargs, min_sizes = windows(d, 2)
    batch = () if d.flag() else (d.size(1, 3),)
    image = d.tensor((*batch, d.size(1, 4), *(d.size(low, 10) for low in min_sizes)), REAL)
    return call(image, kernel, **kwargs)


def fold(d: Drawing) -> Call:
    kernel, kwargs, min_sizes = windows(d, 2)
    size = [d.size(low, 10) for low in min_sizes]
    stride, dilation, padding = (
        spread(kwargs.get(name, default), 2)
        for name, default in (("stride", 1), ("dilation", 1), ("padding", 0))
    )
    blocks = [
        (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    batch = () if d.flag() else (d.size(1, 3),)
    columns = (*batch, d.size(1, 4) * math.prod(kernel), math.prod(blocks))
    return call(d.tensor(columns, summed(d, math.prod(kernel))), size, kernel, **kwargs)


@hook
def of_fold(
    outputs: Tensors, x: Any, output_size: Any, kernel_size: Any, *_: Any, **__: Any
) -> float:
    return float(math.prod(spread(kernel_size, 2)))


def conv(rank: int) -> Operator:
    error = products(terms, integers_exact=True)
    name = f"nn.functional.conv{rank}d"
    return Operator(
        name=name,
        family="convolution",
        sample=convolution(rank),
        error=error,
        dtypes=(*FLOATS, "int64"),
        traits=LINEAR,
        complex=True,
        aten=f"conv{rank}d",
    )


def conv_transpose(rank: int) -> Operator:
    error, dtypes = products(terms_transposed, integers_exact=True), (*FLOATS, "int64")
    name = f"nn.functional.conv_transpose{rank}d"
    return Operator(
        name=name,
        family="convolution",
        sample=transposed(rank),
        error=error,
        dtypes=dtypes,
        traits=LINEAR | {"constant"},  # zeros between the pixels of steps and of dilated kernels
        complex=True,
    )


OPERATORS = [
    *(conv(rank) for rank in (1, 2, 3)),
    *(conv_transpose(rank) for rank in (1, 2, 3)),
    Operator(
        name="nn.functional.unfold",
        family="convolution",
        sample=unfold,
        error=EXACT,
        dtypes=(*FLOATS, "bool"),
        traits=LINEAR,
        complex=True,
    ),
    Operator(
        name="nn.functional.fold",
        family="convolution",
        sample=fold,
        error=products(of_fold, integers_exact=True, moves=True),
        traits=LINEAR | {"constant"},  # between blocks that do not touch there are only zeros
    ),
]
