"""Variances, norms and distances: reductions whose S has a closed form of its own."""

from __future__ import annotations

import math
from typing import Any

import torch

from . import definitions
from .declare import (
    EVERY,
    SQUARED,
    Call,
    ComplexVariant,
    Domain,
    Drawing,
    Sample,
    accumulated,
    call,
    reduced,
)
from .hooks import Args, Kwargs, Tensors
from .magnitudes import finite, of_cancelled, repeats
from .reductions import SMALL, dims_of, op, over
from .sampling import along, fitting, reducible

EXPONENTS = Domain(-128.0, 128.0, points=(0.0, 88.72), specials=("-inf", "inf"), wide=(-10, 6))
MEASURED = Domain(wide=(-8, 7), squares=True)
LARGE = Domain(64.0, 900.0)


def moments(d: Drawing) -> Call:
    """Three elements or more per result, so that none is NaN; the correction is 1, 0 or 2, also by
    its older name.

    No row is one number expanded: its deviation is 0 or, where the mean is rounded, not; then so is
    the gradient.
    """
    if d.choice(False, False, False, True):
        # Everything, by default: what a wrong default of the correction is worth is 1/n.
        return call(d.tensor(d.shape(1, 2, least=3, most=4), SQUARED, overlap=False))
    kwargs: dict[str, Any] = {"dim": -1}
    if d.choice(False, False, True):
        shape = (*d.shape(0, 2, most=4), d.size(3, 4096))
    else:
        shape = d.shape(1, 4, least=3, most=16)
        kwargs = dict(along(d, shape))
    match d.choice("default", "correction", "unbiased"):
        case "correction":
            # As much as there are numbers, or more: what is divided by is 0, never negative.
            count = math.prod(shape[at] for at in reduced_dims(kwargs, len(shape)))
            kwargs["correction"] = d.choice(*[0, 1, 2] * 4, count, count + 2)
        case "unbiased":
            kwargs["unbiased"] = d.flag()
            kwargs.setdefault("dim", list(range(len(shape))))
    # The mean of one infinity and numbers is defined, however it is summed.
    values = ("tokens", -1.0, 1.0, "inf") if d.choice(*[False] * 9, True) else None
    return call(d.tensor(shape, SQUARED, values=values, overlap=False), **kwargs)


def reduced_dims(kwargs: dict[str, Any], rank: int) -> list[int]:
    """The dimensions that a call with these arguments reduces."""
    given = kwargs.get("dim")
    return list(range(rank)) if given is None else [given] if isinstance(given, int) else given


def norms(*orders: Any) -> Sample:
    """An order by position, as users write it; now and then one whose powers are no squares, but
    in float16, which they leave."""

    def sample(d: Drawing) -> Call:
        shape, order = reducible(d), d.choice(*orders)
        if d.dtype != "float16" and d.choice(*[False] * 5, True):
            order = d.choice(4, 0.5, -1, -2.5)
        # Squares of numbers beyond 2⁸ leave float16, their norm does not.
        half = d.choice(SMALL, LARGE)
        rows_of_zeros = d.choice(("sparse", 0.125), None) if d.flag() else None
        x = d.tensor(shape, fitting(d, MEASURED, half), values=rows_of_zeros)
        where = along(d, shape)
        # The default is Frobenius's, of at most two dimensions if they are named.
        named = where.get("dim")
        implied = order == 2 and not (isinstance(named, list) and len(named) > 2)
        return call(x, *([] if implied and d.flag() else [order]), **where)

    return sample


def distance(d: Drawing) -> Call:
    shape = reducible(d)
    domain = fitting(d, MEASURED, SMALL)
    # As in norms: other powers of half precision's numbers leave it.
    orders: tuple[float, ...] = (2, 2.0, 1, math.inf)
    if d.dtype != "float16":
        orders += (3.0, 0.5, 0.0, -1.0, -2.5, -math.inf)
    return call(
        d.tensor(shape, domain), d.tensor(d.broadcastable(shape), domain), d.choice(*orders)
    )


def spread(args: Args, kwargs: Kwargs) -> tuple[torch.Tensor, torch.Tensor]:
    """|mean| and the standard deviation about it, with the reduced dims kept or not as the caller
    asked."""
    args, kwargs = by_name(args, kwargs)
    x, dims = args[0].detach(), dims_of(args, kwargs)
    mean = x.mean(dims, keepdim=True)
    deviation = ((x - mean).abs() ** 2).mean(dims, keepdim=True).sqrt()
    count = x.numel() / max(mean.numel(), 1)
    deviation = deviation * math.sqrt(count / max(count - correction(kwargs), 1))
    keepdim = kwargs.get("keepdim", False)
    return tuple(t if keepdim or not t.ndim else t.squeeze(dims) for t in (mean.abs(), deviation))


