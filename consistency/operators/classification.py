"""Losses over classes: targets are indices, or probabilities of every class. S sums
|log-probability| where the loss does."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from ..core.recipe import TensorRecipe
from .declare import (
    FLOAT,
    FLOATS,
    PROBABILITY,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)
from .hooks import Tensors, hook
from .losses import LOG_PROBABILITIES, LOGITS, MARGINS, REDUCTIONS, SCORES, reduce
from .magnitudes import finite, largest
from .parameter_sampling import optional_arguments
from .softmax import precision

WEIGHTS = Domain(0.125, 4.0)


def classes(
    d: Drawing, domain: Domain, *, positions: bool = True, images: bool = True
) -> tuple[TensorRecipe, tuple[int, ...], int]:
    """Scores of C classes in dimension 1 (or alone), the shape of a target of indices, and C;
    ``images`` in any layout."""
    count, kind = d.size(2, 65), d.choice("batch", "single", *["positions"] * positions)
    batch = () if kind == "single" else (d.size(1, 65),)
    rest = d.shape(1, 2, most=5, elements=9) if kind == "positions" else ()
    return (
        d.tensor((*batch, count, *rest), domain, layout=images or len(rest) < 2),
        (*batch, *rest),
        count,
    )


def labels(d: Drawing, shape: tuple[int, ...], count: int, low: int = 0) -> TensorRecipe:
    return d.tensor(shape, dtype="int64", values=("integers", low, count - 1))


def weights(d: Drawing, count: int) -> dict[str, Any]:
    return {"weight": d.tensor((count,), WEIGHTS)} if d.flag() else {}


def likelihood(d: Drawing) -> Call:
    """Images are contiguous: of permuted ones, channels_last included, torch refuses the
    gradient."""
    x, shape, count = classes(d, LOG_PROBABILITIES, images=False)
    return call(
        x,
        labels(d, shape, count),
        **weights(d, count),
        **optional_arguments(d, ignore_index=(0, 1), reduction=REDUCTIONS),
    )


def cross_entropy(d: Drawing) -> Call:
    x, shape, count = classes(d, LOGITS if d.dtype != "float16" else Domain(-8.0, 8.0))
    options = weights(d, count) | optional_arguments(
        d, label_smoothing=(0.125, 1.0), reduction=REDUCTIONS
    )
    if d.choice(False, False, True):
        return call(
            x,
            d.tensor((*shape[:1], count, *shape[1:]) if shape else (count,), PROBABILITY),
            **options,
        )
    return call(x, labels(d, shape, count), **options, **optional_arguments(d, ignore_index=(0, 1)))


def multi_margin(d: Drawing) -> Call:
    x, shape, count = classes(d, SCORES, positions=False)
    return call(
        x,
        labels(d, shape, count),
        **weights(d, count),
        **optional_arguments(d, p=(2,), margin=MARGINS, reduction=REDUCTIONS),
    )


def multilabel(d: Drawing) -> Call:
    """Each row of targets is read up to its first -1."""
    x, shape, count = classes(d, SCORES, positions=False)
    return call(
        x, labels(d, (*shape, count), count, -1), **optional_arguments(d, reduction=REDUCTIONS)
    )


def alignment(d: Drawing) -> Call:
    """Connectionist temporal classification with room for every label and the blanks between
    them."""
    labels_each, batch, count = d.size(1, 6), d.size(1, 4), d.size(2, 17)
    steps = 2 * labels_each + d.integer(1, 6)
    target = d.tensor((batch, labels_each), dtype="int64", values=("integers", 1, count - 1))
    inputs = tuple(d.integer(2 * labels_each + 1, steps) for _ in range(batch))
    wanted = tuple(d.integer(1, labels_each) for _ in range(batch))
    return call(
        d.tensor((steps, batch, count), LOG_PROBABILITIES),
        target,
        inputs,
        wanted,
        **optional_arguments(d, reduction=REDUCTIONS),
    )


def shares(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: Any,
    ignore_index: int,
    reduction: str,
    smoothing: float,
) -> tuple[torch.Tensor, float]:
    """Target share × weight of every class, and what the sum is divided by."""
    dim, indices = (1 if x.ndim > 1 else 0), not target.dtype.is_floating_point
    count = x.shape[dim]
    kept = (target != ignore_index) if indices else torch.ones(())
    share = (
        F.one_hot(torch.where(kept, target, 0), count).movedim(-1, dim).double()
        if indices
        else target.abs()
    )
    by_class = torch.ones(count) if weight is None else weight.abs()
    by_class = by_class.reshape([count if axis == dim else 1 for axis in range(x.ndim)])
    taken = kept.unsqueeze(dim) if indices else kept
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
    """softmax(x)·Σ share − share, with cotangents of at most 1."""
    dim = 1 if x.ndim > 1 else 0
    share, total = shares(x, target, weight, ignore_index, reduction, label_smoothing)
    y, error = torch.softmax(x, dim), precision(x, dim)
    return finite(
        (share + y * (error + (y * error).sum(dim, keepdim=True)) * share.sum(dim, keepdim=True))
        / total
    )


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
    chosen = x.gather(-1, target.unsqueeze(-1))
    size, gap = abs(margin) + chosen.abs() + x.abs(), (margin - chosen + x).clamp(min=0.0)
    each = (size if p == 1 else gap * (2.0 * size + gap)).mean(-1) * (
        1.0 if weight is None else weight.abs()[target]
    )
    return reduce(each, reduction)


@hook
def of_multilabel(
    outputs: Tensors, x: torch.Tensor, target: torch.Tensor, reduction: str = "mean"
) -> torch.Tensor:
    valid = (target >= 0).cumprod(-1).bool()
    chosen = torch.where(valid, x.gather(-1, target.clamp(min=0)).abs() + 1.0, 0.0)
    each = (chosen.sum(-1) * x.shape[-1] + valid.sum(-1) * x.abs().sum(-1)) / x.shape[-1]
    return reduce(each, reduction)


@hook
def of_multilabel_slope(gradients: Tensors, x: torch.Tensor, *args: Any, **kwargs: Any) -> float:
    """Up to C² equal steps of 1/C, added one by one: they err by C²/2 in all, of which the rule's
    8·S makes a sixteenth."""
    count = float(x.shape[-1])
    return max(count, count**2 / 16.0) * largest(gradients[0])


def steps(x: torch.Tensor) -> float:
    """What a path's log-probability is added up from."""
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
    """n: everything that one result sums up, over classes and over the batch."""
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


def loss(
    name: str,
    sample: Sample,
    error: ErrorModel,
    dtypes: tuple[str, ...] = FLOAT,
    traits: frozenset[str] = frozenset(),
) -> Operator:
    return Operator(
        name=f"nn.functional.{name}",
        family="loss",
        sample=sample,
        error=error,
        dtypes=dtypes,
        traits=traits,
        differentiable_inputs=(0,),
    )


CROSS_ENTROPY = accumulated(of_cross_entropy, classes_and_rows, backward=of_cross_entropy_slope)
OPERATORS = [
    loss(
        "nll_loss",
        likelihood,
        accumulated(of_likelihood, rows, backward="output"),
        FLOATS,
        frozenset({"constant"}),
    ),
    loss("cross_entropy", cross_entropy, CROSS_ENTROPY, FLOATS),
    loss("multi_margin_loss", multi_margin, accumulated(of_margins, all_inputs)),
    loss(
        "multilabel_margin_loss",
        multilabel,
        accumulated(of_multilabel, all_inputs, backward=of_multilabel_slope),
    ),
    loss("ctc_loss", alignment, accumulated(of_alignment, one, backward=of_alignment_slope)),
]
