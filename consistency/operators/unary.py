"""Elementwise functions of one tensor. S is |x·f'(x)|; where an intermediate step cancels, λ > 0
lets it in."""

from __future__ import annotations

import math
from typing import Any

import torch

from .declare import (
    EVERY,
    EVERYWHERE,
    EXACT,
    FLOATS,
    INTEGERS,
    NUMERIC,
    POSITIVE,
    REAL,
    ROUNDED,
    Call,
    ComplexVariant,
    Domain,
    Drawing,
    ErrorModel,
    InPlaceVariant,
    Operator,
    Sample,
    call,
)
from .definitions import nan_kept
from .gradient_magnitudes import (
    from_output,
    one_minus_sigmoid,
    one_minus_tanh_squared,
    one_more_than_expm1,
    sloping,
)
from .nonunique_results import decimal_neighbors
from .sampling import scalar, shape_of, unary
from .write_destinations import DIVISOR, EXPONENT, HALF_EXPONENT, ROUND, TO_FOUR, destination

ELEMENTWISE = frozenset({"elementwise"})

NICE = (
    "0",
    "-0",
    "1",
    "-1",
    "nan",
    "-nan",
    "inf",
    "-inf",
)  # without those whose gradients overflow or underflow on the way
MODERATE = Domain(specials=EVERYWHERE, wide=(-24, 5), tiny=True)
UNIT_CLOSED = Domain(
    -1.0,
    1.0,
    points=(-1.0, 1.0, 0.5),
    specials=("0", "-0", "1", "-1", "nan", "inf", "subnormal"),
    tiny=True,
)
NONNEGATIVE = Domain(0.0, specials=EVERYWHERE, wide=(-24, 24), tiny=True)


SIGNED = tuple(dtype for dtype in INTEGERS if dtype != "uint8")
WHOLE = (*INTEGERS, "bool")
# Of whole numbers and booleans they make floats of the default dtype.
INTO_FLOATS = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "deg2rad", "log1p", "log10",
    "log2", "rad2deg", "sinh", "tan", "exp2", "expm1", "reciprocal", "rsqrt", "exp",
    "log", "sin", "tanh", "sqrt", "sigmoid", "logit", "sinc", "erf", "erfc", "erfinv", "lgamma",
    "digamma", "polygamma", "i0", "special.i0e", "special.i1", "special.i1e", "special.ndtr",
    "special.ndtri", "special.log_ndtr", "special.entr", "special.erfcx", "special.airy_ai",
    "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1",
    "special.modified_bessel_i0", "special.modified_bessel_i1", "special.modified_bessel_k0",
    "special.modified_bessel_k1", "special.scaled_modified_bessel_k0",
    "special.scaled_modified_bessel_k1", "special.spherical_bessel_j0",
})  # fmt: skip


def negated(x: torch.Tensor) -> torch.Tensor:
    """``-x``, each part by itself: of complex numbers torch makes the sign of a zero depend on the
    layout (docs/findings.md)."""
    return torch.complex(-x.real, -x.imag) if x.is_complex() else -x


def stepping(d: Drawing) -> Call:
    """Around whole numbers, well beyond the last one with a fraction, and ordinary numbers."""
    domain = Domain(points=(1.0, -1.0, 2.0, 8388608.0), specials=EVERYWHERE, wide=(-24, 40))
    return call(
        d.tensor(
            shape_of(d),
            domain,
            values=d.choice(("uniform", -64.0, 64.0), None) if d.floating else None,
        )
    )


def rounding(d: Drawing) -> Call:
    """Without decimals anything; with decimals numbers that do not overflow when scaled."""
    decimals = d.choice(0, 0, 0, 1, 2, -1) if d.floating else 0
    if decimals:
        return call(
            d.tensor(shape_of(d), Domain(-100.0, 100.0, points=(0.5, 2.5, 0.125))),
            decimals=decimals,
        )
    # Not within [-1, 1], where most would be rounded to 0.
    return call(
        d.tensor(
            shape_of(d),
            Domain(-64.0, 64.0, (0.5, 1.5, 2.5, -0.5, -3.5), EVERYWHERE, wide=(-24, 24)),
        )
    )


