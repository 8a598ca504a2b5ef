"""Functions that torch composes with rounded constants such as log 2π; traced as a whole."""

from __future__ import annotations

from typing import Any

import torch
from flint import arb
from torch.nn import functional as F

from .. import balls
from ..balls import Unsure
from ..class_losses import cross_entropy
from ..elementwise import (
    Function,
    Scalar,
    add,
    div,
    less_equal,
    mul,
    node_of,
    on_numbers,
    sub,
    to_real,
    where,
)
from ..error_functions import ndtr
from ..functions import exp, log, square
from ..losses import MEAN, NONE, SUM, reduced
from ..nodes import Node
from ..python_functions import whole

REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": SUM}


def _log_two_pi() -> arb:
    return (2 * arb.pi()).log()


@whole(F.gaussian_nll_loss)
def gaussian(
    input: Node,
    target: Node,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Node:
    """½·(log max(var, eps) + (x − t)²/max(var, eps)), and ½·log 2π. The clamping of the variance
    has no effect on gradients."""
    clamped_variance = _clamped(node_of(var), eps)
    terms = mul(add(log(clamped_variance), div(square(sub(input, target)), clamped_variance)), 0.5)
    return reduced(
        add(terms, mul(Scalar(_log_two_pi), 0.5)) if full else terms, REDUCTIONS[reduction]
    )


_clamped = Function(
    "clamped from below", on_numbers(balls.maximum), (lambda x, bound, y: 1.0, None)
)


@whole(F.poisson_nll_loss)
def poisson(
    input: Node, target: Node, log_input: bool = True, full: bool = False, size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None, reduction: str = "mean",
) -> Node:  # fmt: skip
    """eˣ − t·x or x − t·log(x + eps), and for targets above 1 Stirling's t·log t − t +
    ½·log(2πt)."""
    if size_average is not None or reduce is not None:
        raise Unsure("a reduction said in the old way")
    terms = (
        sub(exp(input), mul(target, input))
        if log_input
        else sub(input, mul(target, log(add(input, eps))))
    )
    if full:
        clamped_target, target = (
            target,
            where(less_equal(target, 1.0), 2.0, target),
        )  # elsewhere the logarithm may not exist
        stirling = add(
            sub(mul(target, log(target)), target), mul(add(Scalar(_log_two_pi), log(target)), 0.5)
        )
        terms = add(terms, where(less_equal(clamped_target, 1.0), 0.0, stirling))
    return reduced(terms, REDUCTIONS[reduction])


@whole(F.cross_entropy)
def smoothed(
    input: Node, target: Node, weight: Node | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Node:  # fmt: skip
    if size_average is not None or reduce is not None:
        raise Unsure("a reduction said in the old way")
    return cross_entropy(
        input, target, weight, REDUCTIONS[reduction], ignore_index, label_smoothing
    )


@whole(torch.special.ndtr)
def normal_distribution(input: Node, out: Any = None) -> Node:
    return ndtr(to_real(input))
