"""Elementwise functions of one tensor. S is |x·f'(x)|; where an intermediate step cancels, λ > 0 lets it in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from .declare import (
    EVERYWHERE,
    EXACT,
    FLOAT,
    FLOATS,
    HALF,
    NUMERIC,
    PROBABILITY,
    REAL,
    ROUNDED,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)  # fmt: skip
from .observing import Args, Kwargs, Tensors, decimal_neighbours
from .sampling import scalar, shape_of, unary

ELEMENTWISE = frozenset({"elementwise"})
CANCELLING = accumulated("pointwise", one, backward="pointwise")

NICE = ("0", "-0", "1", "-1", "nan", "-nan", "inf", "-inf")  # without those whose gradients overflow or underflow on the way
MODERATE = Domain(specials=EVERYWHERE, wide=(-24, 5), tiny=True)
BESSEL = Domain(-60.0, 60.0, points=(5.0, 8.0, 2.4048, 3.8317), specials=("0", "nan"), wide=(-10, 4))
GROWING = Domain(-80.0, 80.0, points=(8.0, -8.0), specials=("0", "nan"), wide=(-10, 3))
BESSEL_SMALL = Domain(-9.0, 9.0, points=(8.0, -8.0))
BESSEL_POSITIVE = Domain(2.0**-6, 60.0, points=(2.0, 5.0, 8.0))
UNIT_CLOSED = Domain(-1.0, 1.0, points=(-1.0, 1.0, 0.5), specials=("0", "-0", "1", "-1", "nan", "inf", "subnormal"), tiny=True)
NONNEGATIVE = Domain(0.0, specials=EVERYWHERE, wide=(-24, 24), tiny=True)


def gradient_of(step: Any) -> Any:
    """S of a gradient |cotangent|·step(x)·|f'(x)|, with ``step(x)`` what was lost on the way, relative to f'."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
        return torch.nan_to_num(outputs[0].abs() * step(args[0].detach()), nan=0.0, posinf=0.0)

    return magnitude


def from_output(step: Any) -> ErrorModel:
    """Functions whose gradient is formed from their own rounded result, such as 1 - tanh²."""
    return ErrorModel("rounded", "pointwise", backward=gradient_of(step))


def stepping(d: Drawing) -> Call:
    """Around whole numbers, well beyond the last one with a fraction, and ordinary numbers."""
    domain = Domain(points=(1.0, -1.0, 2.0, 8388608.0), specials=EVERYWHERE, wide=(-24, 40))
    return call(d.tensor(shape_of(d), domain, values=d.choice(("uniform", -64.0, 64.0), None) if d.floating else None))


def rounding(d: Drawing) -> Call:
    """Without decimals anything; with decimals numbers that do not overflow when scaled."""
    decimals = d.choice(0, 0, 0, 1, 2, -1) if d.floating else 0
    if decimals:
        return call(d.tensor(shape_of(d), Domain(-100.0, 100.0, points=(0.5, 2.5, 0.125))), decimals=decimals)
    return call(d.tensor(shape_of(d), Domain(points=(0.5, 1.5, 2.5, -0.5, -3.5), specials=EVERYWHERE, wide=(-24, 24))))


def replacing(d: Drawing) -> Call:
    """nan_to_num with every replacement given: the defaults are those of the dtype."""
    given = {name: scalar(d) for name in ("nan", "posinf", "neginf")}
    return call(d.tensor(shape_of(d), REAL), **given)


def erf(d: Drawing) -> Call:
    """In the half formats not next to 0, where torch 2.13 on the CPU is off by 1.5e-7 and returns 0 below 2^-23."""
    points = (0.84375, 1.25, 3.92, -3.0)
    if d.dtype in HALF:
        return call(d.tensor(shape_of(d), d.choice(Domain(2.0**-6, 6.0, points=points), Domain(-6.0, -(2.0**-6), points=points))))
    return call(d.tensor(shape_of(d), Domain(points=points, specials=EVERYWHERE, wide=(-24, 4), tiny=True)))


