"""Normalization: over a batch, instances, layers, groups, and neighboring channels. S is in
:mod:`.normalization_magnitudes`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .declare import (
    FLOAT,
    FLOATS,
    HALF,
    POSITIVE,
    SQUARED,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
)
from .hooks import Tensors, hook
from .magnitudes import finite
from .normalization_magnitudes import (
    along_dim,
    least_of_layers,
    of_channels,
    of_direction,
    of_groups,
    of_groups_slopes,
    of_layers,
    of_layers_slopes,
    of_response,
    of_root_mean_square,
    per_channel,
    per_group,
    per_instance,
    per_layer,
    window,
)
from .parameter_sampling import optional_arguments

SCALE = Domain(-2.0, 2.0)
SCALES = Domain(specials=("0", "1", "-1"), wide=(-10, 10))
VARIANCE = Domain(0.0, 2.0**10, specials=("0", "tiny"), wide=(-24, 9))
EPSILONS = (1e-3, 1e-6, 2.0**-8, 1e-12, 1.0, 64.0)
CLOSE = Domain(-(2.0**-12), 2.0**-12)  # variances far below the default eps


def spread_out(d: Drawing) -> Domain:
    """What is normalized: now and then numbers so close to each other that eps decides."""
    return CLOSE if d.integer(0, 15) == 15 else SQUARED


def parameters(d: Drawing) -> dict[str, Any]:
    """The dtype of weights and statistics: one time in eight float32 beside the half formats."""
    mixed = d.dtype in HALF and d.integer(0, 7) == 7
    return {"dtype": "float32"} if mixed else {}


def affine(
    d: Drawing, shape: Sequence[int], *, layout: bool = True, **dtype: Any
) -> tuple[Any, ...]:
    """Weight and bias, the weight alone, or neither; one time in eight from 0 to a thousand."""
    kind = d.choice("neither", "both", "weight")
    scale = SCALES if d.integer(0, 7) == 7 else SCALE
    weight = d.tensor(shape, scale, layout=layout, **dtype) if kind != "neither" else None
    return weight, d.tensor(shape, scale, layout=layout, **dtype) if kind == "both" else None


def channelwise(d: Drawing, channels: int, *, running: bool = True) -> tuple[Any, ...]:
    """Running mean and variance, which training writes to, weight and bias.

    All contiguous: torch's gradient of (N, C) inputs on the CPU reads strided ones as if they were.
    """
    dtype, spread = parameters(d), VARIANCE if d.integer(0, 7) == 7 else POSITIVE
    mean = d.tensor((channels,), SCALE, layout=False, **dtype) if running else None
    variance = d.tensor((channels,), spread, layout=False, **dtype) if running else None
    return mean, variance, *affine(d, (channels,), layout=False, **dtype)


def pixels(d: Drawing, most: int) -> tuple[int, ...]:
    """None to three spatial dimensions, half of the time the two of an image."""
    low, high = (2, 2) if d.flag() else (0, 3)
    return d.shape(low, high, most=most, elements=128)


def batch_norm(d: Drawing) -> Call:
    """Evaluation, or training with at least two elements per channel."""
    training = d.flag()
    channels, spatial = d.size(1, 17), pixels(d, 17)
    batch = d.size(
        2 if training and math.prod(spatial) == 1 else 1,
        max(2, min(65, 8192 // (channels * math.prod(spatial)))),
    )
    x = d.tensor((batch, channels, *spatial), spread_out(d))
    return call(
        x,
        *channelwise(d, channels),
        training=training,
        **optional_arguments(d, momentum=(0.5, 0.0, 1.0), eps=EPSILONS),
    )


def instance_norm(d: Drawing) -> Call:
    """With the input's own statistics, running ones updated or not, or the running ones alone."""
    channels, spatial = d.size(1, 17), (d.size(2, 33), *d.shape(0, 2, most=9, elements=16))
    x = d.tensor((d.size(1, 4), channels, *spatial), spread_out(d))
    kind = d.choice("own", "update", "running")
    switch = {"use_input_stats": False} if kind == "running" else {}
    return call(
        x,
        *channelwise(d, channels, running=kind != "own"),
        **switch,
        **optional_arguments(d, momentum=(0.5, 0.0, 1.0), eps=EPSILONS),
    )


