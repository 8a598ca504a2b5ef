"""Normalisation. S = ((|x| + mean|x|)/σ)·|weight| + |bias|: what a two-pass or running computation may lose, one pass over x² does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ._shared import Args, Kwargs, Outputs, largest, magnitude, some
from .declare import FLOAT, FLOATS, POSITIVE, SUMMED, Call, Domain, Drawing, ErrorModel, Operator, Sample, accumulated, call

SCALE = Domain(-2.0, 2.0)
EPSILONS = (1e-3, 1e-6, 2.0**-8)


def affine(d: Drawing, shape: Sequence[int]) -> tuple[Any, ...]:
    """Weight and bias, the weight alone, or neither."""
    kind = d.choice("neither", "both", "weight")
    weight = d.tensor(shape, SCALE) if kind != "neither" else None
    return weight, d.tensor(shape, SCALE) if kind == "both" else None


def statistics(d: Drawing, channels: int) -> tuple[Any, Any]:
    """Running mean and variance, which training writes to."""
    return d.tensor((channels,), SCALE, overlap=False), d.tensor((channels,), POSITIVE, overlap=False)


def batch_norm(d: Drawing) -> Call:
    """Evaluation, or training with at least two elements per channel."""
    training = d.flag()
    channels, spatial = d.size(1, 17), d.shape(0, 3, most=17, elements=128)
    batch = d.size(2 if training and math.prod(spatial) == 1 else 1, max(2, min(65, 8192 // (channels * math.prod(spatial)))))
    x = d.tensor((batch, channels, *spatial), SUMMED)
    args = (x, *statistics(d, channels), *affine(d, (channels,)))
    return call(*args, training=training, **some(d, momentum=(0.5, 0.0, 1.0), eps=EPSILONS))


def instance_norm(d: Drawing) -> Call:
    """With the input's own statistics, running ones updated or not, or the running ones alone."""
    channels, spatial = d.size(1, 17), (d.size(2, 33), *d.shape(0, 2, most=9, elements=16))
    x = d.tensor((d.size(1, 4), channels, *spatial), SUMMED)
    kind = d.choice("own", "update", "running")
    running = statistics(d, channels) if kind != "own" else (None, None)
    own = {"use_input_stats": False} if kind == "running" else {}
    return call(x, *running, *affine(d, (channels,)), **own, **some(d, momentum=(0.5,), eps=EPSILONS))


