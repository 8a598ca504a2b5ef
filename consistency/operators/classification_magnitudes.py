"""S and n of losses over classes: likelihoods, cross entropy, margins, alignment."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from .hooks import Tensors, hook
from .loss_magnitudes import finite_size, reduce
from .magnitudes import finite, largest
from .softmax import precision


def shares(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: Any,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> tuple[torch.Tensor, float]:
    """Target share × weight of every class, and the divisor of the sum."""
    dim, indices = (1 if x.ndim > 1 else 0), not target.dtype.is_floating_point
    count = x.shape[dim]
    counted = (target != ignore_index) if indices else torch.ones(())
    share = (
        F.one_hot(torch.where(counted, target, 0), count).movedim(-1, dim).double()
        if indices
        else target.abs()
    )
    by_class = torch.ones(count) if weight is None else weight.abs()
    by_class = by_class.reshape([count if axis == dim else 1 for axis in range(x.ndim)])
    taken = counted.unsqueeze(dim) if indices else counted
    total = float((share * by_class * taken).sum()) if indices else x.numel() / count
    return (
        share * (1.0 - smoothing) + smoothing / count
    ) * by_class * taken, total if reduction == "mean" else 1.0


def over_classes(
    size: torch.Tensor, share: torch.Tensor, total: float, reduction: str
) -> torch.Tensor:
    """Σ of share × size over the classes, reduced as the loss is."""
    each = (share * size).sum(1 if size.ndim > 1 else 0)
    return each if reduction == "none" else finite(each.sum() / total)


@hook
def of_likelihood(
    outputs: Tensors,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> torch.Tensor:
    return over_classes(
        x.abs(), *shares(x, target, weight, ignore_index, reduction, 0.0), reduction
    )


@hook
def of_cross_entropy(
    outputs: Tensors, x: torch.Tensor, target: torch.Tensor, weight: Any = None,
    ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:  # fmt: skip
    """The log-softmax's own S (see :mod:`.softmax`) in the place of each log-probability."""
    dim = 1 if x.ndim > 1 else 0
    size = precision(x, dim) + F.log_softmax(x, dim).abs()
    return over_classes(
        size, *shares(x, target, weight, ignore_index, reduction, label_smoothing), reduction
    )


@hook
def of_cross_entropy_slope(
    slopes: Tensors, x: torch.Tensor, target: torch.Tensor, weight: Any = None,
    ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:  # fmt: skip
    """softmax(x)·Σ share − share, with cotangents of at most 1. The sum is of C numbers, all equal
    where labels are smoothed, in 16 lanes: √(C/16) roundings, where going in and out is one."""
    dim = 1 if x.ndim > 1 else 0
    share, total = shares(x, target, weight, ignore_index, reduction, label_smoothing)
    y, error = torch.softmax(x, dim), precision(x, dim)
    error = error + (y * error).sum(dim, keepdim=True) + max((x.shape[dim] / 16.0) ** 0.5, 1.0)
    return finite((share + y * error * share.sum(dim, keepdim=True)) / total)


@hook
def of_margins(
    outputs: Tensors,
    x: torch.Tensor,
    target: torch.Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> torch.Tensor:
    target = target.reshape(x.shape[:-1])
    chosen = x.gather(-1, target.unsqueeze(-1))
    margin = float(margin)  # torch takes a flag, too
    size, gap = finite_size(margin) + chosen.abs() + x.abs(), (margin - chosen + x).clamp(min=0.0)
    each = (size if p == 1 else gap * (2.0 * size + gap)).mean(-1) * (
        1.0 if weight is None else weight.abs()[target]
    )
    return reduce(each, reduction)


@hook
def of_margins_slope(
    gradients: Tensors,
    x: torch.Tensor,
    target: torch.Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> float:
    """The target's is a sum of C equal steps, added one by one: they err by C/2 in all, of which
    the rule's 8·S makes a sixteenth. With p = 2 each is twice the gap."""
    step = 1.0 if p == 1 else 2.0 * (finite_size(margin) + 2.0 * largest(x))
    return step * (1.0 if weight is None else largest(weight)) * max(1.0, classes(x) / 16.0)


@hook
def of_multilabel(
    outputs: Tensors, x: torch.Tensor, target: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    valid = (target >= 0).cumprod(-1).bool()
    chosen = torch.where(valid, x.gather(-1, target.clamp(min=0)).abs() + 1.0, 0.0)
    each = chosen.sum(-1) + valid.sum(-1) * x.abs().sum(-1) / classes(x)
    return reduce(each, reduction)


@hook
def of_multilabel_slope(gradients: Tensors, x: torch.Tensor, *args: Any, **kwargs: Any) -> float:
    """Up to C² equal steps of 1/C, added one by one: they err by C²/2 in all, of which the rule's
    8·S makes a sixteenth."""
    count = classes(x)
    return max(count, count**2 / 16.0) * largest(gradients[0])


def classes(x: torch.Tensor) -> float:
    """C, the numbers of a row; 1 where there is a single one."""
    return float(x.shape[-1]) if x.ndim else 1.0


def steps(x: torch.Tensor) -> float:
    """The terms of a path's log-probability."""
    return float(x.shape[0]) * (largest(x) + 2.0)


@hook
def of_alignment(
    outputs: Tensors, x: torch.Tensor, *args: Any, reduction: str = "mean", **kwargs: Any
) -> torch.Tensor:
    return outputs[0].abs() + steps(x) * (x.shape[1] if reduction == "sum" else 1)


@hook
def of_alignment_slope(gradients: Tensors, x: torch.Tensor, *args: Any, **kwargs: Any) -> float:
    """Probabilities of at most 1, exponentials of such sums."""
    return steps(x)


@hook
def all_inputs(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """n: all numbers that one result sums, over classes and over the batch."""
    return float(max(x.numel() / max(outputs[0].numel(), 1), 1.0))


@hook
def rows(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """n: how many picked log-probabilities one result sums up."""
    result = outputs[0]
    return float(x.numel() / max(x.shape[min(1, x.ndim - 1)] * result.numel(), 1))


@hook
def classes_and_rows(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """n: two sums one after the other, of the exponentials of all classes and of the rows; their
    errors add, not multiply."""
    return float(x.shape[min(1, x.ndim - 1)]) + float(rows((x,), {}, outputs))
