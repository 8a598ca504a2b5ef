"""Activation functions: one value in, one value out, within a few ulp; those that subtract nearly
equal numbers have S = |x|."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from . import definitions
from .declare import (
    EVERYWHERE,
    EXACT,
    EXTREMUM,
    FINITE,
    FLOATS,
    NUMERIC,
    ROUNDED,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    InPlaceVariant,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)
from .hooks import Tensors, hook
from .magnitudes import finite, largest
from .nonunique_results import zeros_aside, zeros_aside_at_a_zero_bound
from .parameter_sampling import optional_arguments
from .sampling import shape_of
from .write_destinations import destination

ELEMENTWISE = frozenset({"elementwise"})
SIGNED = tuple(dtype for dtype in NUMERIC if dtype != "uint8")  # for bounds below 0
SELECTING = frozenset({"elementwise", "constant"})  # mostly zeros or the bound is normal


def near(*points: float, specials: tuple[str, ...] = EVERYWHERE) -> Domain:
    """All numbers, with emphasis on those around the given points."""
    return Domain(points=points, specials=specials, wide=(-24, 24), tiny=True)


# Where exp(x) overflows, is denormal and 0: in float32, float16 and float64.
OVERFLOWS = (88.72, -87.34, -103.97, 11.09, -9.7, -17.33, 709.78, -708.4, -745.13)


def moderate(d: Drawing, *points: float, tiny: bool = True) -> Domain:
    """Exponents from where exp(x) is normal to where exp(-x) is finite: beyond, x/(1 + exp(-x)) is
    a denormal or zero."""
    low = -708.0 if d.dtype == "float64" else -87.0
    return Domain(
        low, -low, points=(low, -low, *points), specials=EVERYWHERE, wide=(-24, 5), tiny=tiny
    )


def exponents(d: Drawing, *points: float, specials: tuple[str, ...] = EVERYWHERE) -> Domain:
    """:func:`moderate`, and one time in four all numbers: results that are denormal or 0, too."""
    if d.integer(0, 3) < 3:
        return replace(moderate(d, *points), specials=specials)
    return near(*OVERFLOWS, *points, specials=specials)


def exponential(*points: float) -> Sample:
    """One tensor of exponents."""
    return lambda d: call(d.tensor(shape_of(d), exponents(d, *points)))


def gelu(d: Drawing) -> Call:
    """Mostly without infinities, which oneDNN makes NaN, and denormals, which it makes zero in
    bfloat16; one time in eight with both."""
    points = (0.0, -5.5, 5.5, -13.0)
    domain = replace(moderate(d, *points, tiny=False), specials=("0", "-0", "1", "-1", "nan"))
    if d.integer(0, 7) == 7:
        domain = near(*points)
    return call(d.tensor(shape_of(d), domain), **optional_arguments(d, approximate=("tanh",)))


def softplus(d: Drawing) -> Call:
    """With thresholds before and beyond where exp overflows, at and below 0, and betas of either
    sign; near the threshold, and near that overflow. Shrinks to the defaults."""
    beta, threshold = 1.0, 20.0
    options: dict[str, float] = {}
    if d.flag():
        options["beta"] = beta = d.choice(2.0, 0.5, 1.0, 64.0, 2.0**-10, -1.0, -0.25)
    if d.flag():
        options["threshold"] = threshold = d.choice(5.0, 40.0, 100.0, 20.0, 0.0, -2.0, 1000.0)
    points = (threshold, 0.0, 8.0, 30.0, -88.72, 88.72, 11.09, 709.78, -103.97)
    return call(d.tensor(shape_of(d), near(*(point / beta for point in points))), **options)


def unary(domain: Domain, **options: tuple[Any, ...]) -> Sample:
    """One tensor, and some of the keyword arguments."""

    def sample(d: Drawing) -> Call:
        return call(d.tensor(shape_of(d), domain), **optional_arguments(d, **options))

    return sample


def bounded(d: Drawing) -> Call:
    """Bounds on both sides of 0, on one of them, equal, or infinite. Shrinks to the defaults."""
    draw = d.number if d.floating else d.integer
    low, high = draw(-4, 0), draw(0, 4)
    match d.choice("around", "around", "around", "aside", "equal", *["open"] * d.floating):
        case "aside":
            low = draw(-4, 4)
            high = low + draw(0, 4)
        case "equal":
            high = low
        case "open":
            low, high = d.choice((-math.inf, high), (low, math.inf), (-math.inf, math.inf))
    points = [bound for bound in (low, high) if math.isfinite(bound)]
    return call(
        d.tensor(shape_of(d), near(1.0, -1.0, *points)),
        **({"min_val": low, "max_val": high} if d.flag() else {}),
    )


def threshold(d: Drawing) -> Call:
    """The bound and what takes the place of numbers below it, now and then infinite."""
    draw = d.number if d.floating else d.integer
    low, value = draw(-4, 4), draw(-4, 4)
    if d.floating and d.integer(0, 7) == 7:
        low = d.choice(low, -math.inf, math.inf)
        value = d.choice(math.inf, -math.inf, math.nan)
    return call(d.tensor(shape_of(d), near(low if math.isfinite(low) else 0.0)), low, value)


def prelu(d: Drawing) -> Call:
    """One slope for all, or one per channel (dimension 1); of either sign, 0, large or small. Now
    and then with NaN and infinities."""
    shape = d.shape(0, 4)
    channels = shape[1] if len(shape) > 1 and d.flag() else 1
    specials = EVERYWHERE if d.integer(0, 3) == 3 else FINITE
    return call(
        d.tensor(shape, near(0.0, specials=specials)),
        d.tensor((channels,), Domain(specials=("0", "1", "-0", "-1"), wide=(-10, 10))),
    )


def glu(d: Drawing) -> Call:
    shape = list(d.shape(1, 4, elements=2048))
    dim = d.dim(shape)
    shape[dim] *= 2
    return call(d.tensor(shape, exponents(d, specials=(*FINITE, "nan"))), dim)


@hook
def of_input(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
    """S = |x|: a tail, or values near 0, are differences of numbers of that size."""
    return definitions.ordered(x).abs()


@hook
def of_distribution(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
    """S = 4·|x| of x/2·(1 + erf), with an error function of 8 ulp."""
    return 4.0 * x.abs()  # type: ignore[no-any-return]


@hook
def of_tail(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
    """S = 1 + |x|, where the slope approaches 0 or 1 as the difference of such numbers; nothing
    cancels far out."""
    return (1.0 + x.abs()).clamp(max=16.0)  # type: ignore[no-any-return]


@hook
def of_mish_slope(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
    """The terms of tanh s + x·σ·(1 − tanh² s), which cancel at -1.19; right of 0 the last factor is
    a difference of numbers near 1, until tanh rounds to 1 (18.7 in float64)."""
    x = x.detach()
    t = torch.tanh(torch.nn.functional.softplus(x))
    cancelling = torch.where(x > 0.0, x.clamp(max=20.0), 0.0)
    return torch.nan_to_num(t + x.abs() * torch.sigmoid(x) * (1.0 - t * t) + cancelling, nan=0.0)


@hook
def without_nan(gradients: Tensors, x: Any, *_: Any, **__: Any) -> Tensors:
    """Gradients, 0 where the input is NaN: there torch's vector and scalar code differ, and nothing
    says who is right."""
    return tuple(torch.where(x.isnan(), 0.0, gradient) for gradient in gradients)


@hook
def of_quotient(gradients: Tensors, x: torch.Tensor) -> torch.Tensor:
    """1/(1 + |x|)², as the difference of 1/(1 + |x|) and |x|/(1 + |x|)²."""
    return 2.0 / (1.0 + x.abs())


@hook
def of_gate(gradients: Tensors, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """σ(b), and |a|·σ(b)·(1 − σ(b)), whose last factor is a difference."""
    a, b = x.chunk(2, dim)
    gate = torch.sigmoid(b)
    return torch.cat([gate, finite(a).abs() * gate], dim)


@hook
def of_parametric(
    gradients: Tensors, x: torch.Tensor, weight: torch.Tensor
) -> list[torch.Tensor | float]:
    """1 or |w|, as the sign of x has it; of the weight the sum of what it is multiplied by, for all
    channels the largest."""
    slopes = weight.reshape((-1, *(1,) * (x.ndim - 2)) if weight.numel() > 1 else ())
    factors = torch.where(x > 0.0, torch.ones_like(x), slopes.abs().expand_as(x))
    below = finite(x).clamp(max=0.0).abs()
    sums = below.transpose(0, 1).flatten(1).sum(1) if weight.numel() > 1 else below.sum()
    return [factors, largest(sums)]


def activation(
    name: str,
    sample: Sample,
    error: ErrorModel = ROUNDED,
    dtypes: tuple[str, ...] = FLOATS,
    traits: frozenset[str] = ELEMENTWISE,
    **more: Any,
) -> Operator:
    of_gradients = without_nan if "elementwise" in traits else None
    return Operator(
        name=f"nn.functional.{name}",
        family="activation",
        sample=sample,
        error=error,
        dtypes=dtypes,
        traits=traits,
        observe_gradients=of_gradients,
        **more,
    )


SELECTED = ErrorModel("exact", backward="output", moves=True)
CANCELLING = accumulated(of_input, one, backward=of_tail)
SLOPES = (0.25, 1.5, -0.5, 0.0, 64.0, 2.0**-20, 1.0)
BOUNDS = (1.0, 0.0, 2.0, 2.0**-10, 1000.0)  # of what becomes 0
SCALES = (0.5, 2.0, -1.0, 64.0, 2.0**-10)  # alpha of elu and celu

OPERATORS = [
    activation(
        "relu",
        unary(near(0.0)),
        SELECTED,
        NUMERIC,
        SELECTING | EXTREMUM,
        inplace=InPlaceVariant(
            "relu_",
            destination(),
            error=EXACT,
            traits=ELEMENTWISE | EXTREMUM | {"inplace"},
        ),
        aten="relu",
    ),
    activation(
        "relu6",
        unary(near(0.0, 6.0)),
        SELECTED,
        NUMERIC,
        SELECTING | EXTREMUM,
        aten="relu6",
        observe=zeros_aside,
    ),
    activation(
        "hardtanh",
        bounded,
        SELECTED,
        SIGNED,
        SELECTING | EXTREMUM,
        aten="hardtanh",
        observe=zeros_aside_at_a_zero_bound,
    ),
    activation("threshold", threshold, SELECTED, NUMERIC, SELECTING),
    activation(
        "hardshrink",
        unary(near(0.5, -0.5, 1.0, -2.0), lambd=(*BOUNDS, -1.0)),
        SELECTED,
        traits=SELECTING,
        out=True,
        aten="hardshrink",
    ),
    activation(
        "softshrink",
        unary(near(0.5, -0.5, 1.0, -2.0), lambd=BOUNDS),
        traits=SELECTING,
        out=True,
        aten="softshrink",
    ),
    activation("leaky_relu", unary(near(0.0), negative_slope=SLOPES), aten="leaky_relu"),
    activation("elu", unary(near(0.0, -87.33, -17.33), alpha=(*SCALES, 0.0)), aten="elu"),
    activation("celu", unary(near(0.0, -87.33, -17.33), alpha=SCALES), aten="celu"),
    activation("selu", unary(near(0.0, -87.33, -17.33)), aten="selu"),
    activation(
        "gelu", gelu, accumulated(of_distribution, one, backward=of_tail), out=True, aten="gelu"
    ),
    replace(
        activation(
            "silu",
            exponential(0.0, 20.0),
            ErrorModel(magnitude="pointwise", backward=of_tail),
            aten="silu",
            reference=definitions.silu,
        ),
        ranges=((0, -math.inf, -708.0), (0, -708.0, -88.0)),
    ),
    replace(
        activation(
            "mish",
            exponential(0.0, 20.0),
            ErrorModel("rounded", "pointwise", backward=of_mish_slope),
            aten="mish",
        ),
        ranges=((0, -math.inf, -708.0), (0, -708.0, -87.0)),
    ),
    activation(
        "softplus",
        softplus,
        out=True,
        aten="softplus",
    ),
    activation(
        "softsign",
        unary(near(0.0, 1.0)),
        ErrorModel(magnitude="pointwise", backward=of_quotient),
        NUMERIC,
        complex=True,
    ),
    activation("logsigmoid", unary(near(0.0, -88.72, 88.72, 103.97))),
    activation("tanhshrink", unary(near(0.0, 0.125, 9.01)), CANCELLING, NUMERIC),
    activation("hardsigmoid", unary(near(-3.0, 3.0)), traits=SELECTING, aten="hardsigmoid"),
    activation("hardswish", unary(near(-3.0, 3.0)), aten="hardswish"),
    activation("prelu", prelu, ErrorModel(backward=of_parametric), traits=frozenset()),
    activation("glu", glu, ErrorModel(backward=of_gate), traits=frozenset(), aten="glu"),
]
