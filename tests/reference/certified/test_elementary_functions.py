"""Elementary functions beside mpmath, over all of float64."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb

from consistency.reference.certified import balls
from consistency.reference.certified import functions as f
from consistency.reference.certified import logarithms as lg
from consistency.reference.certified.nodes import Constant
from consistency.reference.certified.rounding import nearest_double
from tests.reference.certified.exact_rows import COUNTS, Row, check_slopes, check_values, proved

BIG, TINY = 1.7e308, 0.0
ANY = [(-BIG, BIG)]
POSITIVE = [(TINY, BIG)]
WIDE = 2400  # bits of a truth that is the difference of numbers of all sizes


def mp_xlogy(x: object, y: object) -> object:
    return x * mpmath.log(y)


ROWS = [
    Row("exp", f.exp, mpmath.exp, [(-1e6, 1e6)], (709.78, -745.1)),
    Row("exp2", f.exp2, lambda x: mpmath.mpf(2) ** x, [(-1e6, 1e6)], (1023.5, -1074.0)),
    Row("expm1", f.expm1, mpmath.expm1, [(-1e6, 1e6)]),
    Row("log", f.log, mpmath.log, POSITIVE, (1.0,)),
    Row("log2", f.log2, lambda x: mpmath.log(x) / mpmath.log(2), POSITIVE, (1.0, 2.0)),
    Row("log10", f.log10, lambda x: mpmath.log(x) / mpmath.log(10), POSITIVE, (1.0, 10.0)),
    Row("log1p", f.log1p, mpmath.log1p, [(-1.0, BIG)], bits=WIDE),
    Row("sqrt", f.sqrt, mpmath.sqrt, POSITIVE),
    Row("sin", f.sin, mpmath.sin, ANY, (math.pi,)),
    Row("cos", f.cos, mpmath.cos, ANY, (math.pi / 2,)),
    Row("tan", f.tan, mpmath.tan, ANY, (math.pi / 2,)),
    Row("asin", f.asin, mpmath.asin, [(-1.0, 1.0)]),
    Row("acos", f.acos, mpmath.acos, [(-1.0, 1.0)]),
    Row("atan", f.atan, mpmath.atan, ANY),
    Row("sinh", f.sinh, mpmath.sinh, [(-1e6, 1e6)], bits=WIDE),
    Row("cosh", f.cosh, mpmath.cosh, [(-1e6, 1e6)]),
    Row("tanh", f.tanh, mpmath.tanh, [(-1e6, 1e6)], bits=WIDE),
    Row("asinh", f.asinh, mpmath.asinh, ANY, bits=WIDE),
    Row("acosh", f.acosh, mpmath.acosh, [(1.0, BIG)], bits=WIDE),
    Row("atanh", f.atanh, mpmath.atanh, [(-1.0, 1.0)], bits=WIDE),
    Row("sigmoid", f.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), [(-1e6, 1e6)]),
    Row("pow", f.pow_, mpmath.power, [(TINY, BIG), (-300.0, 300.0)], (1.0, 2.0, 0.5, -1.0)),
    Row("hypot", f.hypot, mpmath.hypot, [(-BIG, BIG)] * 2),
    Row("atan2", f.atan2, mpmath.atan2, [(-BIG, BIG)] * 2),
    Row("logaddexp", lg.logaddexp, lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)),
        [(-700.0, 700.0)] * 2, bits=WIDE),
    Row("xlogy", lg.xlogy, mp_xlogy, [(-BIG, BIG), (TINY, BIG)], (1.0,)),
    Row("xlog1py", lg.xlog1py, lambda x, y: x * mpmath.log1p(y), [(-BIG, BIG), (-1.0, BIG)],
        bits=WIDE),
    Row("entr", lg.entropy, lambda x: -x * mpmath.log(x), POSITIVE, (1.0,)),
    Row("logit", lg.logit, lambda x: mpmath.log(x / (1 - x)), [(0.0, 1.0)], (0.5,), bits=WIDE),
    Row("sinc", lg.sinc, lambda x: mpmath.sinpi(x) / (mpmath.pi * x), [(-1e6, 1e6)], (1.0, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_values(row: Row, count: int) -> None:
    check_values(row, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_slopes(row: Row, count: int) -> None:
    check_slopes(row, max(count // 4, 8))


def numbers(of: object, *columns: list[float]) -> list[object]:
    return proved(of(*(Constant(np.array(c)) for c in columns)), len(columns[0]))  # type: ignore[operator]


def test_remainders_are_those_of_fractions() -> None:
    xs = [7.5, -7.5, 1e300, -1e300, 0.3, 5e-324, 3.0, -3.0]
    ys = [2.0, 2.0, 3.0, 0.7, -0.1, 2.0, 3.0, 3.0]
    for of, whole in ((f.remainder, math.floor), (f.fmod, math.trunc)):
        for x, y, value in zip(xs, ys, numbers(of, xs, ys), strict=True):
            truth = Fraction(x) - Fraction(y) * whole(Fraction(x) / Fraction(y))
            got = (
                Fraction(value)
                if type(value) is float
                else Fraction(int(value.man_exp()[0])) * Fraction(2) ** int(value.man_exp()[1])
            )  # type: ignore[attr-defined]
            assert got == truth


def test_a_remainder_of_zero_has_the_sign_of_the_dividend() -> None:
    made = numbers(f.fmod, [6.0, -6.0, -6.0, 1e300], [3.0, 3.0, -3.0, 2.0])
    assert [math.copysign(1.0, float(value)) for value in made] == [1.0, -1.0, -1.0, 1.0]
    assert not any(float(value) for value in made)


def test_powers_that_leave_the_floats() -> None:
    """Whole exponents of any size keep the sign's rule; a ball around all floats proves nothing."""
    made = numbers(f.pow_, [-1.0, -0.5, -2.0, 2.0, 3.0], [1.7e308, 1.7e308, 1.7e308, 1.7e308, 0.0])
    assert [nearest_double(value) for value in made] == [
        (1.0, 0.0),
        (0.0, 0.0),
        (math.inf, 0.0),
        (math.inf, 0.0),
        (1.0, 0.0),
    ]
    with balls.precision(256):
        assert nearest_double(arb(2) ** arb(1e100)) is None


