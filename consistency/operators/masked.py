"""Reductions, scans and normalizations that leave out what a mask of booleans does not select
(torch.masked)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from . import moments, softmax
from .cumulative import row
from .declare import (
    ADDED,
    EVERY,
    EXACT,
    FLOAT,
    FLOATS,
    INTEGERS,
    SUMMED,
    UNIT,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Magnitude,
    Operator,
    Sample,
    Terms,
    accumulated,
    call,
    one,
    products,
    reduced,
)
from .hooks import Args, Kwargs, Tensors
from .magnitudes import joint_maximum
from .nonunique_results import argument, tied_sums
from .parameter_sampling import optional_arguments
from .reductions import of_factors

LOGARITHMS = Domain(-16.0, 16.0)
FACTORS = Domain(0.5, 2.0, propagates=())  # as those of prod


def selecting(d: Drawing, shape: Sequence[int]) -> TensorRecipe:
    """A mask that leaves out a fifth, nowhere the same number again: a whole row without any hardly
    occurs. Shrinks towards a mask that selects everything."""
    # Truth is what rounds to 1. Blank elements are the mean, so that a window from the beginning of
    # the bitstream leaves out nothing instead of everything.
    return d.tensor(shape, dtype="bool", values=("offset", 1.0, 0.5 / 0.6), overlap=False)


def over(
    domain: Domain, *orders: Any, least: int = 5, keepdim: bool = True, distinct: bool = False,
    everything: bool = False, one_of: tuple[dict[str, Any], ...] = ({},),
    **options: tuple[Any, ...],
) -> Sample:  # fmt: skip
    """A tensor, one dim (after one of ``orders``) or ``everything``, and perhaps a mask of its
    shape, or one that is the same in every row along the dim. Shrinks towards a mask."""

    def sample(d: Drawing) -> Call:
        shape = d.shape(1, 3, least=least, most=24)
        dim = d.dim(shape)
        along = tuple(n if i == dim % len(shape) else 1 for i, n in enumerate(shape))
        mask = selecting(d, d.choice(shape, shape, shape, along))
        x = d.tensor(shape, domain, values=("distinct",) if distinct else None, overlap=False)
        where = () if everything and d.choice(False, False, False, True) else (dim,)
        kwargs: dict[str, Any] = {"keepdim": True} if keepdim and d.flag() else {}
        if not d.choice(False, False, False, True):
            kwargs["mask"] = mask
        kwargs |= d.choice(*one_of)
        order = (d.choice(*orders),) if orders else ()
        return call(x, *order, *where, **kwargs, **optional_arguments(d, **options))

    return sample


def pairs(d: Drawing) -> Call:
    """Two tensors, and perhaps a mask for each."""
    shape = d.shape(1, 3)
    x, y = d.tensor(shape, LOGARITHMS), d.tensor(shape, LOGARITHMS)
    names = [name for name in ("input_mask", "other_mask") if not d.choice(False, False, True)]
    return call(x, y, **{name: selecting(d, shape) for name in names})


def twice(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """As for products: rounding errors of the factors are biased."""
    return tuple(2.0 * torch.nan_to_num(output.abs(), posinf=0.0) for output in outputs)


def filled(inner: Magnitude, value: float) -> Magnitude:
    """S of the operator without a mask, with ``value`` for masked elements."""

    def size(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        more = {name: item for name, item in kwargs.items() if name != "mask"}
        if kwargs.get("mask") is None:
            return inner(args, more, outputs)
        mask = torch.as_tensor(kwargs["mask"])
        return inner((args[0].masked_fill(~mask, value), *args[1:]), more, outputs)

    return size


def as_softmax(
    forward: Magnitude, backward: Magnitude, terms: Terms = softmax.length, value: float = -math.inf
) -> ErrorModel:
    return accumulated(filled(forward, value), terms, backward=filled(backward, value))


class Selected:
    """What the mask selects of rows: ``mean``, ``squares`` (the sum of squares about it) and
    ``free``, their number less the correction; the reduced dimensions are kept."""

    def __init__(self, args: Args, kwargs: Kwargs) -> None:
        options = {**dict(zip(("dim", "unbiased"), args[1:], strict=False)), **kwargs}
        x, dims, mask = args[0].detach(), options.get("dim"), options.get("mask")
        self.dims = tuple(range(x.ndim)) if dims is None else dims
        self.keepdim = options.get("keepdim", False) or not x.ndim
        chosen = torch.ones_like(x, dtype=torch.bool) if mask is None else torch.as_tensor(mask)
        self.x, weight = torch.where(chosen, x, 0.0), chosen.expand_as(x).to(x)
        count = weight.sum(self.dims, keepdim=True)
        self.mean = self.x.sum(self.dims, keepdim=True) / count
        self.size = self.x.abs().sum(self.dims, keepdim=True) / count
        self.squares = ((self.x - self.mean) ** 2 * weight).sum(self.dims, keepdim=True)
        self.free = (count - moments.correction(options)).clamp(min=1.0)

    def reduced(self, rows: torch.Tensor) -> torch.Tensor:
        """In the shape of the result; 0 where nothing is selected."""
        return torch.nan_to_num(rows if self.keepdim else rows.squeeze(self.dims))


def of_variance(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """As that of ``var``: of equal numbers, too, the mean is rounded."""
    of = Selected(args, kwargs)
    deviation, mean = (of.squares / of.free).sqrt(), of.mean.abs()
    return of.reduced(deviation**2 + mean * deviation + 2.0**-18 * mean**2)


def of_deviation(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """As that of ``std``."""
    of = Selected(args, kwargs)
    return of.reduced((of.squares / of.free).sqrt() + of.mean.abs())


def of_slope(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """As that of ``var``: ∂var = 2(x − mean)/(n − c), for cotangents up to 1."""
    of = Selected(args, kwargs)
    return torch.nan_to_num((2.0 * (of.x - of.mean).abs() + 8.0 * of.size + 1.0) / of.free)


def op(
    name: str, sample: Sample, error: ErrorModel, dtypes: tuple[str, ...] = FLOATS, **more: Any
) -> Operator:
    return Operator(
        name=f"masked.{name}", family="masked", sample=sample, error=error, dtypes=dtypes, **more
    )


SPREADS: tuple[dict[str, Any], ...] = ({}, {"unbiased": False}, {"correction": 2})
SUM = products(reduced, moves=True)
# Rows of integers that the mask leaves nothing of hold the end of the dtype.
LIMITED = frozenset({"own-integers"})
SHARES = accumulated("normwise", reduced, backward=joint_maximum)
OPERATORS = [
    op("sum", over(ADDED, everything=True), SUM, EVERY, traits=frozenset({"linear"}), complex=True),
    op(
        "mean",
        over(ADDED, everything=True),
        products(reduced),
        traits=frozenset({"linear"}),
        complex=True,
    ),
    op(
        "prod",
        over(FACTORS, everything=True),
        accumulated(twice, reduced, backward=of_factors, wide_accumulation=False),
        (*FLOAT, "bfloat16", *INTEGERS),
        complex=True,
    ),
    op(
        "amax",
        over(SUMMED, distinct=True, everything=True),
        EXACT,
        (*FLOATS, *INTEGERS),
        traits=LIMITED,
    ),
    op(
        "amin",
        over(SUMMED, distinct=True, everything=True),
        EXACT,
        (*FLOATS, *INTEGERS),
        traits=LIMITED,
    ),
    op(
        "argmax",
        over(SUMMED, distinct=True, everything=True),
        EXACT,
        (*FLOATS, *INTEGERS),
        differentiable=False,
    ),
    op(
        "argmin",
        over(SUMMED, distinct=True, everything=True),
        EXACT,
        (*FLOATS, *INTEGERS),
        differentiable=False,
    ),
    op(
        "median",
        over(SUMMED, distinct=True),
        EXACT,
        FLOATS,
        # Numbers that are drawn distinct may be equal in half precision.
        observe_gradients=tied_sums(lambda args, kwargs: argument("dim", 1, None, args, kwargs)),
    ),
    op("norm", over(SUMMED, 2.0, 1.0, math.inf, everything=True), SHARES, FLOAT),
    op(
        "normalize",
        over(UNIT, 2.0, keepdim=False, eps=(2.0**-10,)),
        SHARES,
        (*FLOAT, "bfloat16"),
        differentiable=False,
        complex=True,
    ),
    op(
        "var",
        over(SUMMED, everything=True, one_of=SPREADS),
        accumulated(of_variance, reduced, backward=of_slope),
        FLOAT,
    ),
    op(
        "std",
        over(SUMMED, everything=True, one_of=SPREADS),
        accumulated(of_deviation, reduced, backward=joint_maximum),
        FLOAT,
        differentiable=False,
    ),
    op(
        "softmax",
        over(LOGARITHMS, keepdim=False),
        as_softmax(softmax.of_share(1.0), softmax.of_share_slope(1.0)),
        FLOATS,
    ),
    op(
        "softmin",
        over(LOGARITHMS, keepdim=False),
        as_softmax(softmax.of_share(-1.0), softmax.of_share_slope(-1.0), value=math.inf),
        FLOATS,
    ),
    op(
        "log_softmax",
        over(LOGARITHMS, keepdim=False),
        as_softmax(softmax.of_logarithm, softmax.of_logarithm_slope),
        FLOATS,
        traits=softmax.SUMMED_BACK,
    ),
    op(
        "logsumexp",
        over(LOGARITHMS, everything=True),
        # torch rounds the largest number's differences, their exponentials and the logarithm to the
        # half format.
        replace(
            as_softmax(moments.of_logsumexp, moments.of_softmax_share, reduced),
            wide_accumulation=False,
        ),
        FLOATS,
    ),
    op("logaddexp", pairs, accumulated("normwise", one, backward=joint_maximum), FLOATS),
    op(
        "cumsum",
        over(SUMMED, keepdim=False),
        replace(products(row), growth="linear"),
        (*FLOATS, *INTEGERS),
        traits=frozenset({"linear"}),
        complex=True,
    ),
    op(
        "cumprod",
        over(FACTORS, keepdim=False),
        replace(accumulated(twice, row, backward=joint_maximum), growth="linear"),
        (*FLOATS, *INTEGERS),
        complex=True,
    ),
]
