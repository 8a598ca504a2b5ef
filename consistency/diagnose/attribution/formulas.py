"""Unstable or wrong formulas of single operators, as torch functions of the operator's
arguments."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .context import AttributionContext, FaultHypothesis, Hypotheses, Predicted

Formula = Callable[..., Any]


def hypotheses(context: AttributionContext) -> Hypotheses:
    for names, name, words, formula in TABLE:
        if context.operator.name in names:
            # the same formula cancels elsewhere
            if name == "early-overflow" and not context.special:
                name, words = "approximation", "an unstable formula"
            yield FaultHypothesis(
                name, words, functools.partial(context.with_call, _unchanged_call, formula)
            )
    if context.operator.name in NORMS and not context.special:
        yield FaultHypothesis(
            "one-pass-variance", "one-pass variance", functools.partial(_fit_variance, context), 1
        )
    if context.operator.name in ("var", "std", "var_mean", "std_mean"):
        yield FaultHypothesis(
            "one-pass-variance",
            "one-pass variance",
            functools.partial(_cancelled_variance, context),
            1,
        )


def _unchanged_call(arguments: Any) -> tuple[list[Any], dict[str, Any]]:
    return list(arguments.args), dict(arguments.kwargs)


def _single(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32).to(x.dtype)


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


def _softmax(x: Any, dim: int, **more: Any) -> Any:
    y = torch.exp(_single(x).to(torch.float32)).to(x.dtype)
    return y / y.to(torch.float32).sum(dim, keepdim=True).to(x.dtype)


def _log_softmax(x: Any, dim: int, **more: Any) -> Any:
    return x - torch.log(torch.exp(x.to(torch.float32)).sum(dim, keepdim=True)).to(x.dtype)


def _logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return torch.log(torch.exp(x.to(torch.float32)).sum(dim, keepdim=keepdim)).to(x.dtype)


def _sigmoid_gelu(x: Any, *, approximate: str = "none") -> Any:
    return x * torch.sigmoid(1.702 * x)


def _sorted_by_sign(x: Any, dim: int = -1, descending: bool = False, **more: Any) -> Any:
    """NaN with the sign bit set comes first."""
    keys = torch.where(x.isnan() & torch.signbit(x), -math.inf, x)
    keys, order = torch.sort(
        keys,
        dim=more.get("dim", dim),
        descending=descending,
        stable=bool(more.get("stable", False)),
    )
    return x.gather(more.get("dim", dim), order), order


def _pixel_corners(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    **more: Any,
) -> Any:
    """Linear interpolation from pixel corners instead of centers."""
    out = F.interpolate(x, size, scale_factor, mode, align_corners)
    shape = out.shape[2:]
    grids = [
        torch.arange(n, dtype=x.dtype) * (m / n) for n, m in zip(shape, x.shape[2:], strict=True)
    ]
    result = x
    for dim, position in enumerate(grids):
        low = position.floor().clamp_max(x.shape[2 + dim] - 1).long()
        high = (low + 1).clamp_max(x.shape[2 + dim] - 1)
        weight = (position - low).reshape([-1 if d == dim + 2 else 1 for d in range(x.ndim)])
        result = (
            result.index_select(dim + 2, low) * (1 - weight)
            + result.index_select(dim + 2, high) * weight
        )
    return result


def _fixed_pool(kind: str) -> Formula:
    def pool(x: Any, size: Any, *rest: Any, **more: Any) -> Any:
        rank = int(kind[-2])
        sizes = (
            [size] * rank
            if isinstance(size, int)
            else [s if s is not None else n for s, n in zip(size, x.shape[-rank:], strict=True)]
        )
        stride = [n // s for n, s in zip(x.shape[-rank:], sizes, strict=True)]
        kernel = [n - (s - 1) * t for n, s, t in zip(x.shape[-rank:], sizes, stride, strict=True)]
        return getattr(F, kind)(x, kernel, stride)

    return pool


def _plain_scan(x: Any, dim: int) -> Any:
    """log Σ exp without a shift: two −∞ in a row give NaN."""
    total = x.select(dim, 0)
    rows = [total]
    for i in range(1, x.shape[dim]):
        new = x.select(dim, i)
        high = torch.maximum(total, new)
        total = high + torch.log(torch.exp(total - high) + torch.exp(new - high))
        rows.append(total)
    return torch.stack(rows, dim)


def _computed_in_float32(formula: Formula) -> Formula:
    """An elementwise formula computed in float32, where its exponentials and squares overflow."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        narrow = [a.to(torch.float32) if isinstance(a, torch.Tensor) else a for a in args]
        return formula(*narrow, **kwargs).to(torch.float64)

    return compute


