"""S of normalized values and of their gradients, and n: how many numbers share a mean.

A value is as precise as ((|x| + mean|x|)/σ)·|weight| + |bias|: what two passes or a running mean
may lose; one over x² loses more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .declare import Magnitude
from .hooks import Tensors, hook
from .magnitudes import FEW, largest

Doubles = npt.NDArray[np.float64]
Sizes = tuple[torch.Tensor, torch.Tensor]  # of x̂, and of the gradient of x


def own(x: torch.Tensor, dims: list[int], eps: float) -> Sizes:
    """Of x̂ = (x − mean)/σ: (|x| + mean|x|)/σ, and of its gradient: (g − mean g − x̂·mean(g·x̂))/σ
    with cotangents g of at most 1."""
    centered = x - x.mean(dims, keepdim=True)
    deviation = spread_of(centered, dims, eps)
    size = own_size(x, dims, deviation)
    unit = centered.abs_().div_(deviation)
    return size, (2.0 + unit) * (1.0 + size + size.mean(dims, keepdim=True)) / deviation


def spread_of(centered: torch.Tensor, dims: list[int], eps: float) -> torch.Tensor:
    """√(σ² + eps), from x − mean. Of many numbers a norm takes a fifth of the time of ``var``."""
    norm: torch.Tensor = torch.linalg.vector_norm(centered, 2, dims, keepdim=True)
    members = centered.numel() / norm.numel() if norm.numel() else 1.0
    return norm.mul_(members**-0.5).square_().add_(eps).sqrt_()


def own_size(
    x: torch.Tensor, dims: list[int], deviation: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """(|x| + mean|x|)/σ, in ``out`` if that may be overwritten: few steps and one tensor, because
    every layer norm pays for them."""
    size = torch.abs(x, out=out)
    size = size.add_(size.mean(dims, keepdim=True))
    return size.div_(deviation) if x.numel() <= FEW else size.mul_(deviation.reciprocal())


def _own_size_of_few(x: Doubles, dims: list[int], eps: float) -> Doubles:
    """The same from x, of few numbers, where calls cost more than passes over memory: NumPy's cost
    less. σ of the distances from the first number, so that equal numbers have exactly none."""
    axes, share = tuple(dims), 1.0 / math.prod(x.shape[dim] for dim in dims)
    first: Any = (..., *(slice(0, 1),) * len(dims))
    away = x - x[first]
    away -= np.add.reduce(away, axis=axes, keepdims=True) * share
    np.multiply(away, away, out=away)
    deviation = np.sqrt(np.add.reduce(away, axis=axes, keepdims=True) * share + eps)
    size = np.abs(x)
    size += np.add.reduce(size, axis=axes, keepdims=True) * share
    size /= deviation
    return size


def running(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, eps: float) -> Sizes:
    """The same with statistics that are given."""
    deviation = (variance.reshape(by_channel(x)) + eps).sqrt()
    return (x.abs() + mean.abs().reshape(by_channel(x))) / deviation, (1.0 / deviation).expand(
        x.shape
    )


def by_channel(x: torch.Tensor) -> list[int]:
    return [1, x.shape[1], *[1] * (x.ndim - 2)]


def weighted(size: torch.Tensor, shape: Sequence[int], weight: Any, bias: Any) -> torch.Tensor:
    """|x̂|·|weight| + |bias|, with weight and bias laid out as ``shape``."""
    size = size if weight is None else size * weight.abs().reshape(shape)
    return size if bias is None else size + bias.abs().reshape(shape)


def slopes(gradients: Tensors, sizes: Sizes, shape: Sequence[int], weight: Any) -> list[Any]:
    """Of x, weight and bias, as far as they are differentiated."""
    of_input = sizes[1] * (1.0 if weight is None else largest(weight))
    of_weight = 2.0 * sizes[0].sum_to_size(tuple(shape))
    magnitudes = [of_input, of_weight, of_weight.new_full((), sizes[0].numel() / of_weight.numel())]
    return [
        size.reshape(g.shape) if size.numel() == g.numel() else size.expand(g.shape)
        for size, g in zip(magnitudes, gradients, strict=False)
    ]


def channel_sizes(
    x: torch.Tensor, mean: Any, variance: Any, eps: float, batch: bool, instance: bool
) -> Sizes:
    """Statistics of each channel, over the batch or of each instance, or running ones."""
    return (
        own(x, [0, *range(2, x.ndim)][instance:], eps) if batch else running(x, mean, variance, eps)
    )


def written(x: torch.Tensor, outputs: Tensors) -> list[float]:
    """Running mean and variance: σ² + |mean|·|x − mean| beside what was there before.

    Of n equal numbers the variance is the square of the mean's error, n·u²·mean²: a small part of
    the u·mean² of one pass.
    """
    dims = [0, *range(2, x.ndim)]
    mean = x.mean(dims, keepdim=True)
    squared = 2.0**-24 * (x.numel() / max(x.shape[1], 1)) * mean**2
    moved = (
        x.abs().mean(dims),
        2.0 * ((x - mean) ** 2 + mean.abs() * (x - mean).abs() + squared).mean(dims),
    )
    return [
        largest(size) + largest(output) for size, output in zip(moved, outputs[1:], strict=False)
    ]


def of_channels(instance: bool, backward: bool) -> Magnitude:
    """Batch norm, and instance norm, whose switch has another name."""

    @hook
    def size(
        outputs: Tensors, x: torch.Tensor, running_mean: Any = None, running_var: Any = None,
        weight: Any = None, bias: Any = None,
        training: bool = False, use_input_stats: bool = True, eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> list[Any]:  # fmt: skip
        batch = use_input_stats if instance else training
        sizes = channel_sizes(x, running_mean, running_var, eps, batch, instance)
        if backward:
            return slopes(outputs, sizes, by_channel(x), weight)
        statistics = written(x, outputs) if batch else [largest(output) for output in outputs[1:]]
        return [weighted(sizes[0], by_channel(x), weight, bias), *statistics]

    return size


@hook
def of_layers(
    outputs: Tensors,
    x: torch.Tensor,
    shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    dims = list(range(-len(shape), 0))
    if not x.numel():
        return x
    if x.numel() <= FEW and x.dtype == torch.float64:
        return weighted(
            torch.from_numpy(_own_size_of_few(x.numpy(), dims, eps)), shape, weight, bias
        )
    centered = x - x.mean(dims, keepdim=True)
    deviation = spread_of(centered, dims, eps)
    return weighted(own_size(x, dims, deviation, centered), shape, weight, bias)


@hook
def least_of_layers(
    outputs: Tensors,
    x: torch.Tensor,
    shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> float:
    """A number that is not above S anywhere: mean|x|/√(mean x² + eps) of the row where that is
    smallest, because σ² ≤ mean x², with the smallest weight and bias."""
    rows = x.reshape(-1, math.prod(shape))
    length: Doubles = torch.linalg.vector_norm(rows, 2, 1).numpy()
    share = 1.0 / rows.shape[1]
    least = float((sums_of_moduli(rows.numpy()) * share / np.sqrt(length**2 * share + eps)).min())
    least = least if weight is None else least * float(weight.abs().min())
    return least if bias is None else least + float(bias.abs().min())


def sums_of_moduli(rows: Doubles) -> Doubles:
    """Σ|x| of each row: a few at a time, so that all absolute values are never in memory."""
    total, step = np.empty(len(rows)), max(2 * FEW // max(rows.shape[1], 1), 1)
    scratch = np.empty((step, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        size = np.abs(part, out=scratch[: len(part)])
        np.add.reduce(size, axis=1, out=total[start : start + step])
    return total


@hook
def of_layers_slopes(
    outputs: Tensors,
    x: torch.Tensor,
    shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    return slopes(outputs, own(x, list(range(-len(shape), 0)), eps), shape, weight)


def grouped(x: torch.Tensor, groups: int, eps: float) -> Sizes:
    size, slope = own(x.reshape(x.shape[0], groups, -1), [-1], eps)
    return size.reshape(x.shape), slope.reshape(x.shape)


@hook
def of_groups(
    outputs: Tensors,
    x: torch.Tensor,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    return weighted(grouped(x, groups, eps)[0], by_channel(x), weight, bias)


@hook
def of_groups_slopes(
    outputs: Tensors,
    x: torch.Tensor,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    return slopes(outputs, grouped(x, groups, eps), by_channel(x), weight)


@hook
def of_root_mean_square(
    outputs: Tensors,
    x: torch.Tensor,
    shape: list[int],
    weight: Any = None,
    eps: float | None = None,
) -> Any:
    """Gradients: no mean is taken away, so x̂ is as precise as x. None stands for float64's eps."""
    eps = torch.finfo(torch.float64).eps if eps is None else eps
    dims = list(range(-len(shape), 0))
    root = ((x**2).mean(dims, keepdim=True) + eps).sqrt()
    unit = x.abs() / root
    return slopes(
        outputs, (unit, (1.0 + unit * unit.mean(dims, keepdim=True)) / root), shape, weight
    )


