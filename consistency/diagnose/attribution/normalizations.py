"""Unstable or wrong formulas of means and variances, and of what is normalized by them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted

Formula = Callable[..., Any]
NORMS = (
    "nn.functional.layer_norm",
    "nn.functional.group_norm",
    "nn.functional.batch_norm",
    "nn.functional.instance_norm",
)
_LARGE_MEAN = 4.0  # standard deviations: a smaller mean leaves a variance its digits
VARIANCES = ("var", "std", "var_mean", "std_mean")


def hypotheses(context: AttributionContext) -> Hypotheses:
    """Errors that only an inexact variance makes, whatever else was computed."""
    if context.operator.name in NORMS and not context.special:
        yield FaultHypothesis(
            "one-pass-variance", "one-pass variance", functools.partial(_fit_variance, context), 1
        )
    if context.operator.name in VARIANCES:
        yield FaultHypothesis(
            "one-pass-variance",
            "one-pass variance",
            functools.partial(_cancelled_variance, context),
            1,
        )


def rows() -> list[tuple[tuple[str, ...], str, str, Formula]]:
    """Operators, id and description of a cause, and the formula in their place."""
    rows: list[tuple[tuple[str, ...], str, str, Formula]] = []
    for moments, root, name, words in (
        (_one_pass, _inside, "one-pass-variance", "one-pass variance"),
        (_negative, _inside, "one-pass-variance", "one-pass variance"),
        (_two_pass, _outside, "eps-misplaced", "eps added after the root"),
        (_two_pass, _without, "eps-misplaced", "eps left out"),
        (
            _sample,
            _inside,
            "argument-ignored",
            "the variance of a sample (n − 1) in place of the population's",
        ),
    ):
        rows += [
            ((operator,), name, words, formula)
            for operator, formula in _standard(moments, root).items()
        ]
    rms = "nn.functional.rms_norm"
    rows += [
        ((rms,), "eps-misplaced", words, _rms_norm(root))
        for root, words in ((_outside, "eps added after the root"), (_without, "eps left out"))
    ]
    return rows


def _one_pass(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and E x² − (E x)², the way float32 computes them."""
    y = x.to(torch.float32)
    mean = y.mean(dims, keepdim=True)
    return mean.to(x.dtype), ((y * y).mean(dims, keepdim=True) - mean * mean).clamp_min(0.0).to(
        x.dtype
    )