def of_variance(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """S = σ² + |mean|·σ: what a two-pass or a running (Welford) computation may lose; one pass over
    x² loses mean²."""
    mean, deviation = spread(args, kwargs)
    return deviation**2 + mean * deviation + 2.0**-18 * mean**2, summed_mean(args, kwargs)


def of_deviation(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    mean, deviation = spread(args, kwargs)
    return deviation + mean, summed_mean(args, kwargs)


def of_slope(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """∂var = 2(x − mean)/(n − c), for cotangents up to 1; with var_mean also 1/n, which is
    smaller."""
    args, kwargs = by_name(args, kwargs)
    x, dims = args[0].detach(), dims_of(args, kwargs)
    mean = x.mean(dims, keepdim=True)
    count = x.numel() / max(mean.numel(), 1)
    return (2.0 * (x - mean).abs() + 8.0 * x.abs().mean(dims, keepdim=True) + 1.0) / max(  # type: ignore[no-any-return]
        count - correction(kwargs), 1
    )


def of_steep_slope(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """∂std = (x − mean)/((n − c)·std). A running computation of n numbers (Welford) has errors of
    √n·u/4 in std, so many more than going in and out, whose n is 1; where numbers repeat, their
    roundings add up: n·u/10. No std is known better than to a rounding of the mean: of equal
    numbers, whose mean may be rounded, any quotient of two such roundings is their gradient."""
    args, kwargs = by_name(args, kwargs)
    mean, deviation = spread(args, {**kwargs, "keepdim": True})
    deviation = torch.maximum(deviation, mean * 2.0**-53)
    x, dims = args[0].detach(), dims_of(args, kwargs)
    count = x.numel() / max(deviation.numel(), 1)
    beside = (x - x.mean(dims, keepdim=True)).abs() / max(count - correction(kwargs), 1)
    growth = count / 10.0 if repeats(x) else math.sqrt(count) / 4.0
    slope = of_slope(args, kwargs, outputs) + growth * beside
    return torch.nan_to_num(
        slope / torch.minimum(deviation, torch.ones_like(deviation)),
        nan=0.0,
        posinf=0.0,
    )


def correction(kwargs: Kwargs) -> int:
    """Taken from the count: 1, if nothing else is asked for by either name."""
    asked = kwargs.get("correction")
    return int(kwargs.get("unbiased", True) if asked is None else asked)


def by_name(args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The call with options by name: ``var(x, unbiased)``, ``var(x, dim, unbiased, keepdim)``."""
    whole = len(args) > 1 and isinstance(args[1], bool)
    names = ("unbiased",) if whole else ("dim", "unbiased", "keepdim")
    return args[:1], {**kwargs, **dict(zip(names, args[1:], strict=False))}


def summed_mean(args: Args, kwargs: Kwargs) -> torch.Tensor:
    args, kwargs = by_name(args, kwargs)
    return args[0].detach().abs().mean(dims_of(args, kwargs), keepdim=kwargs.get("keepdim", False))  # type: ignore[no-any-return]


def first_of(magnitude: Any) -> Any:
    return lambda args, kwargs, outputs: magnitude(args, kwargs, outputs)[0]


def of_logsumexp(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """|max| + |log Σ exp(x − max)| + 1, infinities aside."""
    x, dims, keepdim = args[0].detach(), dims_of(args, kwargs), kwargs.get("keepdim", False)
    real = (x.real if x.is_complex() else x).double()
    largest = torch.amax(real, dims, keepdim=keepdim)
    size = largest.abs() + (outputs[0] - largest).abs()
    lost = of_cancelled(torch.logsumexp(real, dims, keepdim), outputs[0]) if x.is_complex() else 1.0
    return torch.nan_to_num(size + lost, posinf=0.0)


def of_softmax_share(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """The gradient is cotangent · exp(x − logsumexp): relative errors as large as both
    exponents."""
    x, dims = args[0].detach(), dims_of(args, kwargs)
    total = torch.logsumexp(x, dims, keepdim=True)
    lost = of_cancelled(torch.logsumexp(x.real, dims, True), total) if x.is_complex() else 1.0
    return torch.nan_to_num(
        outputs[0].abs() * (lost + x.abs() + 2.0 * total.abs()), nan=0.0, posinf=0.0
    )


def of_root(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """|ref|; a root other than the square root carries the rounding of its exponent, times the
    logarithm of what is under it: |ln ref|."""
    sizes = [output.abs() for output in outputs]
    if _norm_order(args, kwargs) in (0, 1, 2, math.inf, -math.inf, "fro", "nuc"):
        return tuple(sizes)
    return tuple(size * (1.0 + finite(size.log()).abs()) for size in sizes)


def own(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """A distance: a difference and a root beside the norm."""
    return tuple(4.0 * output.abs() for output in outputs)


def of_distance(args: Args, kwargs: Kwargs, gradients: Tensors) -> Tensors:
    """|ḡ|·|d|ᵖ⁻¹/‖d‖ᵖ⁻¹ with d = x − y, summed where an operand was broadcast; ‖d‖ has the error of
    a long sum in it.

    ḡ follows from Euler's Σx·∂x + Σy·∂y = ḡ·‖d‖.
    """
    x, y, order = args[0].detach(), args[1].detach(), _order(args, kwargs)
    d = (x - y).abs()
    norm = torch.linalg.vector_norm(d, order)
    terms = (d == norm).double() if order == math.inf else (d / norm) ** (order - 1)
    cotangent = sum((a * g).sum() for a, g in zip((x, y), gradients, strict=True)) / norm
    growth = d.numel() if 16 * d.unique().numel() <= d.numel() else math.sqrt(d.numel())
    scale = (4.0 + growth) * (cotangent.abs() * terms)
    farthest = of_farthest(args, kwargs, gradients)
    return (
        tuple(scale.sum_to_size(g.shape) for g in farthest)
        if len(farthest) > 1
        else (scale.sum() * norm,)
    )


def _order(args: Args, kwargs: Kwargs) -> float:
    """The order of the norm that a distance is."""
    return float(args[2] if len(args) > 2 else kwargs.get("p", 2.0))


def of_farthest(args: Args, kwargs: Kwargs, gradients: Tensors) -> Tensors:
    """In the maximum norm several differences may round to the largest: then Σx·∂x + Σy·∂y,
    whichever of them is chosen."""
    x, y = (a.detach() for a in args[:2])
    if _order(args, kwargs) != math.inf or any(
        g is None or g.shape != a.shape for g, a in zip(gradients, args[:2], strict=False)
    ):
        return gradients
    two = (x - y).abs().flatten().nan_to_num().topk(min(2, (x - y).numel())).values.tolist()
    if len(two) < 2 or two[0] - two[1] > 2.0**-6 * (x.abs().max() + y.abs().max()):
        return gradients
    return ((x * gradients[0]).sum() + (y * gradients[1]).sum(),)


def _norm_order(args: Args, kwargs: Kwargs) -> Any:
    """The order of a norm: a number, or a name."""
    return next((o for o in (*args[1:2], kwargs.get("p"), kwargs.get("ord")) if o is not None), 2)


def of_norm(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Gradients of norms: a few products and quotients, one of them with a power of the norm, which
    errs by p - 1 times as much, a sum of √n, or of n equal ones."""
    order = _norm_order(args, kwargs)
    if order == "nuc":
        raise TypeError("the nuclear norm is made of singular values, and so is its gradient")
    power = 1.0
    if isinstance(order, (int, float)) and math.isfinite(order):
        power = max(1.0, abs(order - 1.0) / 2.0)
    x, dims = args[0].detach(), dims_of(args, kwargs, 2)
    count = math.prod(x.shape[dim] for dim in dims) if x.ndim else 1
    parts = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    growth = count / 4.0 if 16 * parts.unique().numel() <= parts.numel() else math.sqrt(count)
    return tuple((4.0 + growth) * power * output.abs() for output in outputs)


NORM = accumulated(of_root, reduced, backward=of_norm)
COMPLEX_NORM = ComplexVariant(error=NORM)


OPERATORS = [
    op("var", moments, accumulated(first_of(of_variance), reduced, backward=of_slope),
       complex=True, out=True, method=True),
    op("std", moments,
       accumulated(first_of(of_deviation), reduced, backward=of_steep_slope),
       complex=True, out=True, method=True),
    op("var_mean", moments,
       accumulated(of_variance, reduced, backward=of_slope),
       reference=definitions.var_mean, complex=True),
    op("std_mean", moments,
       accumulated(of_deviation, reduced, backward=of_steep_slope),
       reference=definitions.std_mean, complex=True),
    op("norm", norms(2, 1, 2.0, 2, 3, math.inf, -math.inf, 0), NORM,
       complex=COMPLEX_NORM, out=True, method=True),
    op("linalg.vector_norm", norms(2, 1, 2.0, 2, 3, math.inf, -math.inf, 0), NORM,
       complex=COMPLEX_NORM, out=True),
    op("dist", distance, accumulated(own, reduced, backward=of_distance),
    observe_gradients=of_farthest),
    op(
        "logsumexp",
        over(EXPONENTS, full=False),
        accumulated(of_logsumexp, reduced, backward=of_softmax_share,
                    wide_accumulation=False),
       dtypes=EVERY, complex=True, out=True, method=True),
]  # fmt: skip
