"""Special functions of one tensor. Next to their zeros and far from them they cancel: then λ > 0
lets S in."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from . import definitions
from .declare import (
    EVERYWHERE,
    FLOAT,
    FLOATS,
    NUMERIC,
    PROBABILITY,
    ROUNDED,
    Call,
    Domain,
    Drawing,
    accumulated,
    call,
    one,
)
from .gradient_magnitudes import gradient_of
from .hooks import Tensors, hook
from .sampling import shape_of, unary
from .unary import op

CANCELLING = accumulated("pointwise", one, backward="pointwise")
BESSEL = Domain(
    -60.0, 60.0, points=(5.0, 8.0, 2.4048, 3.8317), specials=("0", "nan"), wide=(-10, 4)
)
BESSEL_ENDS = replace(BESSEL, specials=("0", "nan", "inf", "-inf"))
GROWING = Domain(-80.0, 80.0, points=(8.0, -8.0), specials=("0", "nan"), wide=(-10, 3))
# Where e^|x| has left the format, and e^|x|/√(2π|x|) has not.
OVERFLOWING = {"float32": (91.5, -91.5, 89.0, 8.0, -8.0), "float64": (713.5, -713.5, 8.0, -8.0)}
BESSEL_SMALL = Domain(-9.0, 9.0, points=(8.0, -8.0))
BESSEL_POSITIVE = Domain(2.0**-6, 60.0, points=(2.0, 5.0, 8.0))
DECREASING = replace(BESSEL_POSITIVE, specials=("inf", "nan"))


def logit(d: Drawing) -> Call:
    """Now and then between bounds, which may cross: what lies outside both is clamped to the nearer
    one. Shrinks towards a call without bounds."""
    kwargs = {"eps": d.choice(0.0625, 0.25, 0.625)} if d.flag() else {}
    return call(d.tensor(shape_of(d), Domain(2.0**-8, 1.0 - 2.0**-8, points=(0.5,))), **kwargs)


@hook
def logit_magnitude(
    outputs: Tensors, x: Any, eps: float | None = None, *_: Any, **__: Any
) -> torch.Tensor:
    """The size of x·f'(x), 1/(1 − x): the bound 1 − eps is rounded like a number of its own."""
    inside = x.detach() * 1.0  # of booleans, too
    inside = inside if eps is None else inside.clamp(eps, 1.0 - eps)
    return torch.nan_to_num(1.0 / (1.0 - inside), nan=0.0, posinf=0.0).abs()


def polygamma(d: Drawing) -> Call:
    """Low orders, and some whose factorial leaves the format, on both sides of the poles. In
    float16 mostly where ζ(n + 1, x), which is rounded before it is multiplied by n!, is neither
    large nor subnormal. Shrinks towards the derivative of the digamma function right of them."""
    n = d.choice(1, 0, 2, 3, 4, 1, 2, 3, 5, 8, 12, 33, 100, 200)
    low, high = (1.0, 8.0) if d.dtype == "float16" else (0.25, 30.0)
    # At the poles of even orders the limits of both sides differ.
    ends = ("inf", "nan", "-1", "0") if n % 2 else ("inf", "nan")
    values: tuple[Any, ...] | None = None
    if n and d.choice(*[False] * 5, True):
        values = ("tokens", low, high, *ends)
    elif d.floating:  # apart from the others, where their bounds tell what is expected
        beyond = (("uniform", 8.0, 30.0),) if high < 30.0 else ()
        values = d.choice(None, None, None, ("uniform", -6.5, 0.5), *beyond)
    x = d.tensor(shape_of(d), Domain(low, high, points=(1.0, 1.4616)), values=values)
    return call(n, x)


def mvlgamma(d: Drawing) -> Call:
    p = d.integer(1, 4)
    return call(d.tensor(shape_of(d), Domain((p - 1) / 2 + 0.25, 30.0)), p)


@hook
def summed_lgamma(outputs: Tensors, x: Any, p: Any, *_: Any, **__: Any) -> torch.Tensor:
    x = x.detach()
    steps = [(x - j / 2).clamp(min=0.01) for j in range(p)]
    sizes: list[torch.Tensor] = [
        torch.lgamma(step).abs() + (step * torch.digamma(step)).abs() for step in steps
    ]
    total: torch.Tensor = torch.stack(sizes).sum(0)
    return total + float(p * (p - 1) / 4 * math.log(math.pi))