@hook
def of_direction(
    outputs: Tensors, x: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12
) -> Any:
    """The gradient of y = x/‖x‖ is (g − (g·y)·∂‖x‖)/‖x‖. No element of ∂‖x‖ is above 1, unless p is
    below 1: it is |y|ᵖ⁻¹ then."""
    length = torch.linalg.vector_norm(x, p, dim, keepdim=True).clamp(min=eps)
    y = (x / length).abs()
    slope = y.pow(p - 1.0).clamp(min=1.0).where(y > 0.0, 1.0) if p < 1.0 else 1.0
    return (1.0 + slope * y.sum(dim, keepdim=True)) / length.expand(x.shape)


@hook
def per_channel(outputs: Tensors, x: Any, *_: Any, training: bool = False, **__: Any) -> float:
    """n: elements per channel in training, nothing is accumulated in evaluation."""
    return float(x.numel() / max(x.shape[1], 1)) if training else 1.0


@hook
def per_instance(
    outputs: Tensors, x: Any, *_: Any, use_input_stats: bool = True, **__: Any
) -> float:
    return float(x[0, 0].numel()) if use_input_stats else 1.0


@hook
def per_layer(outputs: Tensors, x: Any, shape: Any, *_: Any, **__: Any) -> float:
    return float(math.prod(shape))


@hook
def per_group(outputs: Tensors, x: Any, groups: Any, *_: Any, **__: Any) -> float:
    return float(x[0].numel() // groups)


@hook
def along_dim(
    outputs: Tensors,
    x: Any,
    p: float = 2.0,
    dim: int | Sequence[int] | None = 1,
    *_: Any,
    **__: Any,
) -> float:
    """n: the numbers along one dimension, or several; along all for None."""
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return float(math.prod(x.shape[d] for d in dims)) if x.ndim else 1.0


@hook
def window(outputs: Tensors, x: Any, size: Any, *_: Any, **__: Any) -> float:
    return float(size)


@hook
def of_response(
    outputs: Tensors, x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, *_: Any, **__: Any
) -> torch.Tensor:
    """A quotient by a power: the base's own rounding is raised to it."""
    return outputs[0].abs() * max(1.0, abs(beta))
