"""Normalisation. S = ((|x| + mean|x|)/σ)·|weight| + |bias|: what a two-pass or running computation may lose, one pass over x² does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ._shared import Args, Kwargs, Outputs, largest, magnitude, some
from .declare import FLOAT, FLOATS, POSITIVE, SUMMED, Call, Domain, Drawing, ErrorModel, Magnitude, Operator, Sample, accumulated, call

SCALE = Domain(-2.0, 2.0)
EPSILONS = (1e-3, 1e-6, 2.0**-8)
Sizes = tuple[torch.Tensor, torch.Tensor]  # of x̂, and of the gradient of x


def affine(d: Drawing, shape: Sequence[int], *, layout: bool = True) -> tuple[Any, ...]:
    """Weight and bias, the weight alone, or neither."""
    kind = d.choice("neither", "both", "weight")
    weight = d.tensor(shape, SCALE, layout=layout) if kind != "neither" else None
    return weight, d.tensor(shape, SCALE, layout=layout) if kind == "both" else None


def channelwise(d: Drawing, channels: int, *, running: bool = True) -> tuple[Any, ...]:
    """Running mean and variance, which training writes to, weight and bias.

    All contiguous: torch's gradient of (N, C) inputs on the CPU reads strided ones as if they were.
    """
    mean = d.tensor((channels,), SCALE, layout=False) if running else None
    variance = d.tensor((channels,), POSITIVE, layout=False) if running else None
    return mean, variance, *affine(d, (channels,), layout=False)


def batch_norm(d: Drawing) -> Call:
    """Evaluation, or training with at least two elements per channel."""
    training = d.flag()
    channels, spatial = d.size(1, 17), d.shape(0, 3, most=17, elements=128)
    batch = d.size(2 if training and math.prod(spatial) == 1 else 1, max(2, min(65, 8192 // (channels * math.prod(spatial)))))
    x = d.tensor((batch, channels, *spatial), SUMMED)
    return call(x, *channelwise(d, channels), training=training, **some(d, momentum=(0.5, 0.0, 1.0), eps=EPSILONS))


def instance_norm(d: Drawing) -> Call:
    """With the input's own statistics, running ones updated or not, or the running ones alone."""
    channels, spatial = d.size(1, 17), (d.size(2, 33), *d.shape(0, 2, most=9, elements=16))
    x = d.tensor((d.size(1, 4), channels, *spatial), SUMMED)
    kind = d.choice("own", "update", "running")
    switch = {"use_input_stats": False} if kind == "running" else {}
    return call(x, *channelwise(d, channels, running=kind != "own"), **switch, **some(d, momentum=(0.5,), eps=EPSILONS))


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


def own(x: torch.Tensor, dims: list[int], eps: float) -> Sizes:
    """Of x̂ = (x − mean)/σ: (|x| + mean|x|)/σ, and of its gradient: (g − mean g − x̂·mean(g·x̂))/σ with cotangents g of at most 1."""
    deviation = (x.var(dims, keepdim=True, unbiased=False) + eps).sqrt()
    size = (x.abs() + x.abs().mean(dims, keepdim=True)) / deviation
    unit = (x - x.mean(dims, keepdim=True)).abs() / deviation
    return size, (2.0 + unit) * (1.0 + size + size.mean(dims, keepdim=True)) / deviation


def running(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, eps: float) -> Sizes:
    """The same with statistics that are given."""
    deviation = (variance.reshape(by_channel(x)) + eps).sqrt()
    return (x.abs() + mean.abs().reshape(by_channel(x))) / deviation, (1.0 / deviation).expand(x.shape)


def by_channel(x: torch.Tensor) -> list[int]:
    return [1, x.shape[1], *[1] * (x.ndim - 2)]


def scaled(sizes: Sizes, shape: Sequence[int], weight: Any, bias: Any) -> torch.Tensor:
    """|x̂|·|weight| + |bias|, with weight and bias laid out as ``shape``."""
    size = sizes[0] if weight is None else sizes[0] * weight.abs().reshape(shape)
    return size if bias is None else size + bias.abs().reshape(shape)


def slopes(gradients: Outputs, sizes: Sizes, shape: Sequence[int], weight: Any) -> list[Any]:
    """Of x, weight and bias, as far as they are differentiated."""
    of_input = sizes[1] * (1.0 if weight is None else largest(weight))
    of_weight = 2.0 * sizes[0].sum_to_size(tuple(shape))
    found = [of_input, of_weight, of_weight.new_full((), sizes[0].numel() / of_weight.numel())]
    return [size.reshape(g.shape) if size.numel() == g.numel() else size.expand(g.shape) for size, g in zip(found, gradients, strict=False)]


