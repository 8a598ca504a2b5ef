"""Losses of predictions beside targets of the same shape, with a weight for each where torch knows
one (since 2.6)."""

from __future__ import annotations

import inspect
import math
from typing import Any

import torch
from torch.nn import functional

from .declare import Call, Domain, Drawing, Sample, call
from .hooks import Tensors, hook
from .parameter_sampling import optional_arguments

WEIGHTED = "weight" in inspect.signature(functional.mse_loss).parameters
REDUCTIONS = ("none", "sum", "mean")
RATES = Domain(2.0**-6, 64.0, wide=(-6, 5))
SOME_RATES = Domain(0.0, 64.0, specials=("0", "1"), wide=(-10, 5))


def sized(d: Drawing) -> tuple[int, ...]:
    return (d.size(1, 4095),) if d.choice(False, False, True) else d.shape(0, 4, elements=2048)


def rates(d: Drawing) -> Domain:
    """Of weights: all above 0, one time in four with zeros among them."""
    return SOME_RATES if d.integer(0, 3) == 3 else RATES


def regression(weighted: bool = False, **options: tuple[Any, ...]) -> Sample:
    """Predictions and targets; in float16 mostly such that the sum of squares stays finite; one
    time in eight small whole numbers, of which many are hit. Perhaps weights, which torch knows
    since 2.6."""

    def sample(d: Drawing) -> Call:
        domain = Domain(wide=(-10, 6), sums=True)
        if d.dtype == "float16" and d.integer(0, 7) < 7:
            domain = Domain(-2.0, 2.0)
        shape = sized(d)
        hit: dict[str, Any] = {"values": ("integers", -2, 2)} if d.integer(0, 7) == 7 else {}
        return call(
            d.tensor(shape, domain, **hit),
            d.tensor(shape, domain, **hit),
            **optional_arguments(d, reduction=REDUCTIONS, **options),
            **({"weight": d.tensor(shape, rates(d))} if weighted and d.flag() else {}),
        )

    return sample


def absolute_errors(
    x: torch.Tensor, t: torch.Tensor, *, reduction: str = "mean", weight: Any = None
) -> torch.Tensor:
    """torch's own loses the weight under a mode, as that of a proof is (docs/findings.md)."""
    if weight is None:
        return torch.nn.functional.l1_loss(x, t, reduction=reduction)
    terms: torch.Tensor = (x - t).abs() * weight
    match reduction:
        case "none":
            return terms
        case "sum":
            return terms.sum()
    mean: torch.Tensor = terms.sum() / weight.sum()
    return mean


@hook
def of_weighted_terms(
    gradients: Tensors, x: torch.Tensor, t: torch.Tensor, *, weight: Any = None,
    reduction: str = "mean", **_: Any,
) -> Any:  # fmt: skip
    """|gradient|; of a weighted mean with the rounding of Σ w, as a sum of n numbers, √n times.
    By a weight it is what the term differs from the mean of all, Σ w·term ÷ Σ w, and both are
    rounded. A term is at most d² or |d|, for cotangents of at most 1."""
    sizes = [gradient.abs() for gradient in gradients]
    if weight is None or reduction != "mean":
        return sizes
    away = (x - t).abs()
    total, growth = weight.abs().sum(), 1.0 + math.sqrt(away.numel())
    if len(gradients) == 3:
        terms = away + away**2
        differences = terms + (terms * weight.abs()).sum() / total + torch.zeros_like(weight)
        sizes[2] = sizes[2] + differences.sum_to_size(weight.shape) / total
    return [size * growth for size in sizes]
