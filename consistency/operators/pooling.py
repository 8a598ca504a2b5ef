"""Pooling: averages are sums of products, maxima are exact with any index among equals, power
averages have non-negative terms."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from .declare import (
    EXTREMUM,
    FLOAT,
    FLOATS,
    NUMERIC,
    POSITIVE,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Sample,
    accumulated,
    call,
    family,
    products,
)
from .hooks import Tensors, hook
from .magnitudes import finite, peak
from .nonunique_results import gather_or_nan, plain_zeros
from .parameter_sampling import channels, optional_arguments, per_dim, spread, summed
from .position_tensors import positions

MOST = {1: 65, 2: 17, 3: 8}
KERNEL = {1: 9, 2: 5, 3: 3}
LARGE_KERNEL = {1: 40, 2: 11, 3: 5}
# Torch refuses images with more pixels than the largest number of an eight-bit dtype.
NARROW = {1: 65, 2: 11, 3: 5}
VALUES = Domain(specials=("nan", "inf", "-inf", "max", "-max"), wide=(-24, 24), tiny=True)
LINEAR, TIES = (
    frozenset({"linear"}),
    frozenset({"ties", "constant"}),
)  # most of a maximum's gradient is zero
PICKS = TIES | EXTREMUM


def image(
    d: Drawing, spatial: list[int], domain: Domain, values: tuple[Any, ...] | None = None
) -> TensorRecipe:
    """Batched and unbatched; volumes alone are contiguous, because torch takes other ones for
    images with channels last."""
    batch = () if d.flag() else (d.size(1, 3),)
    return d.tensor(
        (*batch, channels(d), *spatial),
        domain,
        values=values,
        layout=bool(batch) or len(spatial) < 3,
    )


def windows(
    d: Drawing, rank: int, *, dilated: bool = False
) -> tuple[int | list[int], dict[str, Any], list[int]]:
    """Kernel, keyword arguments and a spatial size that holds at least one window, in general no
    whole number of them."""
    large = d.dtype not in ("int8", "uint8") and d.choice(*[False] * 7, True)
    kernel = per_dim(d, rank, 1, (LARGE_KERNEL if large else KERNEL)[rank])
    extent = spread(kernel, rank)
    kwargs: dict[str, Any] = {"ceil_mode": True} if d.flag() else {}
    padding, dilation = [0] * rank, [1] * rank
    if d.integer(0, 7) == 7:  # as most networks have it: the image keeps its size
        size = d.choice(3, 5) if rank < 3 else 3
        kernel, extent = size, [size] * rank
        kwargs |= {"stride": 1, "padding": size // 2}
        padding = [size // 2] * rank
    elif d.flag():
        kwargs["stride"] = per_dim(d, rank, 1, d.choice(3, 9))
        kwargs["padding"] = padding = [d.integer(0, k // 2) for k in extent]
        if d.choice(False, False, True):  # one number for all; the window as the stride
            kwargs["padding"] = min(padding)
            padding = [min(padding)] * rank
            del kwargs["stride"]
    if dilated and d.flag():
        kwargs["dilation"] = per_dim(d, rank, 1, d.choice(2, 3))
        dilation = spread(kwargs["dilation"], rank)
        extent = [(k - 1) * s + 1 for k, s in zip(extent, dilation, strict=True)]
    # avg_pool3d refuses a kernel that fits the image with its padding only. Where a window holds
    # padding only, max_pool2d's gradient writes beyond its memory.
    min_sizes = [
        k if rank == 3 else max(s, k - 2 * p)
        for k, s, p in zip(extent, dilation, padding, strict=True)
    ]
    most = NARROW if d.dtype in ("int8", "uint8") else MOST
    return kernel, kwargs, [d.size(low, max(low, most[rank])) for low in min_sizes]


def average(rank: int) -> Sample:
    """Of numbers, or of whole ones far from 0, whose average is cut off to a whole one."""

    def sample(d: Drawing) -> Call:
        if rank == 1 and d.integer(0, 15) == 15:  # a single element, in a window beyond both ends
            k = d.integer(2, 5)
            lone = d.tensor((1, 1), summed(d, 1))
            return call(lone, [k], stride=[d.integer(1, 3)], padding=[k // 2])
        kernel, kwargs, size = windows(d, rank)
        divisors = (1, 3, -2, 1000)
        options: dict[str, tuple[Any, ...]] = {"divisor_override": divisors} if rank > 1 else {}
        whole = None if d.floating else ("integers", *d.choice((1, 100), (-100, 100)))
        return call(
            image(d, size, summed(d, 64), whole),
            kernel,
            **kwargs,
            **optional_arguments(d, count_include_pad=(False,), **options),
        )

    return sample


def maximum(rank: int) -> Sample:
    def sample(d: Drawing) -> Call:
        kernel, kwargs, size = windows(d, rank, dilated=True)
        return call(
            image(d, size, VALUES),
            kernel,
            **kwargs,
            **optional_arguments(d, return_indices=(True,)),
        )

    return sample


def adaptive(rank: int, domain: Domain | None = None, **options: tuple[Any, ...]) -> Sample:
    """Any output size, in general no divisor of the input's, and now and then one."""

    def sample(d: Drawing) -> Call:
        size = [d.size(1, MOST[rank]) for _ in range(rank)]
        output_size: Any = per_dim(d, rank, 1, d.choice(9, 2 * MOST[rank]))
        if d.choice(False, False, True):  # windows of equal size
            wholes = [max(1, length // d.integer(2, 5)) for length in size]
            size = [whole * (length // whole) for whole, length in zip(wholes, size, strict=True)]
            output_size = wholes
        if rank > 1 and isinstance(output_size, list) and d.flag():
            output_size[0] = None  # keep the input's size
        return call(
            image(d, size, domain or summed(d, 64)), output_size, **optional_arguments(d, **options)
        )

    return sample


def power(rank: int) -> Sample:
    """Powers of 1 only of positive numbers, so that no sum cancels. In one dimension the kernel is
    a number."""

    def sample(d: Drawing) -> Call:
        kernel = per_dim(d, rank, 1, KERNEL[rank]) if rank > 1 else d.integer(1, KERNEL[1])
        size = [d.size(KERNEL[rank], MOST[rank]) for _ in range(rank)]
        order = d.choice(2.0, 1.0, 3.0, 0.5, 4.0)
        domain = Domain(wide=(-6, 6)) if order == 2.0 else POSITIVE
        return call(
            image(d, size, domain),
            order,
            kernel,
            **optional_arguments(d, stride=(1, 2, 3), ceil_mode=(True,)),
        )

    return sample


def unpool(rank: int) -> Sample:
    """Positions such as pooling returns, the same place in every window, some of them apart in
    memory. The size of the result is implied or given."""

    def sample(d: Drawing) -> Call:
        kernel, channels = d.integer(2, 3), d.size(1, 2)
        size = [d.size(1, {1: 31, 2: 5, 3: 3}[rank]) for _ in range(rank)]
        options: dict[str, Any] = {}
        stride, padding = kernel, 0
        if d.choice(False, False, True):
            options["stride"] = stride = d.integer(1, 3)
        if kernel == 3 and d.choice(False, False, True):
            options["padding"] = padding = 1
        result = [(n - 1) * stride - 2 * padding + kernel for n in size]
        if d.choice(False, False, True):
            result = [n + d.integer(0, stride - 1) for n in result]
            options["output_size"] = result
        place = [d.integer(0, kernel - 2 * padding - 1) for _ in range(rank)]
        plane = [functools.reduce(lambda i,
        axis: i * result[axis] + at[axis] * stride + place[axis], range(rank), 0)
                 for at in itertools.product(*map(range, size))]  # fmt: skip
        shape = (channels, *size)
        indices = positions(d, plane * channels, shape)
        return call(d.tensor(shape, VALUES), indices, kernel, **options)

    return sample


def at_maximum(rank: int) -> Any:
    """Values, and the input's values at the returned positions within each plane."""

    @hook
    def observe(outputs: Tensors, x: Any, *_: Any, **__: Any) -> Tensors:
        if len(outputs) < 2:
            return tuple(plain_zeros(output) for output in outputs)
        gathered = gather_or_nan(x.flatten(-rank), -1, outputs[1].flatten(-rank))
        return plain_zeros(outputs[0]), plain_zeros(gathered.reshape(outputs[1].shape))

    return observe


pool = family("pooling", prefix="nn.functional.", dtypes=FLOATS)


def of_window(rank: int) -> Any:
    @hook
    def terms(outputs: Tensors, x: Any, kernel_size: Any, *_: Any, **__: Any) -> float:
        return float(math.prod(spread(kernel_size, rank)))

    return terms


def of_power_window(rank: int) -> Any:
    @hook
    def terms(outputs: Tensors, x: Any, p: float, kernel_size: Any, *_: Any, **__: Any) -> float:
        return float(math.prod(spread(kernel_size, rank)))

    return terms


# Where a signed sum cancels, its root errs by a root of the rounding: S is limited to that of
# float32's, whose unit roundoff this is.
_ROUNDOFF = 2.0**-24


def of_root(rank: int) -> Any:
    """|ref| for the root of a sum, and where powers have signs, what their sum responds to them:
    y·(Σ|xᵖ| / |Σxᵖ|)/|p|. A root other than the square root carries the rounding of its exponent,
    times the logarithm of what is under it, and one of |p| < 1 the p-th part of the sum's."""
    pool = getattr(torch.nn.functional, f"lp_pool{rank}d")

    @hook
    def magnitude(outputs: Tensors, x: Any, p: float, *window: Any, **options: Any) -> Any:
        size = outputs[0].abs()
        total = pool(x.abs(), p, *window, **options)
        steps = (2.0 + finite(size.log()).abs()) if p not in (1.0, 2.0) else 1.0
        response = size * (total / size).pow(p) / abs(p)
        if p > 0.0:
            largest = total * max(_ROUNDOFF ** (1.0 / p - 1.0), 1.0)
            response = torch.where(response < largest, response, largest)  # also of 0 / 0
        return size * steps * max(1.0, 1.0 / abs(p)) + finite(response)

    return magnitude


def of_adaptive_window(rank: int) -> Any:
    """n: the largest window, from ⌊i·size/wanted⌋ to ⌈(i + 1)·size/wanted⌉ in each dimension."""

    @hook
    def terms(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
        sizes = zip(x.shape[-rank:], outputs[0].shape[-rank:], strict=True)
        return math.prod(
            (max(-(-(i + 1) * size // n) - i * size // n for i in range(n)) for size, n in sizes),
            start=1.0,
        )

    return terms


MAXIMUM = ErrorModel("exact", backward=peak, moves=True)
UNPOOL = ErrorModel("exact", backward="output", moves=True)

OPERATORS = [
    *(
        pool(
            f"avg_pool{n}d",
            average(n),
            products(of_window(n)),
            (*(FLOATS if n < 3 else FLOAT), "int64"),
            traits=LINEAR,
            out=n > 1,
            aten=f"avg_pool{n}d",
        )
        for n in (1, 2, 3)
    ),
    *(
        pool(
            f"max_pool{n}d",
            maximum(n),
            MAXIMUM,
            NUMERIC if n > 1 else FLOATS,
            traits=PICKS,
            observe=at_maximum(n),
        )
        for n in (1, 2, 3)
    ),
    *(
        pool(
            f"adaptive_avg_pool{n}d",
            adaptive(n),
            products(of_adaptive_window(n)),
            traits=LINEAR,
            aten="adaptive_avg_pool2d" if n == 2 else "",
        )
        for n in (1, 2, 3)
    ),
    *(
        pool(
            f"adaptive_max_pool{n}d",
            adaptive(n, VALUES, return_indices=(True,)),
            MAXIMUM,
            traits=PICKS,
            observe=at_maximum(n),
        )
        for n in (1, 2, 3)
    ),
    *(
        pool(f"lp_pool{n}d", power(n), accumulated(of_root(n), of_power_window(n)), FLOAT)
        for n in (1, 2, 3)
    ),
    *(
        pool(f"max_unpool{n}d", unpool(n), UNPOOL, traits=frozenset({"constant"}))
        for n in (1, 2, 3)
    ),
]