def _naive_softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return torch.log(1.0 + torch.exp(beta * x)) / beta


def _exponential_tanh(x: Any) -> Any:
    return (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x))


# Formulas that are right until an intermediate overflows.
OVERFLOWING: list[tuple[tuple[str, ...], Formula]] = [
    (("sigmoid", "special.expit"), lambda x: torch.exp(x) / (1.0 + torch.exp(x))),
    (("tanh", "nn.functional.tanh"), _exponential_tanh),
    (
        ("tanh", "nn.functional.tanh"),
        lambda x: (torch.exp(2.0 * x) - 1.0) / (torch.exp(2.0 * x) + 1.0),
    ),
    (("hypot",), lambda x, y: torch.sqrt(x * x + y * y)),
    (("logaddexp",), lambda x, y: torch.log(torch.exp(x) + torch.exp(y))),
    (("nn.functional.softplus",), _naive_softplus),
    (("nn.functional.silu",), lambda x: x * torch.exp(x) / (1.0 + torch.exp(x))),
    (("nn.functional.logsigmoid",), lambda x: torch.log(1.0 / (1.0 + torch.exp(-x)))),
    (("cosh",), lambda x: (torch.exp(x) + torch.exp(-x)) / 2.0),
    (("sinh",), lambda x: (torch.exp(x) - torch.exp(-x)) / 2.0),
]


def _rows() -> list[tuple[tuple[str, ...], str, str, Formula]]:
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
    shares = ("softmax", "softmax.with_dtype")
    rows += [
        (shares, "no-max-shift", "exponentials without the shift by the maximum", _softmax),
        (
            ("log_softmax", "log_softmax.with_dtype"),
            "no-max-shift",
            "exponentials without the shift by the maximum",
            _log_softmax,
        ),
        (
            ("logsumexp", "special.logsumexp"),
            "no-max-shift",
            "exponentials without the shift by the maximum",
            _logsumexp,
        ),
        (("nn.functional.gelu",), "approximation", "gelu by x·sigmoid(1.702·x)", _sigmoid_gelu),
        (
            ("sort", "msort"),
            "nan-sorted-first",
            "NaN with a sign bit sorted first",
            _sorted_by_sign,
        ),
        (
            ("nn.functional.interpolate", "nn.functional.upsample"),
            "shifted",
            "interpolation from pixel corners",
            _pixel_corners,
        ),
        (("logcumsumexp",), "nan-pairs", "a scan in which two −∞ in a row give NaN", _plain_scan),
    ]
    rows += [
        (names, "early-overflow", "an intermediate that overflows", _computed_in_float32(formula))
        for names, formula in OVERFLOWING
    ]
    for kind in (
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
    ):
        names = (f"nn.functional.adaptive_{kind}",)
        rows.append(
            (
                names,
                "argument-ignored",
                "adaptive pooling with one kernel and stride for all windows",
                _fixed_pool(kind),
            )
        )
    return rows


TABLE = _rows()
NORMS = (
    "nn.functional.layer_norm",
    "nn.functional.group_norm",
    "nn.functional.batch_norm",
    "nn.functional.instance_norm",
)


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
    return mean > 4.0 * spread


def _cancelled_variance(context: AttributionContext) -> Predicted:
    """Errors of about mean²·u, typical of E x² − (E x)² when the variance is much smaller."""
    x = context.reference.arguments.args[0].detach()
    if not _large_mean(context, x) or context.form is None:
        return []
    error = np.abs(context.actual - context.expected)[context.failing]
    squares = float((x * x).mean()) * context.form.unit_roundoff
    if context.operator.name.startswith("std"):
        squares /= max(2.0 * float(np.median(context.expected[context.failing])), 1e-300)
    return (
        context.outputs(context.actual)
        if 0.02 * squares < float(np.median(error)) < 50.0 * squares
        else []
    )