def channel_sizes(x: torch.Tensor, mean: Any, variance: Any, eps: float, batch: bool, instance: bool) -> Sizes:
    """Statistics of each channel, over the batch or of each instance, or running ones."""
    return own(x, [0, *range(2, x.ndim)][instance:], eps) if batch else running(x, mean, variance, eps)


def written(x: torch.Tensor, outputs: Outputs) -> list[float]:
    """Running mean and variance: σ² + |mean|·|x − mean| beside what was there before."""
    dims = [0, *range(2, x.ndim)]
    mean = x.mean(dims, keepdim=True)
    moved = (x.abs().mean(dims), 2.0 * ((x - mean) ** 2 + mean.abs() * (x - mean).abs()).mean(dims))
    return [largest(size) + largest(output) for size, output in zip(moved, outputs[1:], strict=False)]


def of_channels(instance: bool, backward: bool) -> Magnitude:
    """Batch norm, and instance norm, whose switch has another name."""

    @magnitude
    def size(
        outputs: Outputs, x: torch.Tensor, mean: Any = None, variance: Any = None, weight: Any = None, bias: Any = None,
        training: bool = False, use_input_stats: bool = True, eps: float = 1e-5, momentum: float = 0.1,
    ) -> list[Any]:  # fmt: skip
        batch = use_input_stats if instance else training
        sizes = channel_sizes(x, mean, variance, eps, batch, instance)
        if backward:
            return slopes(outputs, sizes, by_channel(x), weight)
        statistics = written(x, outputs) if batch else [largest(output) for output in outputs[1:]]
        return [scaled(sizes, by_channel(x), weight, bias), *statistics]

    return size


@magnitude
def of_layers(outputs: Outputs, x: torch.Tensor, shape: list[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return scaled(own(x, list(range(-len(shape), 0)), eps), shape, weight, bias)


@magnitude
def of_layers_slopes(outputs: Outputs, x: torch.Tensor, shape: list[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return slopes(outputs, own(x, list(range(-len(shape), 0)), eps), shape, weight)


def grouped(x: torch.Tensor, groups: int, eps: float) -> Sizes:
    size, slope = own(x.reshape(x.shape[0], groups, -1), [-1], eps)
    return size.reshape(x.shape), slope.reshape(x.shape)


@magnitude
def of_groups(outputs: Outputs, x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return scaled(grouped(x, groups, eps), by_channel(x), weight, bias)


@magnitude
def of_groups_slopes(outputs: Outputs, x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return slopes(outputs, grouped(x, groups, eps), by_channel(x), weight)


@magnitude
def of_root_mean_square(outputs: Outputs, x: torch.Tensor, shape: list[int], weight: Any, eps: float) -> Any:
    """Gradients: no mean is taken away, so x̂ is as precise as x."""
    dims = list(range(-len(shape), 0))
    root = ((x**2).mean(dims, keepdim=True) + eps).sqrt()
    unit = x.abs() / root
    return slopes(outputs, (unit, (1.0 + unit * unit.mean(dims, keepdim=True)) / root), shape, weight)


@magnitude
def of_direction(outputs: Outputs, x: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """The gradient of y = x/‖x‖ is (g − (g·y)·∂‖x‖)/‖x‖, and no element of ∂‖x‖ is above 1."""
    length = torch.linalg.vector_norm(x, p, dim, keepdim=True).clamp(min=eps)
    return (1.0 + (x / length).abs().sum(dim, keepdim=True)) / length.expand(x.shape)


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
    norm("batch_norm", batch_norm, accumulated(of_channels(False, False), per_channel, backward=of_channels(False, True)), **WRITES),
    norm("instance_norm", instance_norm, accumulated(of_channels(True, False), per_instance, backward=of_channels(True, True)), **WRITES),
    norm("layer_norm", layer_norm, accumulated(of_layers, per_layer, backward=of_layers_slopes)),
    norm("group_norm", group_norm, accumulated(of_groups, per_group, backward=of_groups_slopes)),
    norm("rms_norm", rms_norm, accumulated("output", per_layer, backward=of_root_mean_square)),
    norm("local_response_norm", local_response_norm, accumulated("output", window), FLOAT),
    norm("normalize", normalize, accumulated("output", along_dim, backward=of_direction)),
]
