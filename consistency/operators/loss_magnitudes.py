"""S of losses: the sum (or mean) of the magnitudes that make up the loss of one element."""

from __future__ import annotations

import math
from typing import Any

import torch

from .definitions import ordered
from .hooks import Tensors, hook


def reduce(terms: torch.Tensor, reduction: str) -> torch.Tensor:
    """Magnitudes reduced as the loss is."""
    match reduction:
        case "sum":
            return terms.sum()
        case "mean":
            return terms.mean()
        case "batchmean":
            return terms.sum() / terms.shape[0]
    return terms


def xlogx(t: torch.Tensor) -> torch.Tensor:
    return torch.xlogy(t, t).abs()


def weighted(terms: torch.Tensor, weight: Any) -> torch.Tensor:
    return terms if weight is None else terms * abs(weight)


def finite_size(margin: float) -> float:
    """Its magnitude; an infinite one is no term of what is finite."""
    return abs(margin) if math.isfinite(margin) else 0.0


@hook
def of_divergence(
    outputs: Tensors, x: torch.Tensor, t: torch.Tensor, reduction: str, log_target: bool = False
) -> torch.Tensor:
    terms = (
        t.exp() * (2.0 * t.abs() + x.abs() + (t * (t - x)).abs())
        if log_target
        else xlogx(t) + (t * x).abs()
    )
    return reduce(terms, reduction)


@hook
def of_poisson(
    outputs: Tensors,
    x: torch.Tensor,
    t: torch.Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> torch.Tensor:
    x, t = ordered(x), ordered(t)
    terms = (
        x.exp() * (1.0 + x.abs()) + (t * x).abs()
        if log_input
        else x.abs() + t * ((x + eps).log().abs() + 1.0)
    )
    return reduce(terms + (xlogx(t) + 2.0 * t + 2.0 if full else 0.0), reduction)


@hook
def of_gaussian(
    outputs: Tensors,
    x: torch.Tensor,
    t: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    var = torch.as_tensor(var, dtype=x.dtype).clamp(min=eps)
    return reduce(var.log().abs() + (x - t) ** 2 / var + (2.0 if full else 0.0), reduction)


@hook
def of_entropy(
    outputs: Tensors, x: torch.Tensor, t: torch.Tensor, weight: Any = None, reduction: str = "mean"
) -> torch.Tensor:
    """−t·log x − (1 − t)·log(1 − x), where 1 − x may be rounded first."""
    losses = (t * x.log().clamp(min=-100.0)).abs() + (1.0 - t).abs() * (
        (1.0 - x).log().clamp(min=-100.0).abs() + 1.0
    )
    return reduce(weighted(losses, weight), reduction)


@hook
def of_logistic(
    outputs: Tensors,
    x: torch.Tensor,
    t: torch.Tensor,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> torch.Tensor:
    factor = 1.0 if pos_weight is None else 1.0 + pos_weight.abs()
    losses = ((1.0 - t) * x).abs() + factor * (
        (-x.abs()).exp().log1p() * (1.0 + x.abs()) + 2.0 * x.abs()
    )
    return reduce(weighted(losses, weight), reduction)


@hook
def of_logistic_slope(
    gradients: Tensors,
    x: torch.Tensor,
    t: torch.Tensor,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> torch.Tensor:
    """Of (1 − t) − (1 + (p − 1)·t)·σ(−x), term by term: where p is small, it is the rounding of p −
    1 that counts."""
    factor = 1.0 if pos_weight is None else 1.0 + pos_weight.abs()
    slopes = weighted((1.0 - t).abs() + factor * torch.ones_like(x), weight)
    return slopes / max(x.numel(), 1) if reduction == "mean" else slopes


@hook
def of_labels(
    outputs: Tensors,
    x: torch.Tensor,
    t: Any,
    weight: Any = None,
    reduction: str = "mean",
) -> torch.Tensor:
    """Labels and weights may be numbers."""
    losses = weighted((1.0 + abs(t)) * x.abs() + 1.0, weight).mean(-1)
    return reduce(losses, reduction)


@hook
def of_embedding(
    outputs: Tensors, x: torch.Tensor, t: torch.Tensor, margin: float = 1.0, reduction: str = "mean"
) -> torch.Tensor:
    return reduce(x.abs() + finite_size(margin), reduction)


@hook
def of_ranking(
    outputs: Tensors,
    x: torch.Tensor,
    y: torch.Tensor,
    t: torch.Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    return reduce(x.abs() + y.abs() + finite_size(margin), reduction)


@hook
def of_soft_margin(
    outputs: Tensors, x: torch.Tensor, t: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    """log(1 + eᶻ) with z = −t·x: the exponential carries z's rounding."""
    z = -t * x
    return reduce(torch.sigmoid(z) * (1.0 + z.abs()) + z.exp().log1p(), reduction)
