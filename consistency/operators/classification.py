"""Losses over classes: targets are indices, or probabilities of every class. S sums
|log-probability| where the loss does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F

from ..core.recipe import TensorRecipe
from .classification_magnitudes import (
    all_inputs,
    classes_and_rows,
    of_alignment,
    of_alignment_slope,
    of_cross_entropy,
    of_cross_entropy_slope,
    of_likelihood,
    of_margins,
    of_margins_slope,
    of_multilabel,
    of_multilabel_slope,
    rows,
)
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
from .losses import EVERY_MARGIN, FAR, LOG_PROBABILITIES, SCORES, SHARES, logits
from .parameter_sampling import optional_arguments
from .regression_losses import REDUCTIONS

WEIGHTS = Domain(0.125, 4.0)
REDUCED = ("mean", "sum")  # to one number
SOME_WEIGHTS = Domain(0.0, 4.0, specials=("0", "1"))
# Of words that are as good as impossible, or are: a mask adds -inf to their logits.
IMPROBABLE = Domain(-200.0, 0.0, specials=("-inf",), points=(-88.0,))
IMPROBABLE_STEPS = Domain(-200.0, 0.0)
MASKED = Domain(-60.0, 60.0, specials=("-inf",))


def classes(
    d: Drawing, domain: Domain, *, positions: bool = True, images: bool = True
) -> tuple[TensorRecipe, tuple[int, ...], int]:
    """Scores of C classes in dimension 1 (or alone), the shape of a target of indices, and C;
    ``images`` in any layout. One time in sixteen a single class or a thousand."""
    count, kind = d.size(2, 65), d.choice("batch", "single", *["positions"] * positions)
    if d.integer(0, 15) == 15:
        count = d.choice(1, 1000, 1025)
    batch = () if kind == "single" else (d.size(1, 65 if count < 1000 else 9),)
    extra_shape = d.shape(1, 2, most=5, elements=9) if kind == "positions" else ()
    return (
        d.tensor((*batch, count, *extra_shape), domain, layout=images or len(extra_shape) < 2),
        (*batch, *extra_shape),
        count,
    )


def labels(d: Drawing, shape: tuple[int, ...], count: int, low: int = 0) -> TensorRecipe:
    return d.tensor(shape, dtype="int64", values=("integers", low, count - 1))


def labels_or_none(d: Drawing, shape: tuple[int, ...], count: int) -> tuple[Any, dict[str, Any]]:
    """Indices, and which of them is ignored: none that is a class, as padding is, or a class."""
    if d.choice(False, False, True):
        return labels(d, shape, count, -1), {"ignore_index": -1}
    return labels(d, shape, count), optional_arguments(d, ignore_index=(0, 1))


def weights(d: Drawing, count: int) -> dict[str, Any]:
    """None, or one for each class; one time in four 0 among them."""
    domain = SOME_WEIGHTS if d.integer(0, 3) == 3 else WEIGHTS
    return {"weight": d.tensor((count,), domain)} if d.flag() else {}


def likelihood(d: Drawing) -> Call:
    """Images are contiguous: of permuted ones, channels_last included, torch refuses the
    gradient."""
    domain = IMPROBABLE if d.integer(0, 7) == 7 else LOG_PROBABILITIES
    x, shape, count = classes(d, domain, images=False)
    target, ignored = labels_or_none(d, shape, count)
    return call(
        x, target, **weights(d, count), **ignored, **optional_arguments(d, reduction=REDUCTIONS)
    )


def cross_entropy(d: Drawing) -> Call:
    """Of logits, one time in eight far out or with -inf among them, as a mask leaves them."""
    near = logits(d) if d.dtype != "float16" else Domain(-8.0, 8.0)
    domain = d.choice(*[near] * 7, d.choice(MASKED, FAR))
    x, shape, count = classes(d, domain)
    smoothing = (0.125, 1.0, 2.0**-10) if domain is not MASKED else (0.0,)  # 0 · -inf is NaN
    options = weights(d, count) | optional_arguments(
        d, label_smoothing=smoothing, reduction=REDUCTIONS
    )
    if domain is not MASKED and d.choice(False, False, True):
        shares = SHARES if d.integer(0, 3) == 3 else PROBABILITY
        return call(
            x,
            d.tensor((*shape[:1], count, *shape[1:]) if shape else (count,), shares),
            **options,
        )
    target, ignored = labels_or_none(d, shape, count)
    return call(x, target, **options, **ignored)


def multi_margin(d: Drawing) -> Call:
    x, shape, count = classes(d, SCORES, positions=False)
    return call(
        x,
        labels(d, shape, count),
        **weights(d, count),
        **optional_arguments(d, p=(2,), margin=EVERY_MARGIN, reduction=REDUCTIONS),
    )


def multilabel(d: Drawing) -> Call:
    """Each row of targets is read up to its first -1."""
    x, shape, count = classes(d, SCORES, positions=False)
    return call(
        x, labels(d, (*shape, count), count, -1), **optional_arguments(d, reduction=REDUCTIONS)
    )


def over_rows(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A reference: torch's own loss, but without rows the mean or the sum of no numbers, for which
    torch returns memory that nobody wrote to (docs/findings.md)."""

    def call_with(x: torch.Tensor, *others: Any, **options: Any) -> torch.Tensor:
        reduction = options.get(
            "reduction", next((o for o in others if isinstance(o, str)), "mean")
        )
        if x.ndim != 2 or len(x) or reduction not in REDUCED:
            return function(x, *others, **options)
        losses = x.sum(-1)
        return losses.mean() if reduction == "mean" else losses.sum()

    return call_with