def _negative(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, with the negative variances that rounding can make."""
    y = x.to(torch.float32)
    mean = y.mean(dims, keepdim=True)
    return mean.to(x.dtype), ((y * y).mean(dims, keepdim=True) - mean * mean).to(x.dtype)


def _two_pass(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return x.mean(dims, keepdim=True), x.var(dims, keepdim=True, unbiased=False)


def _sample(x: torch.Tensor, dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return x.mean(dims, keepdim=True), x.var(dims, keepdim=True, unbiased=True)


def _inside(variance: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.sqrt(variance + eps)


def _outside(variance: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.sqrt(variance) + eps


def _without(variance: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.sqrt(variance)


def _standard(moments: Any, root: Any) -> dict[str, Formula]:
    """Layer, group, instance and batch norm with other moments, or with eps at another place."""

    def affine(y: torch.Tensor, weight: Any, bias: Any, shape: Sequence[int]) -> torch.Tensor:
        y = y if weight is None else y * weight.reshape(shape)
        return y if bias is None else y + bias.reshape(shape)

    def layer(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        mean, variance = moments(x, list(range(-len(shape), 0)))
        return affine((x - mean) / root(variance, eps), weight, bias, list(shape))

    def group(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        y = x.reshape(x.shape[0], groups, -1)
        mean, variance = moments(y, [-1])
        channels = [1, x.shape[1], *[1] * (x.ndim - 2)]
        return affine(((y - mean) / root(variance, eps)).reshape(x.shape), weight, bias, channels)

    def channelwise(dims: Callable[[int], list[int]], flag: str) -> Formula:
        def norm(
            x: Any, mean: Any = None, variance: Any = None, weight: Any = None, bias: Any = None,
            training: bool = False,
            use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
        ) -> Any:  # fmt: skip
            channels = [1, x.shape[1], *[1] * (x.ndim - 2)]
            given = not (training if flag == "training" else use_input_stats)
            result = (
                (mean.reshape(channels), variance.reshape(channels))
                if given
                else moments(x, dims(x.ndim))
            )
            return affine((x - result[0]) / root(result[1], eps), weight, bias, channels)

        return norm

    return {
        "nn.functional.layer_norm": layer,
        "nn.functional.group_norm": group,
        "nn.functional.batch_norm": channelwise(lambda ndim: [0, *range(2, ndim)], "training"),
        "nn.functional.instance_norm": channelwise(
            lambda ndim: list(range(2, ndim)), "use_input_stats"
        ),
    }


def _rms_norm(root: Callable[[torch.Tensor, float], torch.Tensor]) -> Formula:
    def norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
        eps = torch.finfo(torch.float32).eps if eps is None else eps
        y = x / root((x * x).mean(list(range(-len(shape), 0)), keepdim=True), eps)
        return y if weight is None else y * weight

    return norm


def _groups(
    context: AttributionContext,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Actual and expected output of a normalization without weight and bias, one row per mean
    and variance."""
    args = context.reference.arguments.args
    shape, name = context.shape, context.operator.name
    if name.endswith("layer_norm"):
        return context.actual.reshape(-1, math.prod(args[1])), context.expected.reshape(
            -1, math.prod(args[1])
        )
    groups = args[1] if name.endswith("group_norm") else shape[1]
    if name.endswith("batch_norm"):
        a, r = (
            np.moveaxis(v.reshape(shape), 1, 0).reshape(groups, -1)
            for v in (context.actual, context.expected)
        )
        return a, r
    return context.actual.reshape(shape[0] * groups, -1), context.expected.reshape(
        shape[0] * groups, -1
    )


def _fit_variance(context: AttributionContext) -> Predicted:
    """Each row as α·reference + β, if the mean is far larger than the standard deviation: only
    the variance was wrong."""
    rows = _groups(context)
    x = context.reference.arguments.args[0].detach()
    if rows is None or rows[0].shape[1] < 8 or not _large_mean(context, x):
        return []
    a, r = rows
    with np.errstate(all="ignore"):
        centered = r - r.mean(1, keepdims=True)
        slope = (centered * (a - a.mean(1, keepdims=True))).sum(1, keepdims=True) / np.square(
            centered
        ).sum(1, keepdims=True)
        fitted = a.mean(1, keepdims=True) + np.nan_to_num(slope) * centered
    if context.operator.name.endswith("batch_norm"):
        moved = [context.shape[1], context.shape[0], *context.shape[2:]]
        return context.outputs(
            np.ascontiguousarray(np.moveaxis(fitted.reshape(moved), 0, 1)).reshape(-1)
        )
    return context.outputs(fitted.reshape(-1))


def _large_mean(context: AttributionContext, x: torch.Tensor) -> bool:
    spread, mean = float(x.std()), float(x.abs().mean())
    return mean > _LARGE_MEAN * spread


def _cancelled_variance(context: AttributionContext) -> Predicted:
    """Errors of about E x²·u, typical of E x² − (E x)² where the variance is much smaller."""
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
    x = args[0].detach()
    dim = kwargs.get("dim", args[1] if len(args) > 1 and not isinstance(args[1], bool) else None)
    squares = (x * x).mean(dim).reshape(-1).numpy() if dim is not None else (x * x).mean().numpy()
    if context.form is None or squares.size not in (1, context.expected.size):
        return []
    squares = np.broadcast_to(squares, context.expected.shape)[context.failing]
    expected = context.expected[context.failing]
    error = np.abs(context.actual[context.failing] - expected)
    is_root = context.operator.name.startswith("std")
    variance = np.square(expected) if is_root else expected
    usual = squares * context.form.unit_roundoff / (np.maximum(2.0 * expected, 1e-300)
    if is_root else 1.0)  # fmt: skip
    with np.errstate(all="ignore"):
        cancels = float(np.median(squares / variance)) > 1.0 + _LARGE_MEAN**2
        ratio = float(np.median(error / usual))
    return context.outputs(context.actual) if cancels and 0.02 < ratio < 50.0 else []