# Numbers from -1 to 1, and among them what nan_to_num replaces, and what it replaces that by.
REPLACED = (-1.0, 1.0, "nan", "-nan", "inf", "-inf", "max", "-max", "0")


def replacing(d: Drawing) -> Call:
    """nan_to_num, half of it of tensors with many of the numbers that it replaces; each replacement
    is given or left to the dtype, now and then all are. Shrinks towards all given."""
    names = [name for name in ("nan", "posinf", "neginf") if not d.choice(False, False, True)]
    given = {name: scalar(d) for name in names}
    if d.choice(*[False] * 3, True):
        given = {}
    values = ("tokens", *REPLACED) if d.floating and d.flag() else None
    return call(d.tensor(shape_of(d), REAL, values=values), **given)


# Exact of real numbers; of complex ones the result of a square root, a quotient or an arctangent.
OF_MODULUS = ComplexVariant(error=ErrorModel("rounded", "output", backward="pointwise"))
# Where the slopes of tan, tanh and the sigmoid, 1 - tanh² and the like, are still more than the
# rounding of float64.
STEEP = Domain(-8.0, 8.0, points=(0.625, 3.0), wide=(-24, 2))
# To where exponentials overflow, and the function has one of its limits.
TO_LIMITS = Domain(-8.0, 8.0, points=(0.625, 3.0, 100.0, -100.0, 720.0, -720.0), wide=(-24, 7))
COMPLEX_STEEP = ComplexVariant(sample=destination(TO_LIMITS))  # in place
ZEROS = frozenset({"constant"})  # all may be rounded to 0


def op(
    name: str,
    sample: Sample,
    error: ErrorModel = ROUNDED,
    dtypes: tuple[str, ...] = FLOATS,
    **more: Any,
) -> Operator:
    traits = ELEMENTWISE | more.pop("traits", frozenset())
    dtypes = tuple(dict.fromkeys((*dtypes, *WHOLE))) if name in INTO_FLOATS else dtypes
    return Operator(
        name=name, family="unary", sample=sample, error=error, dtypes=dtypes, traits=traits, **more
    )


# Where results overflow, leave the normal numbers, and vanish. Nothing is drawn beyond them: a
# gradient there is made from infinities. Of sinh and cosh exp leaves the format before its half
# does, from 88.73 on.
EXP = {
    "float32": (88.72283, -87.33654, -103.97208),
    "float64": (709.78271, -708.39642, -745.13322),
    "float16": (11.0859375, -9.7, -17.33),
}
EXP2 = {
    "float32": (127.5, -126.0, -149.0),
    "float64": (1023.5, -1022.0, -1074.0),
    "float16": (15.9375, -14.0, -24.0),
}
SINH = {
    "float32": (89.25, -89.25, 1.0),
    "float64": (710.25, -710.25),
    "float16": (11.7734375, -11.7734375),
}
SIGMOID = {
    "float32": (16.6, -87.33654, -103.97208),
    "float64": (36.7, -708.39642),
    "float16": (11.09, -11.09, -17.33),
}
# Where tolerances speak of a part of the line only: D3D's bounds for logarithms near 1, and for
# angles in ±100π.
AROUND_ONE = ((0, 0.5, 2.0),)
SUBNORMAL = ((0, -(2.0**-126), 2.0**-126),)  # of float32: hardware reads them as it likes
AROUND_ZERO = ((0, -1.0, 1.0),)
ANGLE = Domain(points=(math.pi, math.pi / 2), specials=EVERYWHERE, wide=(-24, 16), tiny=True)
TURNS = ((0, -100 * math.pi, 100 * math.pi),)