def test_ieee_special_cases() -> None:
    nan, inf = math.nan, math.inf
    wanted = {
        f.exp: [(-inf, 0.0), (inf, inf), (nan, nan)], f.log: [(0.0, -inf), (-0.0, -inf), (-1.0,
        nan), (inf, inf)],
        f.sqrt: [(-0.0, -0.0), (-1.0, nan), (inf, inf)], f.sin: [(inf, nan), (-0.0, -0.0)],
        f.log1p: [(-1.0, -inf), (-0.0, -0.0)],
        f.atanh: [(1.0, inf), (-1.0, -inf), (2.0, nan)], f.sigmoid: [(-inf, 0.0)],
        lg.entropy: [(-1.0, -inf), (0.0, 0.0), (inf, -inf)],
        lg.logit: [(0.0, -inf), (1.0, inf), (1.5, nan)],
    }  # fmt: skip
    for of, cases in wanted.items():
        for (x, y), value in zip(cases, numbers(of, [x for x, _ in cases]), strict=True):
            assert type(value) is float
            assert (value == y and math.copysign(1, value) == math.copysign(1, y)) or (
                math.isnan(value) and math.isnan(y)
            ), (
                of.name,
                x,
            )


def test_a_logit_between_bounds_that_cross() -> None:
    """Outside both there is one answer; between them torch names none."""
    with balls.precision(128):
        of = lg.logit_between(0.625).of
        inputs = [-math.inf, 0.1, 0.375, 0.625, 1.0, math.inf, 0.5]
        made = [nearest_double(of(balls.element(x))) for x in inputs]
    half = pytest.approx(math.log(0.625 / 0.375), rel=1e-15)
    assert made[-1] is None
    assert [y and y[0] for y in made[:3]] == [half] * 3
    assert [y and -y[0] for y in made[3:-1]] == [half] * 3
    assert math.isnan(of(math.nan))
    assert [lg.logit_between(1).of(balls.element(x)) for x in (0.0, 1.0)] == [math.inf, -math.inf]