def logit(d: Drawing) -> Call:
    kwargs = {"eps": d.choice(0.0625, 0.25)} if d.flag() else {}
    return call(d.tensor(shape_of(d), Domain(2.0**-8, 1.0 - 2.0**-8, points=(0.5,))), **kwargs)


def polygamma(d: Drawing) -> Call:
    """In float16 where ζ(n + 1, x), which is rounded before it is multiplied by n!, is neither large nor subnormal."""
    low, high = (1.0, 6.0) if d.dtype == "float16" else (0.25, 30.0)
    return call(d.integer(0, 4), d.tensor(shape_of(d), Domain(low, high, points=(1.0, 1.4616))))


def mvlgamma(d: Drawing) -> Call:
    p = d.integer(1, 4)
    return call(d.tensor(shape_of(d), Domain((p - 1) / 2 + 0.25, 30.0)), p)


def summed_lgamma(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    x, p = args[0].detach(), args[1]
    steps = [(x - j / 2).clamp(min=0.01) for j in range(p)]
    return p * (p - 1) / 4 * math.log(math.pi) + sum(torch.lgamma(s).abs() + (s * torch.digamma(s)).abs() for s in steps)  # type: ignore[no-any-return]


def lgamma_magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """Left of 0 the reflection formula takes lgamma(1 - x) from log(π / |sin(πx)|), whose own error is that of πx."""
    x = args[0].detach()
    size = x.abs()
    slope = (math.pi * x / torch.tan(math.pi * x)).abs()
    return torch.nan_to_num(size * (size + 1).log() + size + torch.where(x < 0, slope, 0.0) + outputs[0].abs(), posinf=0.0)


def of_sinc(x: torch.Tensor) -> torch.Tensor:
    """The gradient is (cos πx − sinc x) / x, whose terms cancel for small x."""
    turn = math.pi * x
    slope = torch.where(x.abs() < 2.0**-8, -turn * math.pi / 3, (torch.cos(turn) - torch.sinc(x)) / x)
    return (torch.cos(turn).abs() * (1 + turn.abs()) + torch.sinc(x).abs() + turn.abs()) / (x * slope).abs()


def of_erfcx(x: torch.Tensor) -> torch.Tensor:
    """The gradient is 2x·erfcx(x) − 2/√π."""
    product = 2 * x * torch.special.erfcx(x)
    return (product.abs() + 1.13) / (product - 2 / math.sqrt(math.pi)).abs() + x.abs()


def op(name: str, sample: Sample, error: ErrorModel = ROUNDED, dtypes: tuple[str, ...] = FLOATS, **more: Any) -> Operator:
    traits = ELEMENTWISE | more.pop("traits", frozenset())
    return Operator(name=name, family="unary", sample=sample, error=error, dtypes=dtypes, traits=traits, **more)


# Where results overflow, leave the normal numbers, and vanish. Nothing is drawn beyond them: a gradient there is made from
# infinities, and CPUs may let sinh and cosh overflow from 88.5 on (the bound that SLEEF documents).
EXP = {
    "float32": (88.72283, -87.33654, -103.97208),
    "float64": (709.78271, -708.39642, -745.13322),
    "float16": (11.0859375, -9.7, -17.33),
}
EXP2 = {"float32": (127.5, -126.0, -149.0), "float64": (1023.5, -1022.0, -1074.0), "float16": (15.9375, -14.0, -24.0)}
SINH = {"float32": (88.5, -88.5, 1.0), "float64": (709.0, -709.0), "float16": (11.7734375, -11.7734375)}
SIGMOID = {"float32": (16.6, -87.33654, -103.97208), "float64": (36.7, -708.39642), "float16": (11.09, -11.09, -17.33)}

OPERATORS = [
    op("abs", unary(), EXACT, NUMERIC),
    op("neg", unary(), EXACT, NUMERIC, traits=frozenset({"linear"})),
    op("positive", unary(), EXACT, NUMERIC, traits=frozenset({"linear", "view"})),
    op("sign", unary(), EXACT, NUMERIC, differentiable=False),
    op("sgn", unary(), EXACT, NUMERIC, differentiable=False),
    op("ceil", stepping, EXACT, NUMERIC, differentiable=False),
    op("floor", stepping, EXACT, NUMERIC, differentiable=False),
    op("trunc", stepping, EXACT, NUMERIC, differentiable=False),
    op("frac", stepping, EXACT),
    op("round", rounding, ErrorModel("rounded"), NUMERIC, differentiable=False, alternatives=decimal_neighbours),
    op("nan_to_num", replacing, EXACT, NUMERIC),
    op("bitwise_not", unary(), EXACT, ("int32", "int64", "bool"), differentiable=False),
    op("frexp", unary(Domain(wide=(-100, 100))), EXACT, differentiable=False),
    op("reciprocal", unary(Domain(specials=NICE, wide=(-20, 20)), half=Domain(2.0**-6, 64.0))),
    op("sqrt", unary(NONNEGATIVE), dtypes=NUMERIC),
    op("rsqrt", unary(Domain(2.0**-24, specials=("1", "inf", "nan"), wide=(-24, 24)), half=Domain(2.0**-6, 64.0))),
    op("square", unary(Domain(specials=NICE, wide=(-12, 7))), dtypes=NUMERIC),
    op("exp", unary(MODERATE, **EXP), dtypes=NUMERIC),
    op("exp2", unary(MODERATE, **EXP2)),
    op("expm1", unary(MODERATE, **EXP), from_output(lambda x: (1 - torch.exp(-x)).abs() + torch.exp(-x) + x.abs())),
    op("log", unary(Domain(0.0, points=(1.0,), specials=EVERYWHERE, wide=(-24, 24), tiny=True)), dtypes=NUMERIC),
    op("log2", unary(Domain(0.0, points=(1.0,), specials=NICE, wide=(-24, 24)))),
    op("log10", unary(Domain(0.0, points=(1.0,), specials=NICE, wide=(-24, 24)))),
    op("log1p", unary(Domain(-1.0, points=(-1.0, 0.0), specials=EVERYWHERE, wide=(-24, 24), tiny=True))),
    op("sin", unary(Domain(points=(math.pi, math.pi / 2), specials=EVERYWHERE, wide=(-24, 16), tiny=True)), dtypes=NUMERIC),
    op("cos", unary(Domain(points=(math.pi, math.pi / 2), specials=EVERYWHERE, wide=(-24, 16), tiny=True))),
    op("tan", unary(Domain(points=(math.pi / 4, 1.5), specials=EVERYWHERE, wide=(-24, 12), tiny=True), half=Domain(-1.5, 1.5))),
    op("asin", unary(UNIT_CLOSED)),
    op("acos", unary(UNIT_CLOSED)),
    op("atan", unary(Domain(points=(1.0, -1.0), specials=EVERYWHERE, wide=(-24, 24), tiny=True))),
    op("sinh", unary(MODERATE, **SINH)),
    op("cosh", unary(MODERATE, **SINH)),
    op("tanh", unary(Domain(points=(0.625, 9.01, -0.55), specials=EVERYWHERE, wide=(-24, 5), tiny=True), dtypes=NUMERIC),
              from_output(lambda x: torch.cosh(x.clamp(-300, 300)) ** 2 + x.abs())),
    op("asinh", unary(Domain(specials=NICE, wide=(-24, 24), tiny=True), half=Domain(wide=(-8, 5), tiny=True))),
    op("acosh", unary(Domain(1.0, points=(1.0, 2.0), wide=(0, 24)), half=Domain(1.0, 100.0, points=(1.0, 2.0)))),
    op("atanh", unary(Domain(-1.0, 1.0, points=(0.5, 1.0, -1.0), specials=("0", "-0", "1", "-1", "nan"), tiny=True))),
    op("sigmoid", unary(MODERATE, **SIGMOID), from_output(lambda x: 1 + torch.exp(x.clamp(max=300)) + x.abs()), dtypes=NUMERIC,
       ranges=((0, -math.inf, -88.0),)),
    op("logit", logit, CANCELLING),
    op("sinc", unary(Domain(-30.0, 30.0, points=(1.0, 2.0, -1.0), specials=("0", "nan"))), replace(CANCELLING, backward=gradient_of(of_sinc))),
    op("deg2rad", unary(Domain(specials=EVERYWHERE, wide=(-24, 12)))),
    op("rad2deg", unary(Domain(specials=EVERYWHERE, wide=(-24, 7)))),
    op("angle", unary(), ROUNDED, differentiable=False),
    op("erf", erf),
    op("erfc", unary(Domain(-5.0, 9.0, points=(0.84375, 1.25, 0.5), specials=("0", "-0", "nan"), wide=(-24, 2)))),
    op("erfinv", unary(Domain(-1.0, 1.0, points=(0.7, -0.7, 0.99), specials=("0", "-0", "1", "-1", "nan"), tiny=True))),
    op("lgamma", unary(Domain(-20.5, 1000.0, points=(1.0, 2.0, 0.5, -2.5))), accumulated(lgamma_magnitude, one, backward="pointwise")),
    op("digamma", unary(Domain(-8.0, 500.0, points=(1.4616321, 10.0, 0.5, -1.5)), half=Domain(1.0, 100.0)), CANCELLING),
    op("polygamma", polygamma, CANCELLING),
    op("mvlgamma", mvlgamma, accumulated(summed_lgamma, one, backward="pointwise")),
    op("i0", unary(GROWING, half=BESSEL_SMALL)),
    op("special.i0e", unary(BESSEL)),
    op("special.i1", unary(GROWING), dtypes=FLOAT),
    op("special.i1e", unary(BESSEL), dtypes=FLOAT),
    op("special.ndtr", unary(Domain(-5.0, 5.0, points=(0.7, -0.7), specials=("0", "inf", "-inf", "nan"))), CANCELLING),
    op("special.ndtri", unary(PROBABILITY), CANCELLING, FLOAT),
    op("special.log_ndtr", unary(Domain(-20.0, 8.0, points=(-1.0, -5.0))), CANCELLING, FLOAT),
    op("special.entr", unary(Domain(0.0, 64.0, points=(1.0,), specials=("0", "1", "nan"), wide=(-20, 5)))),
    op("special.erfcx", unary(Domain(-5.0, 200.0, points=(0.5, 50.0))), replace(CANCELLING, backward=gradient_of(of_erfcx)), FLOAT),
    op("special.bessel_j0", unary(BESSEL), CANCELLING, FLOAT, differentiable=False),
    op("special.bessel_j1", unary(BESSEL), CANCELLING, FLOAT, differentiable=False),
    op("special.bessel_y0", unary(BESSEL_POSITIVE), CANCELLING, FLOAT, differentiable=False),
    op("special.bessel_y1", unary(BESSEL_POSITIVE), CANCELLING, FLOAT, differentiable=False),
    op("special.modified_bessel_i0", unary(BESSEL), ROUNDED, FLOAT, differentiable=False),
    op("special.modified_bessel_i1", unary(BESSEL), ROUNDED, FLOAT, differentiable=False),
    op("special.modified_bessel_k0", unary(BESSEL_POSITIVE), ROUNDED, FLOAT, differentiable=False),
    op("special.modified_bessel_k1", unary(BESSEL_POSITIVE), ROUNDED, FLOAT, differentiable=False),
    op("special.scaled_modified_bessel_k0", unary(BESSEL_POSITIVE), ROUNDED, FLOAT, differentiable=False),
    op("special.scaled_modified_bessel_k1", unary(BESSEL_POSITIVE), ROUNDED, FLOAT, differentiable=False),
    op("special.spherical_bessel_j0", unary(Domain(-60.0, 60.0, points=(0.5,), specials=("0", "nan"))), CANCELLING, FLOAT,
       differentiable=False),
    op("special.airy_ai", unary(Domain(-10.0, 8.0, points=(-2.09, 2.09))), CANCELLING, FLOAT, differentiable=False),
]  # fmt: skip