def alignment(d: Drawing) -> Call:
    """Connectionist temporal classification with room for every label and the blanks between
    them; one time in four without, or without labels, where the loss is infinite, or 0 if that is
    asked for. Targets are rows, or stand one after the other, also as int32; every input is as
    long as there are steps, or shorter."""
    labels_each, batch, count = d.size(1, 6), d.size(1, 4), d.size(2, 17)
    steps = 2 * labels_each + d.integer(1, 6)
    blank = d.choice(0, 0, count - 1)
    first = 0 if blank else 1
    span = ("integers", first, first + count - 2)
    target = d.tensor((batch, labels_each), dtype="int64", values=span)
    cramped = d.integer(0, 3) == 3
    least, fewest = (1, 0) if cramped else (2 * labels_each + 1, 1)
    inputs = tuple(d.integer(least, steps) for _ in range(batch))
    label_counts = tuple(d.integer(fewest, labels_each) for _ in range(batch))
    if d.choice(False, False, True):
        steps = d.integer(1, 2 * labels_each) if cramped else steps
        inputs = (steps,) * batch
    if d.choice(False, False, True):
        # Neither expanded nor permuted: torch takes strided ones for contiguous ones, in part.
        total = sum(label_counts)
        dtype = d.choice("int64", "int32")
        target = d.tensor((2 * total,), dtype=dtype, values=span, layout=False)
        step = d.choice(1, 1, 1, 2)
        target = replace(target, view=(("slice", 0, 0, step * total, step),))
    return call(
        d.tensor(
            (steps, batch, count),
            IMPROBABLE_STEPS if cramped and d.flag() else LOG_PROBABILITIES,
        ),
        target,
        inputs,
        label_counts,
        **({"blank": blank} if blank else {}),
        **optional_arguments(d, reduction=REDUCTIONS, zero_infinity=(True,)),
    )


def loss(
    name: str,
    sample: Sample,
    error: ErrorModel,
    dtypes: tuple[str, ...] = FLOAT,
    traits: frozenset[str] = frozenset(),
    reference: Callable[..., Any] | None = None,
) -> Operator:
    return Operator(
        name=f"nn.functional.{name}",
        family="loss",
        reference=reference,
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
    loss(
        "multi_margin_loss",
        multi_margin,
        accumulated(of_margins, all_inputs, backward=of_margins_slope),
        reference=over_rows(F.multi_margin_loss),
    ),
    loss(
        "multilabel_margin_loss",
        multilabel,
        accumulated(of_multilabel, all_inputs, backward=of_multilabel_slope),
        reference=over_rows(F.multilabel_margin_loss),
    ),
    loss("ctc_loss", alignment, accumulated(of_alignment, one, backward=of_alignment_slope)),
]
