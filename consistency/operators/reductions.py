"""Sums, means, norms, extrema and moments over all dims, one, or several."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..recipe import DType
from .declare import (
    EVERY,
    EXACT,
    FLOATS,
    NUMERIC,
    SUMMED,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    products,
    reduced,
)  # fmt: skip
from .observing import Args, Kwargs, Tensors, argument, extremum_along, tied_sums, value_at_extremum, zeros_aside
from .sampling import along, fitting, reducible

REDUCTION = frozenset({"reduction"})
LINEAR = REDUCTION | {"linear"}
TIES = REDUCTION | {"ties"}
CONSTANT = REDUCTION | {"constant"}

EXTREME = Domain(specials=("nan", "inf", "-inf", "0", "-0", "max", "-max"), wide=(-24, 24), tiny=True)
SOME_NAN = Domain(specials=("nan", "-nan"), wide=(-10, 9), sums=True)
EXPONENTS = Domain(-80.0, 80.0, points=(0.0,), specials=("-inf", "inf"), wide=(-10, 5))
MEASURED = Domain(wide=(-8, 7))
SMALL = Domain(wide=(-3, 3))


def over(domain: Domain, *, several: bool = True, full: bool = True, half: Domain | None = None) -> Sample:
    """A tensor, and the dims to reduce: all, one, or ``several``."""

    def sample(d: Drawing) -> Call:
        shape = reducible(d)
        return call(d.tensor(shape, fitting(d, domain, half)), **along(d, shape, several=several, full=full))

    return sample


def summing(domain: Domain) -> Sample:
    """As :func:`over`; narrow floats sometimes ask for a float32 result."""

    def sample(d: Drawing) -> Call:
        shape = reducible(d)
        kwargs = along(d, shape)
        if d.dtype in ("float16", "bfloat16") and d.choice(False, False, True):
            kwargs["dtype"] = DType("float32")
        return call(d.tensor(shape, domain), **kwargs)

    return sample


def product(d: Drawing) -> Call:
    """Factors near 1 for long rows, so that the product stays in range; any for short ones."""
    shape = reducible(d, 512)
    kwargs = along(d, shape, several=False)
    if not d.floating:
        return call(d.tensor(shape, values=("integers", 1, 3)), **kwargs)
    if math.prod(shape) <= 12:
        return call(d.tensor(shape, Domain(wide=(-2, 1), specials=("nan", "inf"))), **kwargs)
    spread = 2.0 ** -max(round(math.log2(math.prod(shape)) / 2), 3)
    return call(d.tensor(shape, SMALL, values=("uniform", 1.0 - spread, 1.0 + spread)), **kwargs)


def moments(d: Drawing) -> Call:
    """Three elements or more per result, so that none is NaN; the correction is 1, 0 or 2, also by its older name.

    No row is one number expanded: its deviation is 0 or, where the mean is rounded, not; then so is the gradient.
    """
    shape = (*d.shape(0, 2, most=4), d.size(3, 4096)) if d.choice(False, False, True) else d.shape(1, 4, least=3, most=16)
    kwargs = along(d, shape, full=len(shape) < 2) if d.flag() else {"dim": -1}
    match d.choice("default", "correction", "unbiased"):
        case "correction":
            kwargs["correction"] = d.choice(0, 1, 2)
        case "unbiased":
            kwargs["unbiased"] = d.flag()
            kwargs.setdefault("dim", list(range(len(shape))))
    return call(d.tensor(shape, SUMMED, overlap=False), **kwargs)


def norms(*orders: Any) -> Sample:
    """An order by position, as users write it."""

    def sample(d: Drawing) -> Call:
        shape = reducible(d)
        return call(d.tensor(shape, fitting(d, MEASURED, SMALL)), d.choice(*orders), **along(d, shape))

    return sample


def distance(d: Drawing) -> Call:
    shape = reducible(d)
    domain = fitting(d, MEASURED, SMALL)
    return call(d.tensor(shape, domain), d.tensor(d.broadcastable(shape), domain), d.choice(2, 2.0, 1, 3.0, math.inf))


def truths(d: Drawing) -> Call:
    """Mostly zeros, or no zeros at all, so that any and all depend on few elements."""
    shape = reducible(d)
    low = d.choice(0, 0, 1)
    values = ("sparse", 1 / 256) if d.floating and not low else ("integers", low, 1)
    return call(d.tensor(shape, values=values), **along(d, shape, several=False))


def counted(d: Drawing) -> Call:
    shape = reducible(d)
    kwargs = along(d, shape)
    return call(d.tensor(shape, values=("integers", 0, 1)), **({"dim": kwargs["dim"]} if "dim" in kwargs else {}))


def extremum(d: Drawing) -> Call:
    """Of everything, or along one dim given by position, which also returns indices."""
    shape = reducible(d)
    kwargs = along(d, shape, several=False)
    return call(d.tensor(shape, EXTREME), *([kwargs.pop("dim")] if "dim" in kwargs else []), **kwargs)


def lowest_and_highest(d: Drawing) -> Call:
    shape = reducible(d)
    return call(d.tensor(shape, EXTREME), **along(d, shape, several=False))


def matrix(d: Drawing) -> Call:
    return call(d.tensor((d.size(1, 64), d.size(1, 64)), SUMMED))


def smaller(d: Drawing) -> Call:
    """A shape that the tensor broadcasts from."""
    shape = d.shape(1, 4)
    return call(d.tensor(shape, SUMMED), list(d.broadcastable(shape)))


def dims_of(args: Args, kwargs: Kwargs, position: int = 1) -> list[int]:
    dim = argument("dim", position, None, args, kwargs)
    return list(range(args[0].ndim)) if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]


def spread(args: Args, kwargs: Kwargs) -> tuple[torch.Tensor, torch.Tensor]:
    """|mean| and the standard deviation about it, with the reduced dims kept or not as the caller asked."""
    x, dims = args[0].detach(), dims_of(args, kwargs)
    mean = x.mean(dims, keepdim=True)
    deviation = ((x - mean) ** 2).mean(dims, keepdim=True).sqrt()
    count = x.numel() / max(mean.numel(), 1)
    deviation = deviation * math.sqrt(count / max(count - correction(kwargs), 1))
    kept = kwargs.get("keepdim", False)
    return tuple(t if kept or not t.ndim else t.squeeze(dims) for t in (mean.abs(), deviation))  # type: ignore[return-value]


def of_variance(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """S = σ² + |mean|·σ: what a two-pass or a running (Welford) computation may lose; one pass over x² loses mean²."""
    mean, deviation = spread(args, kwargs)
    return deviation**2 + mean * deviation + 2.0**-18 * mean**2, summed_mean(args, kwargs)


def of_deviation(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    mean, deviation = spread(args, kwargs)
    return deviation + mean, summed_mean(args, kwargs)


def of_slope(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """∂var = 2(x − mean)/(n − c), for cotangents up to 1; with var_mean also 1/n, which is smaller."""
    x, dims = args[0].detach(), dims_of(args, kwargs)
    mean = x.mean(dims, keepdim=True)
    count = x.numel() / max(mean.numel(), 1)
    return (2.0 * (x - mean).abs() + 8.0 * x.abs().mean(dims, keepdim=True) + 1.0) / max(count - correction(kwargs), 1)  # type: ignore[no-any-return]


def of_steep_slope(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """∂std = (x − mean)/((n − c)·std)."""
    _, deviation = spread(args, {**kwargs, "keepdim": True})
    return torch.nan_to_num(
        of_slope(args, kwargs, outputs) / torch.minimum(deviation, torch.ones_like(deviation)), nan=0.0, posinf=0.0
    )


def correction(kwargs: Kwargs) -> int:
    return int(kwargs.get("correction", int(kwargs.get("unbiased", True))))


def summed_mean(args: Args, kwargs: Kwargs) -> torch.Tensor:
    return args[0].detach().abs().mean(dims_of(args, kwargs), keepdim=kwargs.get("keepdim", False))  # type: ignore[no-any-return]


def first_of(magnitude: Any) -> Any:
    return lambda args, kwargs, outputs: magnitude(args, kwargs, outputs)[0]


def of_logsumexp(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """|max| + |log Σ exp(x − max)| + 1, infinities aside."""
    largest = torch.amax(args[0].detach(), dims_of(args, kwargs), keepdim=kwargs.get("keepdim", False))
    return torch.nan_to_num(largest.abs() + (outputs[0] - largest).abs() + 1.0, posinf=0.0)


def of_softmax_share(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """The gradient is cotangent · exp(x − logsumexp): relative errors as large as both exponents."""
    x = args[0].detach()
    total = torch.logsumexp(x, dims_of(args, kwargs), keepdim=True)
    return torch.nan_to_num(outputs[0].abs() * (1.0 + x.abs() + 2.0 * total.abs()), nan=0.0, posinf=0.0)


def of_factors(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Each gradient is a product of all the other factors."""
    dims = dims_of(args, kwargs)
    count = math.prod(args[0].shape[dim] for dim in dims) if args[0].ndim else 1
    return tuple(output.abs() * math.sqrt(count) for output in outputs)