def layer_norm(d: Drawing) -> Call:
    """Over one to three last dimensions, up to 2048 elements; of a single one seldom, whose result
    is the bias."""
    least = 1 if d.integer(0, 15) == 15 else 2
    normalized = (*d.shape(0, 2, most=5, elements=8), d.size(least, 2048))
    rows = d.shape(0, 2, most=17, elements=max(1, 8192 // math.prod(normalized)))
    return call(
        d.tensor((*rows, *normalized), spread_out(d)),
        list(normalized),
        *affine(d, normalized, **parameters(d)),
        **optional_arguments(d, eps=EPSILONS),
    )


def rms_norm(d: Drawing) -> Call:
    """As :func:`layer_norm`; the default eps depends on the dtype."""
    normalized = (*d.shape(0, 1, most=5), d.size(1, 1024))
    rows = d.shape(0, 2, most=17, elements=max(1, 8192 // math.prod(normalized)))
    weight, _ = affine(d, normalized)
    return call(
        d.tensor((*rows, *normalized), spread_out(d)),
        list(normalized),
        weight,
        d.choice(2.0**-16, *EPSILONS, None),
    )


def group_norm(d: Drawing) -> Call:
    """Groups of one channel or several; those of a single number seldom, whose result is the bias,
    and only several: torch refuses one."""
    groups, width, spatial = d.size(1, 8), d.size(1, 4), pixels(d, 9)
    batch = d.size(1, 4)
    alone = width == math.prod(spatial) == 1
    if alone and (d.integer(0, 7) < 7 or batch * groups == 1):
        width = 2
    x = d.tensor((batch, groups * width, *spatial), spread_out(d))
    weights = affine(d, (groups * width,), **parameters(d))
    return call(x, groups, *weights, **optional_arguments(d, eps=EPSILONS))


def local_response_norm(d: Drawing) -> Call:
    """Of images, rows or volumes; windows wider than there are channels, too."""
    shape = (d.size(1, 3), d.size(1, 33), *d.shape(1, 3, most=9, elements=64))
    domain = d.choice(Domain(-8.0, 8.0), Domain(wide=(-10, 10)))
    x = d.tensor(shape, domain, layout=len(shape) < 5)  # torch refuses permuted volumes
    options = optional_arguments(
        d, alpha=(1.0, 0.125, 0.0), beta=(0.5, 1.0, 0.0, 2.0, -0.5), k=(2.0, 0.125)
    )
    return call(x, d.size(1, 9), **options)


def normalize(d: Drawing) -> Call:
    """The default eps of 1e-12 is zero in float16, so there another one is given.

    In float16 the gradient of the 3-norm divides by its square, which leaves the format for short
    vectors (docs/findings.md).
    """
    shape = d.shape(1, 3, elements=4096)
    eps = {"eps": 2.0**-10} if d.dtype == "float16" else optional_arguments(d, eps=(2.0**-10, 1.0))
    order = optional_arguments(d, p=(1.0, math.inf, 3.0, 0.5, 4.0))
    powers = d.dtype == "float16" and order.get("p") in (3.0, 0.5, 4.0)
    domain = Domain(0.25, 8.0) if powers else spread_out(d)
    return call(d.tensor(shape, domain), **order, dim=d.dim(shape), **eps)


@hook
def of_unit(
    outputs: Tensors, x: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12
) -> torch.Tensor:
    """|ref|; a root other than the square root carries the rounding of its exponent, times the
    logarithm of what is under it, and one of p < 1 the p-th part of the sum's."""
    if p in (0.0, 1.0, 2.0, math.inf):
        return outputs[0].abs()
    length = torch.linalg.vector_norm(x, p, dim, keepdim=True)
    return outputs[0].abs() * (2.0 + finite(length.log()).abs()) * max(1.0, 1.0 / p)


def norm(
    name: str, sample: Sample, error: ErrorModel, dtypes: tuple[str, ...] = FLOATS, **more: Any
) -> Operator:
    return Operator(
        name=f"nn.functional.{name}",
        family="normalization",
        sample=sample,
        error=error,
        dtypes=dtypes,
        **more,
    )


WRITES: dict[str, Any] = {"mutates": (1, 2), "differentiable_inputs": (0, 3, 4)}

BATCH = accumulated(of_channels(False, False), per_channel, backward=of_channels(False, True))
INSTANCE = accumulated(of_channels(True, False), per_instance, backward=of_channels(True, True))
LAYER = accumulated(of_layers, per_layer, backward=of_layers_slopes, below=least_of_layers)
OPERATORS = [
    norm("batch_norm", batch_norm, BATCH, **WRITES),
    norm("instance_norm", instance_norm, INSTANCE, **WRITES),
    norm("layer_norm", layer_norm, LAYER),
    norm("group_norm", group_norm, accumulated(of_groups, per_group, backward=of_groups_slopes)),
    norm("rms_norm", rms_norm, accumulated("output", per_layer, backward=of_root_mean_square)),
    norm("local_response_norm", local_response_norm, accumulated(of_response, window), FLOAT),
    norm(
        "normalize", normalize, accumulated(of_unit, along_dim, backward=of_direction), complex=True
    ),
]
