"""Look-ups in tables, and bags of them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from ..core.recipe import Literal
from . import definitions
from .declare import (
    EXACT,
    FLOATS,
    REAL,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    call,
    products,
)
from .hooks import Tensors, hook
from .parameter_sampling import optional_arguments, summed
from .position_tensors import positions


def table(d: Drawing, domain: Domain = REAL) -> tuple[Any, int]:
    """A table of rows, and how many there are."""
    rows = d.size(1, 129)
    return d.tensor((rows, d.size(1, 65)), domain), rows


def embedding(d: Drawing) -> Call:
    """Indices of any shape, none at all now and then; one time in four as int32."""
    weight, rows = table(d)
    padding = {"padding_idx": d.integer(-rows, rows - 1)} if d.choice(False, False, True) else {}
    shape = d.shape(0, 3, elements=128) if d.integer(0, 31) < 31 else (0,)
    positions = d.index(shape, rows)
    if d.integer(0, 3) == 3:
        positions = d.tensor(shape, dtype="int32", values=("integers", 0, rows - 1))
    return call(
        positions,
        weight,
        **padding,
        **optional_arguments(d, scale_grad_by_freq=(True,)),
    )


def offsets(d: Drawing, sizes: list[int]) -> Literal:
    """Where each bag of these sizes begins."""
    return positions(d, [0, *itertools.accumulate(sizes)][: len(sizes)], (len(sizes),))


def embedding_bag(d: Drawing) -> Call:
    """Bags of one size as rows, or of several sizes (some empty) by their offsets; weights per
    sample only for sums."""
    weight, rows = table(d, summed(d, 33))
    mode = d.choice("mean", "sum", "max")
    kwargs: dict[str, Any] = {"mode": mode} if mode != "mean" else {}
    if d.flag():
        sizes = [d.integer(0, 17) for _ in range(d.size(1, 9))]
        shape: tuple[int, ...] = (sum(sizes),)
        last = d.choice(False, False, True)
        kwargs["offsets"] = offsets(d, [*sizes, 0] if last else sizes)
        if last:  # where the last bag ends, which may be before the indices do
            kwargs["include_last_offset"] = True
            shape = (shape[0] + d.choice(0, d.integer(0, 17)),)
    else:
        shape = (d.size(1, 9), d.size(1, 33))
    if mode == "sum" and d.flag():
        kwargs["per_sample_weights"] = d.tensor(
            shape, Domain(-2.0, 2.0, specials=("0", "1"), wide=(-8, 0))
        )
    if d.choice(False, False, True):
        kwargs["padding_idx"] = d.integer(-rows, rows - 1)
    if mode != "max" and d.choice(False, False, True):
        kwargs["scale_grad_by_freq"] = True
    return call(d.index(shape, rows), weight, **kwargs)


def one_hot(d: Drawing) -> Call:
    """As many classes as there are indices, more, or none given."""
    count = d.size(1, 33)
    classes = d.choice(-1, count, count + d.integer(0, 9))
    return call(d.index(d.shape(0, 3, elements=256), count), classes)


@hook
def of_rows(
    gradients: Tensors,
    indices: torch.Tensor,
    weight: torch.Tensor,
    per_sample_weights: Any = None,
    **kwargs: Any,
) -> list[Any]:
    """With cotangents of at most 1: how often a row is used, times its weights; and Σ|row| for a
    sample's weight.

    The m cotangents of a row are added one after the other. G is that of the average row: one used
    more often has √m ÷ G more.
    """
    used = (
        torch.ones(indices.shape, dtype=weight.dtype)
        if per_sample_weights is None
        else per_sample_weights.abs()
    )
    rows = weight.new_zeros(weight.shape[0]).index_add(0, indices.flatten(), used.flatten())
    starts = kwargs.get("offsets")
    bags = indices.shape[0] if starts is None else starts.numel()
    growth = max(of_bag((indices,), kwargs, gradients) * bags / max(weight.shape[0], 1), 1.0)
    often = indices.flatten().bincount(minlength=weight.shape[0])
    rows = rows * (often.sqrt() / growth).clamp(min=1.0)
    if kwargs.get("scale_grad_by_freq"):
        rows = rows / often.clamp(min=1)
    return [rows.unsqueeze(-1).expand(weight.shape), weight.abs().sum(-1)[indices]][
        : len(gradients)
    ]


@hook
def of_bag(outputs: Tensors, indices: Any, *_: Any, offsets: Any = None, **__: Any) -> float:
    """G: a row that is added m times has the same error each time, so √Σm² over the rows of a bag
    replaces √n."""
    bags = indices.unbind() if offsets is None else indices.tensor_split(offsets[1:])
    return math.sqrt(
        max((float((bag.unique(return_counts=True)[1] ** 2).sum()) for bag in bags), default=1.0)
    )


def op(
    name: str, sample: Any, error: ErrorModel, dtypes: tuple[str, ...] = FLOATS, **more: Any
) -> Operator:
    return Operator(
        name=f"nn.functional.{name}",
        family="embedding",
        sample=sample,
        error=error,
        dtypes=dtypes,
        **more,
    )


OPERATORS = [
    op("embedding", embedding, EXACT, traits=frozenset({"linear", "constant"})),
    op(
        "embedding_bag",
        embedding_bag,
        products(of_bag, growth="linear", backward=of_rows),
        traits=frozenset({"constant"}),
        reference=definitions.embedding_bag,
    ),
    op("one_hot", one_hot, EXACT, ("int64",), differentiable=False, traits=frozenset({"constant"})),
]