def own(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """A distance: a difference and a root beside the norm."""
    return tuple(4.0 * output.abs() for output in outputs)


def of_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Gradients of norms: a few products and quotients, one of them with a power of the norm, which was a sum of √n."""
    dims = dims_of(args, kwargs, 2)
    count = math.prod(args[0].shape[dim] for dim in dims) if args[0].ndim else 1
    return tuple((4.0 + math.sqrt(count)) * output.abs() for output in outputs)


def op(name: str, sample: Sample, error: ErrorModel, dtypes: tuple[str, ...] = FLOATS, **more: Any) -> Operator:
    settings: dict[str, Any] = {"traits": REDUCTION} | more
    return Operator(name=name, family="reduction", sample=sample, error=error, dtypes=dtypes, **settings)


SUM = products(reduced, integers_exact=True)
STORED = replace(SUM, wide_accumulation=False)  # partial sums are stored in the half formats
NORM = accumulated("output", reduced, backward=of_norm)
TIED = tied_sums(lambda args, kwargs: argument("dim", 1, None, args, kwargs))
FIXED: dict[str, Any] = {"traits": CONSTANT, "differentiable": False}
OPERATORS = [
    op("sum", summing(SUMMED), SUM, (*NUMERIC, "bool"), traits=LINEAR),
    op("mean", summing(SUMMED), SUM, traits=LINEAR),
    op("nansum", summing(SOME_NAN), STORED),
    op("nanmean", over(SOME_NAN, half=Domain(specials=("nan",))), STORED),
    op("sum_to_size", smaller, SUM, NUMERIC, traits=LINEAR),
    op(
        "trace",
        matrix,
        products(lambda args, kwargs, outputs: float(min(args[0].shape)), integers_exact=True),
        NUMERIC,
        traits=LINEAR,
    ),
    op("prod", product, accumulated("output", reduced, backward=of_factors, wide_accumulation=False), NUMERIC),
    op("amax", over(EXTREME), EXACT, EVERY, traits=TIES, observe=zeros_aside),
    op("amin", over(EXTREME), EXACT, EVERY, traits=TIES, observe=zeros_aside),
    op("aminmax", lowest_and_highest, EXACT, EVERY, traits=TIES, observe=zeros_aside),
    op("max", extremum, EXACT, EVERY, traits=TIES, observe=extremum_along, observe_gradients=TIED),
    op("min", extremum, EXACT, EVERY, traits=TIES, observe=extremum_along, observe_gradients=TIED),
    op("argmax", over(EXTREME, several=False), EXACT, NUMERIC, traits=TIES, differentiable=False, observe=value_at_extremum),
    op("argmin", over(EXTREME, several=False), EXACT, NUMERIC, traits=TIES, differentiable=False, observe=value_at_extremum),
    op("var", moments, accumulated(first_of(of_variance), reduced, backward=of_slope)),
    op("std", moments, accumulated(first_of(of_deviation), reduced, backward=of_steep_slope)),
    op("var_mean", moments, accumulated(of_variance, reduced, backward=of_slope)),
    op("std_mean", moments, accumulated(of_deviation, reduced, backward=of_steep_slope)),
    op("norm", norms(2, 1, 2.0, 3, math.inf, -math.inf, 0), NORM),
    op("linalg.vector_norm", norms(2, 1, 2.0, 3, math.inf, -math.inf, 0), NORM),
    op("dist", distance, accumulated(own, reduced)),
    op(
        "logsumexp",
        over(EXPONENTS, full=False),
        accumulated(of_logsumexp, reduced, backward=of_softmax_share, wide_accumulation=False),
    ),
    op("all", truths, EXACT, EVERY, **FIXED),
    op("any", truths, EXACT, EVERY, **FIXED),
    op("count_nonzero", counted, EXACT, EVERY, **FIXED),
]