@hook
def lgamma_magnitude(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
    """Left of 0 the reflection formula takes lgamma(1 - x) from log(π / |sin(πx)|), whose own error
    is that of πx."""
    x = x.detach().to(outputs[0].abs().dtype)  # a destination may be complex
    size = x.abs()
    slope = (math.pi * x / torch.tan(math.pi * x)).abs()
    return torch.nan_to_num(
        size * (size + 1).log() + size + torch.where(x < 0, slope, 0.0) + outputs[0].abs(),
        posinf=0.0,
    )


def of_sinc(x: torch.Tensor) -> torch.Tensor:
    """The gradient is (cos πx − sinc x) / x, whose terms cancel for small x."""
    angle = math.pi * x
    slope = torch.where(
        x.abs() < 2.0**-8, -angle * math.pi / 3, (torch.cos(angle) - torch.sinc(x)) / x
    )
    return (torch.cos(angle).abs() * (1 + angle.abs()) + torch.sinc(x).abs() + angle.abs()) / (
        x * slope
    ).abs()


def of_erfcx(x: torch.Tensor) -> torch.Tensor:
    """The gradient is 2x·erfcx(x) − 2/√π."""
    product: torch.Tensor = 2 * x * torch.special.erfcx(x)
    return (product.abs() + 1.13) / (product - 2 / math.sqrt(math.pi)).abs() + x.abs()


def of_i0e(x: torch.Tensor) -> torch.Tensor:
    """The gradient is i1e(x) − sgn(x)·i0e(x), whose terms are 2·|x| times as large. Beyond 128
    another form has to be computed with."""
    return 1.0 + x.abs().clamp(max=128.0)


SINC = replace(CANCELLING, backward=gradient_of(of_sinc))
I0E = replace(ROUNDED, backward=gradient_of(of_i0e))
ERFCX = replace(CANCELLING, backward=gradient_of(of_erfcx))
LOGIT = replace(CANCELLING, magnitude=logit_magnitude)
LGAMMA = replace(CANCELLING, magnitude=lgamma_magnitude)
MVLGAMMA = replace(CANCELLING, magnitude=summed_lgamma)
OPERATORS = [
    # Between bounds that cross all results are equal, and all slopes 0.
    op("logit", logit, LOGIT, traits=frozenset({"constant"}), out=True),
    op("sinc", unary(Domain(-30.0, 30.0, points=(1.0, 2.0, -1.0), specials=("0", "nan"))), SINC,
       out=True),
    op("erf", unary(Domain(points=(0.84375, 1.25, 3.92, -3.0), specials=EVERYWHERE, wide=(-24, 4),
    tiny=True)), out=True),
    op("erfc", unary(Domain(-5.0, 9.0, points=(0.84375, 1.25, 0.5), specials=("0", "-0", "nan"),
    wide=(-24, 2))), out=True),
    op("erfinv", unary(Domain(-1.0, 1.0, points=(0.7, -0.7, 0.99), specials=("0", "-0", "1", "-1",
    "nan"), tiny=True)), out=True),
    op("lgamma", unary(Domain(-20.5, 1000.0, points=(1.0, 2.0, 0.5, -2.5))), LGAMMA, out=True),
    op("digamma", unary(Domain(-8.0, 500.0, points=(1.4616321, 10.0, 0.5, -1.5)), half=Domain(1.0,
    100.0)), CANCELLING, out=True),
    op("polygamma", polygamma, CANCELLING, out=True, reference=definitions.polygamma),
    op("mvlgamma", mvlgamma, MVLGAMMA, NUMERIC),
    op("i0", unary(GROWING, OVERFLOWING, half=BESSEL_SMALL), out=True),
    op("special.i0e", unary(BESSEL_ENDS), I0E, out=True),
    op("special.i1", unary(GROWING, OVERFLOWING), dtypes=FLOATS),
    op("special.i1e", unary(BESSEL_ENDS), dtypes=FLOATS),
    op("special.ndtr", unary(Domain(-5.0, 5.0, points=(0.7, -0.7), specials=("0", "inf", "-inf",
    "nan"))), CANCELLING),
    op("special.ndtri", unary(replace(PROBABILITY, propagates=("nan",))), CANCELLING, FLOAT),
    op("special.log_ndtr", unary(Domain(-20.0, 8.0, points=(-1.0, -5.0), specials=("0",
    "nan"))), CANCELLING, FLOAT),
    op("special.entr", unary(Domain(0.0, 64.0, points=(1.0,), wide=(-20, 5),
    specials=("0", "1", "nan", "inf"))), out=True),
    op("special.erfcx", unary(Domain(-5.0, 200.0, points=(0.5, 50.0))), ERFCX, FLOAT, out=True),
    op("special.bessel_j0", unary(BESSEL), CANCELLING, FLOAT, differentiable=False),
    op("special.bessel_j1", unary(BESSEL), CANCELLING, FLOAT, differentiable=False),
    op("special.bessel_y0", unary(BESSEL_POSITIVE), CANCELLING, FLOAT, differentiable=False),
    op("special.bessel_y1", unary(BESSEL_POSITIVE), CANCELLING, FLOAT, differentiable=False),
    op("special.modified_bessel_i0", unary(BESSEL_ENDS), ROUNDED, FLOAT, differentiable=False,
       reference=definitions.with_limits(torch.special.modified_bessel_i0, math.inf, math.inf)),
    op("special.modified_bessel_i1", unary(BESSEL_ENDS), ROUNDED, FLOAT, differentiable=False,
       reference=definitions.with_limits(torch.special.modified_bessel_i1, math.inf, -math.inf)),
    op("special.modified_bessel_k0", unary(DECREASING), ROUNDED, FLOAT, differentiable=False),
    op("special.modified_bessel_k1", unary(DECREASING), ROUNDED, FLOAT, differentiable=False),
    op("special.scaled_modified_bessel_k0", unary(DECREASING), ROUNDED, FLOAT,
    differentiable=False),
    op("special.scaled_modified_bessel_k1", unary(DECREASING), ROUNDED, FLOAT,
    differentiable=False),
    op("special.spherical_bessel_j0", unary(Domain(-60.0, 60.0, points=(0.5,), specials=("0",
    "nan", "inf", "-inf"))), CANCELLING, FLOAT,
       differentiable=False),
    op("special.airy_ai", unary(Domain(-10.0, 8.0, points=(-2.09, 2.09), specials=("inf",
    "nan"))), CANCELLING, FLOAT, differentiable=False,
       reference=definitions.with_limits(torch.special.airy_ai, 0.0, 0.0)),
]  # fmt: skip
