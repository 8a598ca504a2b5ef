"""Batch, layer and group normalization, which also return the statistics that they save."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from .... import operators
from ....operators.declare import Terms, accumulated
from ....operators.hooks import Args, Kwargs, Tensors
from ....operators.magnitudes import largest
from ....operators.normalization_magnitudes import by_channel, channel_sizes, weighted
from .declaration import KernelDeclaration, shaped, with_arguments


def _spread(x: torch.Tensor, dims: list[int], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """S of a mean: mean|x|. S of 1/σ: 1/σ · (1 + |mean|/σ), because a variance loses as many digits
    as the mean is large."""
    mean, variance = x.mean(dims, keepdim=True), x.var(dims, keepdim=True, unbiased=False)
    inverse = (variance + eps).rsqrt()
    return x.abs().mean(dims, keepdim=True), inverse * (1.0 + mean.abs() * inverse)


def _magnitude_of_layer_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Any]:
    x, shape, weight, bias, eps = args
    values: Any = operators.get("nn.functional.layer_norm").error.magnitude
    return shaped(
        [
            values((x, shape, weight, bias, eps), {}, outputs[:1]),
            *_spread(x, list(range(-len(shape), 0)), eps),
        ],
        outputs,
    )


def _slopes_of_layer_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
    slopes: Any = operators.get("nn.functional.layer_norm").error.backward
    return slopes(args[:5], {}, outputs)


def _terms_of_layer_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(math.prod(args[1]))


def _magnitude_of_group_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Any]:
    x, weight, bias, count, _channels, _pixels, groups, eps = args
    values: Any = operators.get("nn.functional.group_norm").error.magnitude
    return shaped(
        [
            values((x, groups, weight, bias, eps), {}, outputs[:1]),
            *_spread(x.reshape(count, groups, -1), [-1], eps),
        ],
        outputs,
    )


def _terms_of_group_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[0][0].numel() // args[6]) if len(args[0]) else 1.0


def batch_norm_arguments(
    args: Args, base: str
) -> tuple[torch.Tensor, Any, Any, Any, Any, bool, float, float]:
    """(x, weight, bias, running mean, running variance, training, momentum, eps) of each way to
    write batch norm."""
    x, weight, bias = args[:3]
    match base:
        case "_native_batch_norm_legit" if isinstance(
            args[3], bool
        ):  # the overload without running statistics
            return x, weight, bias, None, None, args[3], args[4], args[5]
        case "_native_batch_norm_legit_no_training":
            return x, weight, bias, args[3], args[4], False, args[5], args[6]
        case "_batch_norm_with_update":
            return x, weight, bias, args[3], args[4], True, args[5], args[6]
        case "_batch_norm_no_update":
            return x, weight, bias, args[3], args[4], False, args[5], args[6]
    return x, weight, bias, args[3], args[4], args[5], args[6], args[7]


def _magnitude_of_batch_norm(base: str) -> Callable[..., Any]:
    def size(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Any]:
        x, weight, bias, mean, variance, training, _, eps = batch_norm_arguments(args, base)
        dims = [0, *range(2, x.ndim)]
        sizes, _ = channel_sizes(x, mean, variance, eps, training, False)
        result: list[Any] = [weighted(sizes, by_channel(x), weight, bias)]
        # What is saved for the gradient, and then the running statistics that were written.
        saved = 0 if base == "batch_norm" else 2
        result += (
            shaped(list(_spread(x, dims, eps)), outputs[1:3])
            if training
            else [largest(o) for o in outputs[1:3]]
        )[:saved]
        center = x.mean(dims, keepdim=True).abs()
        moved = (
            largest(x.abs().mean(dims)),
            2.0 * largest((x**2).mean(dims) + (center * x.abs()).mean(dims)),
        )
        return result + [m + largest(o) for m, o in zip(moved, outputs[1 + saved :], strict=False)]

    return size


def _slopes_of_batch_norm(base: str) -> Callable[..., Any]:
    def slopes(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        x, weight, bias, mean, variance, *others = batch_norm_arguments(args, base)
        of_gradients: Any = operators.get("nn.functional.batch_norm").error.backward
        return of_gradients((x, mean, variance, weight, bias, *others), {}, outputs)

    return slopes


def _terms_of_batch_norm(base: str) -> Terms:
    def terms(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
        x = args[0]
        return float(x.numel() / max(x.shape[1], 1)) if batch_norm_arguments(args, base)[5] else 1.0

    return terms


def batch_norm_in_float64(read: Callable[..., Any], *args: Any) -> tuple[torch.Tensor, ...]:
    """The result, and the mean and 1/σ that are saved for the gradient, of a device's own batch
    norm.

    ``read`` gives (x, weight, bias, running mean, running variance, training, momentum, eps) of its
    arguments.
    """
    return tuple(torch.native_batch_norm(*read(args)))


def batch_norm(base: str) -> KernelDeclaration:
    error = accumulated(
        _magnitude_of_batch_norm(base),
        _terms_of_batch_norm(base),
        backward=_slopes_of_batch_norm(base),
    )
    needs_float64 = base not in (
        "batch_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
    )
    reference = (
        functools.partial(batch_norm_in_float64, functools.partial(batch_norm_arguments, base=base))
        if needs_float64
        else None
    )
    output_count = None if base == "batch_norm" else 3
    return KernelDeclaration(error, "nn.functional.batch_norm", output_count, reference)


@functools.cache
def kernels() -> dict[str, KernelDeclaration]:
    # layer_norm and group_norm are the same as torch's own functions, but for a switch at the end.
    result = {
        name: with_arguments(f"nn.functional.{name}", lambda args, kwargs: (args[:5], kwargs))
        for name in ("layer_norm", "group_norm")
    }
    result |= {
        name: batch_norm(name)
        for name in (
            "native_batch_norm", "_native_batch_norm_legit", "batch_norm",
            "_native_batch_norm_legit_no_training", "_batch_norm_with_update",
            "_batch_norm_no_update", "cudnn_batch_norm", "miopen_batch_norm",
        )
    }  # fmt: skip
    result["native_layer_norm"] = KernelDeclaration(
        accumulated(_magnitude_of_layer_norm, _terms_of_layer_norm, backward=_slopes_of_layer_norm),
        "nn.functional.layer_norm",
        3,
    )
    result["native_group_norm"] = KernelDeclaration(
        accumulated(_magnitude_of_group_norm, _terms_of_group_norm), "nn.functional.group_norm", 3
    )
    return result