# Of complex numbers the other part is an exponential: times a zero, its overflow is NaN. Up to 89
# half of it is finite where it is infinite itself.
CIRCULAR = ComplexVariant(
    sample=unary(Domain(-89.25, 89.25, points=(89.0, -89.0), wide=(-24, 5), tiny=True))
)
COMPLEX_TAN = ComplexVariant(
    sample=unary(TO_LIMITS), error=sloping(lambda x: 2.0 * torch.cos(x).abs() ** 2 + x.abs())
)
COMPLEX_TANH = ComplexVariant(
    sample=unary(TO_LIMITS), error=sloping(lambda x: 2.0 * torch.cosh(x).abs() ** 2 + x.abs())
)
# Near odd multiples of iπ, where 1 + exp(-x) vanishes, as relative as that is.
COMPLEX_SIGMOID = ComplexVariant(
    sample=unary(TO_LIMITS),
    error=sloping(
        lambda x: 1 + torch.exp(x).abs() + 2.0 * x.abs() * (1 + torch.sigmoid(x).abs()),
        "pointwise",
    ),
)

OPERATORS = [
    op("abs", unary(), EXACT, NUMERIC,
       complex=OF_MODULUS, out=True, method=True,
       inplace=InPlaceVariant("abs_", destination(), complex=False)),
    op("neg", unary(), EXACT, NUMERIC, traits=frozenset({"linear"}), reference=negated,
       complex=True, out=True, method=True, inplace=InPlaceVariant("neg_", destination())),
    op("positive", unary(), EXACT, NUMERIC, traits=frozenset({"linear", "view"}), complex=True),
    op("sign", unary(), EXACT, EVERY, differentiable=False, out=True,
       reference=nan_kept(torch.sign)),
    op("sgn", unary(), EXACT, EVERY, differentiable=False, reference=nan_kept(torch.sgn),
       complex=OF_MODULUS),
    op("ceil", stepping, EXACT, NUMERIC, differentiable=False,
       out=True, inplace=InPlaceVariant("ceil_", destination())),
    op("floor", stepping, EXACT, NUMERIC, differentiable=False,
       out=True, inplace=InPlaceVariant("floor_", destination())),
    op("trunc", stepping, EXACT, NUMERIC, differentiable=False, out=True),
    op("frac", stepping, EXACT, out=True),
    op("round", rounding, ErrorModel("rounded"), NUMERIC, differentiable=False,
    alternatives=decimal_neighbors, traits=ZEROS, method=True,
    inplace=InPlaceVariant("round_", destination(), error=EXACT)),
    op("nan_to_num", replacing, EXACT, EVERY, out=True, method=True),
    op("bitwise_not", unary(), EXACT, WHOLE, differentiable=False),
    op("frexp", unary(Domain(wide=(-100, 100))), EXACT, differentiable=False),
    op("reciprocal", unary(Domain(specials=NICE, wide=(-20, 20)), half=Domain(2.0**-6, 64.0)),
       complex=True, out=True,
       inplace=InPlaceVariant("reciprocal_", destination(DIVISOR), error=ROUND, dtypes=FLOATS)),
    op("sqrt", unary(NONNEGATIVE), dtypes=NUMERIC, ranges=SUBNORMAL,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("sqrt_", destination(POSITIVE), error=ROUND, dtypes=FLOATS)),
    op("rsqrt", unary(Domain(0.0, points=(1.0,), specials=NICE, wide=(-24, 24)),
    half=Domain(2.0**-6, 64.0)),
       ranges=SUBNORMAL,
       complex=True, out=True,
       inplace=InPlaceVariant("rsqrt_", destination(POSITIVE), error=ROUND, dtypes=FLOATS)),
    op("square", unary(Domain(specials=NICE, wide=(-12, 7))), dtypes=EVERY,
       complex=True, out=True),
    op("exp", unary(MODERATE, EXP), dtypes=NUMERIC,
       complex=True, out=True, method=True,
       inplace=InPlaceVariant("exp_", destination(EXPONENT, HALF_EXPONENT), dtypes=FLOATS)),
    op("exp2", unary(MODERATE, EXP2), complex=ComplexVariant(error=ROUNDED), out=True),
    op("expm1", unary(MODERATE, EXP),
    from_output(one_more_than_expm1),
       complex=ComplexVariant(sample=unary(STEEP)), out=True),
    op("log", unary(Domain(0.0, points=(1.0,), specials=EVERYWHERE, wide=(-24, 24), tiny=True)),
    dtypes=NUMERIC,
       ranges=AROUND_ONE + SUBNORMAL, complex=True, out=True, method=True),
    op("log2", unary(Domain(0.0, points=(1.0,), specials=NICE, wide=(-24, 24))),
    ranges=AROUND_ONE + SUBNORMAL, complex=True, out=True),
    op("log10", unary(Domain(0.0, points=(1.0,), specials=NICE, wide=(-24, 24))),
    ranges=AROUND_ONE + SUBNORMAL, complex=True, out=True),
    op("log1p", unary(Domain(-1.0, points=(-1.0, 0.0), specials=EVERYWHERE, wide=(-24, 24),
    tiny=True)), complex=True, out=True),
    op("sin", unary(ANGLE), dtypes=NUMERIC, ranges=TURNS,
       complex=CIRCULAR, out=True, method=True),
    op("cos", unary(ANGLE), ranges=TURNS,
       complex=CIRCULAR, out=True, method=True),
    op("tan", unary(Domain(points=(math.pi / 4, 1.5), specials=EVERYWHERE, wide=(-24, 12),
    tiny=True), half=Domain(-1.5, 1.5)),
       ranges=TURNS, complex=COMPLEX_TAN, out=True),
    op("asin", unary(UNIT_CLOSED), complex=True, out=True),
    op("acos", unary(UNIT_CLOSED), complex=True, out=True),
    op("atan", unary(Domain(points=(1.0, -1.0), specials=EVERYWHERE, wide=(-24, 24), tiny=True)),
       complex=True, out=True),
    op("sinh", unary(MODERATE, SINH), ranges=AROUND_ZERO, complex=CIRCULAR, out=True),
    op("cosh", unary(MODERATE, SINH), complex=CIRCULAR, out=True),
    op("tanh", unary(Domain(points=(0.625, 9.01, -0.55), specials=EVERYWHERE, wide=(-24, 5),
    tiny=True)),
       from_output(one_minus_tanh_squared), dtypes=NUMERIC,
       complex=COMPLEX_TANH, out=True, method=True,
       inplace=InPlaceVariant("tanh_", destination(TO_FOUR), dtypes=FLOATS, complex=COMPLEX_STEEP)),
    op("asinh", unary(Domain(specials=NICE, wide=(-24, 24), tiny=True), half=Domain(wide=(-8, 5),
    tiny=True)), ranges=AROUND_ZERO, complex=True, out=True),
    # Next to 1 the gradient 1/√(x² − 1) changes x²/(x² − 1) times as much as x, which rounding x²
    # does to it.
    op("acosh", unary(Domain(1.0, points=(1.0, 2.0), wide=(0, 24)), half=Domain(1.0, 100.0,
    points=(1.0, 2.0))),
       error=from_output(lambda x: x * x / ((x - 1.0) * (x + 1.0))), complex=True, out=True),
    op("atanh", unary(Domain(-1.0, 1.0, points=(0.5, 1.0, -1.0), specials=("0", "-0", "1", "-1",
    "nan"), tiny=True)),
       ranges=AROUND_ZERO, complex=True, out=True),
    op("sigmoid", unary(MODERATE, SIGMOID), from_output(one_minus_sigmoid), dtypes=NUMERIC,
       ranges=((0, -math.inf, -708.0), (0, -708.0, -88.0), (0, -88.0, -15.0)),
       complex=COMPLEX_SIGMOID, out=True, method=True,
       inplace=InPlaceVariant("sigmoid_", destination(EXPONENT, HALF_EXPONENT), dtypes=FLOATS,
                              complex=COMPLEX_STEEP)),
    op("deg2rad", unary(Domain(specials=EVERYWHERE, wide=(-24, 12)))),
    op("rad2deg", unary(Domain(specials=EVERYWHERE, wide=(-24, 7)))),
    op("angle", unary(Domain(-1024.0, 1024.0, specials=EVERYWHERE, wide=(-24, 10), tiny=True)),
    ROUNDED, (*FLOATS, *SIGNED), differentiable=False, complex=OF_MODULUS),
]  # fmt: skip