def layer_norm(d: Drawing) -> Call:
    """Over one to three last dimensions, up to 2048 elements."""
    normalized = (*d.shape(0, 2, most=5, elements=8), d.size(2, 2048))
    rows = d.shape(0, 2, most=17, elements=max(1, 8192 // math.prod(normalized)))
    return call(d.tensor((*rows, *normalized), SUMMED), list(normalized), *affine(d, normalized), **some(d, eps=EPSILONS))


def rms_norm(d: Drawing) -> Call:
    """As :func:`layer_norm`, always with eps: the default depends on the dtype."""
    normalized = (*d.shape(0, 1, most=5), d.size(1, 1024))
    rows = d.shape(0, 2, most=17, elements=max(1, 8192 // math.prod(normalized)))
    weight = d.tensor(normalized, SCALE) if d.flag() else None
    return call(d.tensor((*rows, *normalized), SUMMED), list(normalized), weight, d.choice(2.0**-16, *EPSILONS))


def group_norm(d: Drawing) -> Call:
    groups, width, spatial = d.size(1, 8), d.size(1, 4), d.shape(0, 3, most=9, elements=128)
    width = max(width, 2) if math.prod(spatial) == 1 else width
    x = d.tensor((d.size(1, 4), groups * width, *spatial), SUMMED)
    return call(x, groups, *affine(d, (groups * width,)), **some(d, eps=EPSILONS))


def local_response_norm(d: Drawing) -> Call:
    shape = (d.size(1, 3), d.size(1, 33), *d.shape(1, 2, most=9, elements=64))
    x = d.tensor(shape, Domain(-8.0, 8.0))
    return call(x, d.size(1, 9), **some(d, alpha=(1.0, 0.125), beta=(0.5, 1.0), k=(2.0,)))


def normalize(d: Drawing) -> Call:
    """The default eps of 1e-12 is zero in float16, so there another one is given."""
    shape = d.shape(1, 3, elements=4096)
    eps = {"eps": 2.0**-10} if d.dtype == "float16" else some(d, eps=(2.0**-10, 1.0))
    return call(d.tensor(shape, SUMMED), **some(d, p=(1.0, math.inf, 3.0)), dim=d.dim(shape), **eps)


def standardised(x: torch.Tensor, dims: list[int], eps: float, shape: Sequence[int], weight: Any, bias: Any) -> torch.Tensor:
    """((|x| + mean|x|)/σ)·|weight| + |bias|, with weight and bias laid out as ``shape``."""
    deviation = (x.var(dims, keepdim=True, unbiased=False) + eps).sqrt()
    return scaled((x.abs() + x.abs().mean(dims, keepdim=True)) / deviation, shape, weight, bias)


def scaled(x: torch.Tensor, shape: Sequence[int], weight: Any, bias: Any) -> torch.Tensor:
    x = x if weight is None else x * weight.abs().reshape(shape)
    return x if bias is None else x + bias.abs().reshape(shape)


def by_channel(x: torch.Tensor) -> list[int]:
    return [1, x.shape[1], *[1] * (x.ndim - 2)]


@magnitude
def of_channels(
    outputs: Outputs, input: torch.Tensor, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5, use_input_stats: bool = True, instances: bool = False,
) -> Any:  # fmt: skip
    """Batch and instance norm: the result, and (where written) the running mean and variance."""
    channels, dims = by_channel(input), [0, *range(2, input.ndim)][instances:]
    if not training:
        center, deviation = running_mean.reshape(channels), (running_var.reshape(channels) + eps).sqrt()
        return [scaled((input.abs() + center.abs()) / deviation, channels, weight, bias), *(largest(o) for o in outputs[1:])]
    result, mean = standardised(input, dims, eps, channels, weight, bias), input.mean(dims, keepdim=True)
    variance = ((input - mean) ** 2 + mean.abs() * (input - mean).abs()).mean(dims, keepdim=True) * 2.0
    moved = (largest(input.abs().mean(dims)), largest(variance))
    return [result, *(s + largest(o) for s, o in zip(moved, outputs[1:], strict=False))]


@magnitude
def of_instances(outputs: Outputs, *args: Any, use_input_stats: bool = True, **kwargs: Any) -> Any:
    return of_channels(args, {**kwargs, "training": use_input_stats, "instances": True}, outputs)


@magnitude
def of_layers(outputs: Outputs, input: torch.Tensor, shape: list[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return standardised(input, list(range(-len(shape), 0)), eps, shape, weight, bias)


@magnitude
def of_groups(outputs: Outputs, input: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    grouped = input.reshape(input.shape[0], groups, -1)
    plain = standardised(grouped, [-1], eps, (), None, None).reshape(input.shape)
    return scaled(plain, by_channel(input), weight, bias)


def per_channel(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n: elements per channel in training, nothing is accumulated in evaluation."""
    return args[0].numel() / max(args[0].shape[1], 1) if kwargs.get("training") else 1.0


def per_instance(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[0][0, 0].numel()) if kwargs.get("use_input_stats", True) else 1.0


def per_layer(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(math.prod(args[1]))


def per_group(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[0][0].numel() // args[1])


def along_dim(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[0].shape[kwargs.get("dim", 1)])


def window(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[1])


def norm(name: str, sample: Sample, error: ErrorModel, dtypes: tuple[str, ...] = FLOATS, **more: Any) -> Operator:
    return Operator(name=f"nn.functional.{name}", family="normalisation", sample=sample, error=error, dtypes=dtypes, **more)


WRITES: dict[str, Any] = {"mutates": (1, 2), "differentiable_inputs": (0, 3, 4)}

OPERATORS = [
    norm("batch_norm", batch_norm, accumulated(of_channels, per_channel), **WRITES),
    norm("instance_norm", instance_norm, accumulated(of_instances, per_instance), **WRITES),
    norm("layer_norm", layer_norm, accumulated(of_layers, per_layer)),
    norm("group_norm", group_norm, accumulated(of_groups, per_group)),
    norm("rms_norm", rms_norm, accumulated("output", per_layer)),
    norm("local_response_norm", local_response_norm, accumulated("output", window), FLOAT),
    norm("normalize", normalize, accumulated("output", along_dim)),
]
