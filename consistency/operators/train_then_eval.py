"""Normalization in training, twice, and then in evaluation: what the running statistics were is
judged with what came of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from .declare import POSITIVE, Call, Domain, Drawing, Operator, accumulated, call
from .hooks import Args, Kwargs, Tensors, hook
from .normalization_magnitudes import by_channel, channel_sizes, weighted, written

SCALE = Domain(-2.0, 2.0)
DATA = Domain(-4.0, 4.0)


def batch(
    mean: torch.Tensor, variance: torch.Tensor, first: torch.Tensor, second: torch.Tensor,
    last: torch.Tensor,
    weight: Any = None, bias: Any = None, momentum: float = 0.1,
) -> list[torch.Tensor]:  # fmt: skip
    def apply(x: torch.Tensor, training: bool) -> torch.Tensor:
        return functional.batch_norm(x, mean, variance, weight, bias, training, momentum)

    return [apply(first, True), apply(second, True), apply(last, False)]


def instance(
    mean: torch.Tensor, variance: torch.Tensor, first: torch.Tensor, second: torch.Tensor,
    last: torch.Tensor,
    weight: Any = None, bias: Any = None, momentum: float = 0.1,
) -> list[torch.Tensor]:  # fmt: skip
    def apply(x: torch.Tensor, own: bool) -> torch.Tensor:
        return functional.instance_norm(x, mean, variance, weight, bias, own, momentum)

    return [apply(first, True), apply(second, True), apply(last, False)]


def drawn(d: Drawing) -> Call:
    channels, spatial = d.size(1, 9), d.shape(1, 2, least=2, most=9, elements=64)
    statistics = (
        d.tensor((channels,), SCALE, layout=False),
        d.tensor((channels,), POSITIVE, layout=False),
    )
    inputs = [d.tensor((d.size(2, 9), channels, *spatial), DATA) for _ in range(3)]
    affine = [d.tensor((channels,), SCALE, layout=False) for _ in range(2 * d.flag())]
    return call(*statistics, *inputs, *affine, momentum=d.choice(0.5, 0.25, 0.125))


def per_channel(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[2].shape[0] * math.prod(args[2].shape[2:]))


def seen(written: torch.Tensor, argument: torch.Tensor) -> torch.Tensor:
    """Statistics that were written, as the call sees them: an argument may be a view of more."""
    if written.shape == argument.shape:
        return written
    return written.as_strided(argument.shape, argument.stride(), argument.storage_offset())


def sizes(instance: bool) -> Any:
    """S of both outputs in training, of the one in evaluation, and of the running statistics, which
    carry the batches' errors."""

    @hook
    def size(
        outputs: Tensors, mean: torch.Tensor, variance: torch.Tensor, first: torch.Tensor,
        second: torch.Tensor,
        last: torch.Tensor, weight: Any = None, bias: Any = None, momentum: float = 0.1,
    ) -> list[Any]:  # fmt: skip
        means, variances = seen(outputs[3], mean), seen(outputs[4], variance)
        training = [channel_sizes(x, None, None, EPS, True, instance)[0] for x in (first, second)]
        moved = [written(x, (x, means, variances)) for x in (first, second)]
        size_of_mean, size_of_variance = (moved[0][i] + moved[1][i] for i in (0, 1))
        shape = by_channel(last)
        deviation = (variances.reshape(shape) + EPS).sqrt()
        unit = (last - means.reshape(shape)).abs() / deviation
        running = (last.abs() + size_of_mean) / deviation + unit * (
            1.0 + size_of_variance / deviation**2
        )
        return [
            *(weighted(s, shape, weight, bias) for s in (*training, running)),
            size_of_mean,
            size_of_variance,
        ]

    return size


EPS = 1e-5
OPERATORS = [
    Operator(
        name=f"nn.functional.{name}.train_then_eval", family="sequences", sample=drawn,
        function=function, dtypes=("float32",),
        error=accumulated(sizes(name == "instance_norm"), per_channel), differentiable=False,
        mutates=(0, 1),
    )
    for name, function in (("batch_norm", batch), ("instance_norm", instance))
]  # fmt: skip
