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


def moderate(d: Drawing, *points: float, tiny: bool = True) -> Domain:
    """Exponents from where exp(x) is normal to where exp(-x) is finite: beyond, x/(1 + exp(-x)) is
    a denormal or zero."""
    low = -708.0 if d.dtype == "float64" else -87.0
    return Domain(
        low, -low, points=(low, -low, *points), specials=EVERYWHERE, wide=(-24, 5), tiny=tiny
    )


def exponential(*points: float) -> Sample:
    """One tensor of exponents."""
    return lambda d: call(d.tensor(shape_of(d), moderate(d, *points)))


def gelu(d: Drawing) -> Call:
    """oneDNN makes infinities NaN, and denormals of bfloat16 zero."""
    domain = replace(
        moderate(d, 0.0, -5.5, 5.5, -13.0, tiny=False), specials=("0", "-0", "1", "-1", "nan")
    )
    return call(d.tensor(shape_of(d), domain), **optional_arguments(d, approximate=("tanh",)))


def unary(domain: Domain, **options: tuple[Any, ...]) -> Sample:
    """One tensor, and some of the keyword arguments."""

    def sample(d: Drawing) -> Call:
        return call(d.tensor(shape_of(d), domain), **optional_arguments(d, **options))

    return sample


def bounded(d: Drawing) -> Call:
    low, high = (
        (d.number(-4.0, 0.0), d.number(0.0, 4.0))
        if d.floating
        else (d.integer(-4, 0), d.integer(0, 4))
    )
    return call(
        d.tensor(shape_of(d), near(1.0, -1.0, low, high)),
        **({"min_val": low, "max_val": high} if d.flag() else {}),
    )


def threshold(d: Drawing) -> Call:
    low, value = (
        (d.number(-4.0, 4.0), d.number(-4.0, 4.0))
        if d.floating
        else (d.integer(-4, 4), d.integer(-4, 4))
    )
    return call(d.tensor(shape_of(d), near(low)), low, value)


def prelu(d: Drawing) -> Call:
    """One slope for all, or one per channel (dimension 1)."""
    shape = d.shape(1, 4)
    channels = shape[1] if len(shape) > 1 and d.flag() else 1
    return call(
        d.tensor(shape, near(0.0, specials=FINITE)),
        d.tensor((channels,), Domain(-2.0, 2.0, specials=("0", "1"))),
    )


def glu(d: Drawing) -> Call:
    shape = list(d.shape(1, 4, elements=2048))
    dim = d.dim(shape)
    shape[dim] *= 2
    return call(d.tensor(shape, replace(moderate(d), specials=(*FINITE, "nan"))), dim)


@hook
def of_input(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
    """S = |x|: a tail, or values near 0, are differences of numbers of that size."""
    return x.abs()  # type: ignore[no-any-return]


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
    slopes = weight.reshape(-1, *(1,) * (x.ndim - 2)) if weight.numel() > 1 else weight
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
SLOPES = (0.25, 1.5, -0.5)
NOT_LARGEST = tuple(
    token for token in EVERYWHERE if "max" not in token
)  # six times as much overflows

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
        unary(near(0.5, -0.5), lambd=(1.0, 0.0, 2.0)),
        SELECTED,
        traits=SELECTING,
        out=True,
        aten="hardshrink",
    ),
    activation(
        "softshrink",
        unary(near(0.5, -0.5), lambd=(1.0, 0.0, 2.0)),
        traits=SELECTING,
        out=True,
        aten="softshrink",
    ),
    activation("leaky_relu", unary(near(0.0), negative_slope=SLOPES), aten="leaky_relu"),
    activation("elu", unary(near(0.0, -87.33, -17.33), alpha=(0.5, 2.0)), aten="elu"),
    activation("celu", unary(near(0.0, -87.33, -17.33), alpha=(0.5, 2.0)), aten="celu"),
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
        ranges=((0, -math.inf, -88.0),),
    ),
    activation("mish", exponential(0.0, 20.0), aten="mish"),
    activation(
        "softplus",
        unary(near(0.0, 20.0, 8.0, 30.0, -88.72, 88.72), beta=(2.0, 0.5), threshold=(5.0, 40.0)),
        out=True,
        aten="softplus",
    ),
    activation(
        "softsign",
        unary(near(0.0, 1.0)),
        ErrorModel(magnitude="pointwise", backward=of_quotient),
        NUMERIC,
    ),
    activation("logsigmoid", unary(near(0.0, -88.72, 88.72, 103.97))),
    activation("tanhshrink", unary(near(0.0, 0.125, 9.01)), CANCELLING, NUMERIC),
    activation("hardsigmoid", unary(near(-3.0, 3.0)), traits=SELECTING, aten="hardsigmoid"),
    activation("hardswish", unary(near(-3.0, 3.0, specials=NOT_LARGEST)), aten="hardswish"),
    activation("prelu", prelu, ErrorModel(backward=of_parametric), traits=frozenset()),
    activation("glu", glu, ErrorModel(backward=of_gate), traits=frozenset(), aten="glu"),
]
