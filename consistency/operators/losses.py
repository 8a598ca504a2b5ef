"""Losses. S is the sum (or mean) of the magnitudes that make up one element's loss."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .declare import (
    FLOATS,
    HALF,
    INTEGERS,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Magnitude,
    Operator,
    Sample,
    Tensors,
    accumulated,
    call,
)
from .hooks import hook
from .loss_magnitudes import (
    of_divergence,
    of_embedding,
    of_entropy,
    of_gaussian,
    of_labels,
    of_logistic,
    of_logistic_slope,
    of_poisson,
    of_ranking,
    of_soft_margin,
)
from .parameter_sampling import PLAIN, optional_arguments
from .regression_losses import (
    REDUCTIONS,
    WEIGHTED,
    absolute_errors,
    of_weighted_terms,
    rates,
    regression,
    sized,
)

LOGITS = Domain(-60.0, 60.0, points=(0.0, 16.0, -16.0), wide=(-10, 4))
# Where exp leaves the formats, and beyond.
FAR = Domain(-1024.0, 1024.0, points=(0.0, 88.72, -88.72, 104.0, -104.0, 710.0, -746.0))
SCORES = Domain(-4.0, 4.0, wide=(-10, 1))
LOG_PROBABILITIES = Domain(-16.0, 0.0)
SHARES = Domain(0.0, 1.0, specials=("0", "1"))
SHARES_PREDICTED = Domain(2.0**-20, 1.0 - 2.0**-20, propagates=())  # torch refuses NaN
CERTAIN = Domain(0.0, 1.0, specials=("0", "1"), points=(1.0, 0.0), propagates=())
MARGINS = (0.5, 2.0)
EVERY_MARGIN = (*MARGINS, 0.0, -1.0, 64.0)


def logits(d: Drawing) -> Domain:
    """Mostly within ±60, one time in eight far beyond."""
    return FAR if d.integer(0, 7) == 7 else LOGITS


def paired(*domains: Domain, weighted: bool = False, **options: tuple[Any, ...]) -> Sample:
    """Tensors of one shape, one for each domain; perhaps a weight that broadcasts."""

    def sample(d: Drawing) -> Call:
        shape = sized(d)
        weight = (
            {"weight": d.tensor(d.broadcastable(shape), rates(d))} if weighted and d.flag() else {}
        )
        return call(
            *(d.tensor(shape, domain) for domain in domains),
            **weight,
            **optional_arguments(d, reduction=REDUCTIONS, **options),
        )

    return sample


def entropy(d: Drawing) -> Call:
    """Predictions between 0 and 1, one time in eight 0 and 1 among them; perhaps a weight that
    broadcasts."""
    predicted = CERTAIN if d.integer(0, 7) == 7 else SHARES_PREDICTED
    return paired(predicted, SHARES, weighted=True)(d)


def gaussian(d: Drawing) -> Call:
    """Variances above 0; one time in four 0 among them and close to it, where eps takes their
    place."""
    return paired(SCORES, SCORES, rates(d), full=(True,), eps=(0.25, 2.0**-20, 4.0))(d)


def divergence(d: Drawing) -> Call:
    """Always with a reduction: the default one warns."""
    shape, log_target = (d.size(1, 33), *d.shape(0, 2, elements=64)), d.flag()
    logarithms = Domain(-200.0, 0.0, points=(0.0, -88.0)) if d.flag() else LOG_PROBABILITIES
    target = d.tensor(shape, logarithms if log_target else SHARES)
    kwargs: dict[str, Any] = {"log_target": True} if log_target else {}
    return call(
        d.tensor(shape, logarithms),
        target,
        reduction=d.choice("batchmean", "sum", "none"),
        **kwargs,
    )


def poisson(d: Drawing) -> Call:
    """Rates or their logarithms; with and without Stirling's approximation, which begins at a
    target of 1."""
    shape, log_input = sized(d), not d.flag()
    reach = 100.0 if d.integer(0, 7) == 7 else 8.0  # exp(89) leaves float32
    exponents = Domain(-reach, reach)
    x = d.tensor(shape, exponents if log_input else rates(d))
    target = d.tensor(shape, Domain(0.0, 64.0, points=(1.0,), specials=("0", "1")))
    return call(
        x,
        target,
        log_input=log_input,
        **optional_arguments(d, full=(True,), reduction=REDUCTIONS, eps=(2.0**-10, 1.0)),
    )


def signed(domain: Domain, count: int = 1, **options: tuple[Any, ...]) -> Sample:
    """``count`` tensors of one shape, and targets 1 and -1.

    Of several tensors, those of the half formats hold whole numbers: where the rounding of their
    difference decides on which side of the margin it lies, either slope is right."""

    def sample(d: Drawing) -> Call:
        shape = sized(d)
        exact: dict[str, Any] = {}
        chosen = logits(d) if domain is LOGITS else domain
        if count > 1 and d.dtype in HALF:
            exact["values"] = ("integers", -16, 16)
        target = d.tensor(shape, PLAIN, values=("tokens", 1.0, 1.0, "-1", "-1", "1"))
        return call(
            *(d.tensor(shape, chosen, **exact) for _ in range(count)),
            target,
            **optional_arguments(d, reduction=REDUCTIONS, **options),
        )

    return sample


def labeled(d: Drawing) -> Call:
    """One value per class for each target of 0 or 1."""
    shape = (d.size(1, 33), d.size(1, 65))
    weight = {"weight": d.tensor((shape[1],), rates(d))} if d.flag() else {}
    return call(
        d.tensor(shape, logits(d)),
        d.tensor(shape, SHARES),
        **weight,
        **optional_arguments(d, reduction=REDUCTIONS),
    )


def logistic(d: Drawing) -> Call:
    """Weights broadcast; ``pos_weight`` is one number per class."""
    shape = d.shape(1, 3, elements=2048)
    weights = {"weight": d.broadcastable(shape), "pos_weight": shape[-1:]}
    chosen = {name: d.tensor(size, rates(d)) for name, size in weights.items() if d.flag()}
    return call(
        d.tensor(shape, logits(d)),
        d.tensor(shape, SHARES),
        **chosen,
        **optional_arguments(d, reduction=REDUCTIONS),
    )


@hook
def averaged(outputs: Tensors, *operands: Any, **named: Any) -> float:
    """n of a loss: the elements of its operands, which may broadcast, per element of the result."""
    shapes = [x.shape for x in (*operands, *named.values()) if isinstance(x, torch.Tensor)]
    try:
        whole = math.prod(np.broadcast_shapes(*shapes))
    except ValueError:  # a factor for each class
        whole = operands[0].numel()
    return max(whole / max(outputs[0].numel(), 1), 1.0)


POSITIVE_TERMS = accumulated("output", averaged)
WEIGHTED_TERMS = accumulated("output", averaged, backward=of_weighted_terms)


def loss(
    name: str,
    sample: Sample,
    error: ErrorModel | Magnitude,
    dtypes: tuple[str, ...] = FLOATS,
    **more: Any,
) -> Operator:
    model = error if isinstance(error, ErrorModel) else accumulated(error, averaged)
    if model not in (
        POSITIVE_TERMS,
        WEIGHTED_TERMS,
    ):  # made of several operators, each of which rounds
        model = replace(model, wide_accumulation=False)
    return Operator(
        name=f"nn.functional.{name}",
        family="loss",
        sample=sample,
        error=model,
        dtypes=dtypes,
        **more,
    )


PREDICTION: dict[str, Any] = {"differentiable_inputs": (0,)}

OPERATORS = [
    loss("mse_loss", regression(WEIGHTED), WEIGHTED_TERMS),
    loss("l1_loss", regression(WEIGHTED), WEIGHTED_TERMS, reference=absolute_errors),
    loss("smooth_l1_loss", regression(beta=(0.5, 4.0, 0.0, 2.0**-10, 64.0)), POSITIVE_TERMS),
    loss("huber_loss", regression(WEIGHTED, delta=(0.5, 4.0, 2.0**-10, 64.0)), WEIGHTED_TERMS),
    loss("kl_div", divergence, of_divergence),
    loss("poisson_nll_loss", poisson, of_poisson, (*FLOATS, *INTEGERS)),
    loss("gaussian_nll_loss", gaussian, of_gaussian),
    loss("binary_cross_entropy", entropy, of_entropy, **PREDICTION),
    loss(
        "binary_cross_entropy_with_logits",
        logistic,
        accumulated(of_logistic, averaged, backward=of_logistic_slope),
        **PREDICTION,
    ),
    loss("multilabel_soft_margin_loss", labeled, of_labels, **PREDICTION),
    loss(
        "hinge_embedding_loss",
        signed(SCORES, margin=EVERY_MARGIN),
        of_embedding,
        whole=(1,),
        **PREDICTION,
    ),
    loss(
        "margin_ranking_loss",
        signed(SCORES, 2, margin=EVERY_MARGIN),
        of_ranking,
        (*FLOATS, "int64", "int32", "int16", "int8"),  # differences of unsigned numbers wrap
        differentiable_inputs=(0, 1),
    ),
    loss("soft_margin_loss", signed(LOGITS), of_soft_margin, **PREDICTION),
]
