"""Unstable or wrong formulas of single operators, as torch functions of the operator's
arguments."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F

from . import normalizations
from .context import AttributionContext
from .normalizations import Formula
from .simulation import FaultHypothesis, Hypotheses, unchanged_call


def hypotheses(context: AttributionContext) -> Hypotheses:
    for names, name, words, formula in TABLE:
        if context.operator.name in names:
            # the same formula cancels elsewhere
            if name == "early-overflow" and not context.special:
                name, words = "approximation", "an unstable formula"
            yield FaultHypothesis(
                name, words, functools.partial(context.with_call, unchanged_call, formula)
            )
    yield from normalizations.hypotheses(context)


def _single(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32).to(x.dtype)


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
    rows = normalizations.rows()
    shares = ("softmax", "softmax.with_dtype")
    rows += [
        (shares, "no-max-shift", "an exponential without the shift by the maximum", _softmax),
        (
            ("log_softmax", "log_softmax.with_dtype"),
            "no-max-shift",
            "an exponential without the shift by the maximum",
            _log_softmax,
        ),
        (
            ("logsumexp", "special.logsumexp"),
            "no-max-shift",
            "an exponential without the shift by the maximum",
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
