"""Special functions, activations and polynomials beside mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from consistency.reference.certified import activation_functions as a
from consistency.reference.certified import balls
from consistency.reference.certified import bessel_functions as b
from consistency.reference.certified import error_functions as ef
from consistency.reference.certified import gamma_functions as g
from consistency.reference.certified.nodes import Constant
from consistency.reference.certified.polynomial_functions import POLYNOMIALS
from tests.reference.certified.exact_rows import (
    COUNTS,
    Row,
    arguments,
    check_slopes,
    check_values,
    nodes_of,
    proved,
)
from tests.reference.certified.traces import exactly

WIDE = 2400
PLANE, POSITIVE = [(-60.0, 60.0)], [(0.0, 60.0)]


def mp_lgamma(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(abs(mpmath.gamma(x)))


def mp_multivariate(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(mpmath.pi) * 3 + sum(mpmath.loggamma(x - mpmath.mpf(j) / 2) for j in range(4))


def mp_gamma_lower(s: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.gammainc(s, 0, x, regularized=True)


def mp_gamma_upper(s: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.gammainc(s, x, mpmath.inf, regularized=True)


def mp_elu(x: mpmath.mpf) -> mpmath.mpf:
    return x if x > 0 else mpmath.expm1(x / 2) * 3 / 4


def mp_erfcx(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def mp_softplus(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log1p(mpmath.exp(x))


def mp_gelu_tanh(x: mpmath.mpf) -> mpmath.mpf:
    return (
        x
        / 2
        * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf(44715) / 10**6 * x**3)))
    )


def relative(of: Callable[..., mpmath.mpf]) -> Callable[..., mpmath.mpf]:
    """mpmath's zeta is good to so many bits of 1, which says little of 2e-51."""

    def truth(*xs: mpmath.mpf) -> mpmath.mpf:
        with mpmath.workprec(1000):
            return of(*xs)

    return truth


ROWS = [
    Row("erf", ef.erf, mpmath.erf, [(-1e6, 1e6)]),
    Row("erfc", ef.erfc, mpmath.erfc, [(-30.0, 30.0)]),
    Row("erfcx", ef.erfcx, mp_erfcx, [(-25.0, 40.0)], (2.0,)),
    Row("ndtr", ef.ndtr, mpmath.ncdf, [(-38.0, 38.0)]),
    Row("log ndtr", ef.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), [(-38.0, 38.0)], (-2.0, 0.0),
    bits=WIDE),
    Row("lgamma", g.lgamma, mp_lgamma, [(-170.5, 1e4)], (1.0, 2.0, -2.5, -0.9999999999999999),
    bits=1200),
    Row("digamma", g.digamma, lambda x: mpmath.psi(0, x), [(-100.5, 1e6)], (1.4616321449683622,
    -0.9999999999999999)),
    Row("trigamma", g.polygamma(1), lambda x: mpmath.psi(1, x), [(-20.5, 1e3)],
    (-0.9999999999999999,)),
    Row("polygamma 3", g.polygamma(3), lambda x: mpmath.psi(3, x), [(0.0, 1e3)]),
    Row("polygamma 4", g.polygamma(4), lambda x: mpmath.psi(4, x), [(0.0, 1e3)]),
    Row("mvlgamma 4", g.multivariate(4), mp_multivariate, [(1.5, 1e3)]),
    Row("zeta", g.zeta, relative(mpmath.zeta), [(1.0, 30.0), (0.0, 60.0)], bits=200, slope=False),
    Row("igamma", g.igamma, mp_gamma_lower, [(0.1, 20.0), (0.01, 30.0)], bits=300),
    Row("igammac", g.igammac, mp_gamma_upper, [(0.1, 20.0), (0.01, 30.0)], bits=300),
    Row("i0", b.i0, lambda x: mpmath.besseli(0, x), PLANE), Row("i1", b.i1,
    lambda x: mpmath.besseli(1, x), PLANE),
    Row("i0e", b.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), PLANE),
    Row("i1e", b.i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), PLANE),
    Row("j0", b.j0, lambda x: mpmath.besselj(0, x), PLANE, (2.404825557695773,)),
    Row("j1", b.j1, lambda x: mpmath.besselj(1, x), PLANE, (3.8317059702075125,)),
    Row("y0", b.y0, lambda x: mpmath.bessely(0, x), [(1e-6, 60.0)], (0.8935769662791675,),
    bits=120),
    Row("y1", b.y1, lambda x: mpmath.bessely(1, x), [(1e-6, 60.0)], (2.197141326031017,), bits=120),
    Row("k0", b.k0, lambda x: mpmath.besselk(0, x), [(1e-6, 60.0)], bits=120),
    Row("k1", b.k1, lambda x: mpmath.besselk(1, x), [(1e-6, 60.0)], bits=120),
    Row("k0e", b.k0e, lambda x: mpmath.besselk(0, x) * mpmath.exp(x), [(1e-6, 60.0)], bits=120),
    Row("k1e", b.k1e, lambda x: mpmath.besselk(1, x) * mpmath.exp(x), [(1e-6, 60.0)], bits=120),
    Row("spherical j0", b.spherical_j0, lambda x: mpmath.sin(x) / x, [(-1e6, 1e6)]),
    Row("Ai", b.airy_ai, mpmath.airyai, [(-20.0, 20.0)], (-2.338107410459767,)),
    Row("gelu", a.gelu, lambda x: x * mpmath.ncdf(x), [(-38.0, 38.0)]),
    Row("gelu by tanh", a.gelu_by_tanh, mp_gelu_tanh, [(-20.0, 20.0)], bits=WIDE),
    Row("silu", a.silu, lambda x: x / (1 + mpmath.exp(-x)), [(-1e6, 1e6)]),
    Row("mish", a.mish, lambda x: x * mpmath.tanh(mp_softplus(x)), [(-700.0, 700.0)], bits=WIDE),
    Row("softplus", a.softplus, mp_softplus, [(-700.0, 700.0)], bits=WIDE),
    Row("logsigmoid", a.log_sigmoid, lambda x: -mp_softplus(-x), [(-700.0, 700.0)], bits=WIDE),
    Row("elu", lambda x: a.elu(x, 0.75, 1, 0.5), mp_elu, [(-700.0, 700.0)], bits=WIDE),
    Row("hardswish", a.hardswish, lambda x: x * min(max(x + 3, 0), 6) / 6, [(-9.0, 9.0)], (-3.0,
    3.0)),
    Row("hardsigmoid", a.hardsigmoid, lambda x: min(max(x + 3, 0), mpmath.mpf(6)) / 6, [(-9.0,
    9.0)], (-3.0, 3.0)),
]  # fmt: skip
STEEP = {
    "hardswish",
    "hardsigmoid",
    "zeta",
    "igamma",
    "igammac",
}  # with corners, or without slopes here
PROBABILITIES = [(ef.erfinv, mpmath.erf, -1.0), (ef.ndtri, mpmath.ncdf, 0.0)]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_values(row: Row, count: int) -> None:
    check_values(row, count)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name not in STEEP], ids=repr)
def test_slopes(row: Row) -> None:
    check_slopes(
        replace(row, bounds=[(max(low, -9.0), min(high, 9.0)) for low, high in row.bounds]), 6
    )


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("inverse", "of", "low"), PROBABILITIES, ids=["erfinv", "ndtri"])
def test_inverses_lie_between(inverse: object, of: object, low: float, count: int) -> None:
    """The function of a ball's ends is on either side of the argument."""
    row = Row("inverse", inverse, of, [(low, 1.0)], (0.5,))
    drawn = arguments(row, count)
    for (x,), ball in zip(drawn, proved(row.of(*nodes_of(drawn)), count), strict=True):
        if x == 0.5 and low == 0.0:
            continue
        with mpmath.workprec(3000), balls.precision(3000):
            ends = [
                ball.mid() - 2 * ball.rad() - abs(ball.mid()) * 2.0**-300,
                ball.mid() + 2 * ball.rad() + abs(ball.mid()) * 2.0**-300,
            ]
            values = [of(mpmath.ldexp(int(m), int(e))) for m, e in (end.man_exp() for end in ends)]  # type: ignore[operator]
            assert values[0] <= x <= values[1], x


def _truth_of_polynomial(name: str, x: Fraction, n: int) -> Fraction:
    """By sums over k that use no recurrence."""
    f = math.factorial
    if name.startswith("shifted_"):
        return _truth_of_polynomial(name.removeprefix("shifted_"), 2 * x - 1, n)
    if name == "chebyshev_polynomial_t":
        return sum(
            (
                Fraction(math.comb(n, 2 * k)) * (x * x - 1) ** k * x ** (n - 2 * k)
                for k in range(n // 2 + 1)
            ),
            Fraction(0),
        )
    if name == "chebyshev_polynomial_u":
        return sum(
            (
                Fraction(math.comb(n + 1, 2 * k + 1)) * (x * x - 1) ** k * x ** (n - 2 * k)
                for k in range(n // 2 + 1)
            ),
            Fraction(0),
        )
    if name[-1] in "vw" and n:
        side = -1 if name[-1] == "v" else 1
        return _truth_of_polynomial("chebyshev_polynomial_u", x, n) + side * _truth_of_polynomial(
            "chebyshev_polynomial_u", x, n - 1
        )
    if name == "hermite_polynomial_h":
        return sum(
            (
                Fraction((-1) ** k * f(n), f(k) * f(n - 2 * k)) * (2 * x) ** (n - 2 * k)
                for k in range(n // 2 + 1)
            ),
            Fraction(0),
        )
    if name == "hermite_polynomial_he":
        return sum(
            (
                Fraction((-1) ** k * f(n), f(k) * f(n - 2 * k) * 2**k) * x ** (n - 2 * k)
                for k in range(n // 2 + 1)
            ),
            Fraction(0),
        )
    if name == "laguerre_polynomial_l":
        return sum(
            (Fraction((-1) ** k * math.comb(n, k), f(k)) * x**k for k in range(n + 1)), Fraction(0)
        )
    if name == "legendre_polynomial_p":
        return (
            sum(
                (
                    Fraction(math.comb(n, k) ** 2) * (x - 1) ** (n - k) * (x + 1) ** k
                    for k in range(n + 1)
                ),
                Fraction(0),
            )
            / 2**n
        )
    return Fraction(1)


@pytest.mark.parametrize("name", sorted(POLYNOMIALS))
def test_polynomials_are_those_of_fractions(name: str) -> None:
    draw = np.random.default_rng(len(name))
    xs = np.concatenate([draw.uniform(-2, 2, 20), [0.5, -0.5, 1.0, -1.0, 1e-300, 2.0]])
    ns = draw.integers(0, 20, xs.size).astype(np.float64)
    for x, n, value in zip(
        xs.tolist(),
        ns.tolist(),
        proved(POLYNOMIALS[name](Constant(xs), Constant(ns)), xs.size),
        strict=True,
    ):
        truth = _truth_of_polynomial(name, Fraction(x), int(n))
        with mpmath.workprec(4000):
            assert (
                value.overlaps(exactly(mpmath.mpf(truth.numerator) / truth.denominator))
                or value.is_exact()
            ), (x, n)
        assert abs(float(value) - float(truth)) <= 1e-15 * abs(float(truth)) + 1e-300


def test_special_cases() -> None:
    inf, nan = math.inf, math.nan
    wanted = {
        ef.erfinv: [(1.0, inf), (-1.0, -inf), (1.5, nan)], ef.ndtri: [(0.0, -inf), (1.0, inf),
        (-0.5, nan)],
        g.lgamma: [(0.0, inf), (-3.0, inf), (-inf, inf)], g.digamma: [(0.0, -inf), (-0.0, inf),
        (-2.0, nan)],
        b.y0: [(0.0, -inf), (-1.0, nan)], b.k1: [(0.0, inf)], ef.erfcx: [(inf, 0.0), (-inf, inf)],
        a.silu: [(inf, inf), (nan, nan)],
    }  # fmt: skip
    for of, cases in wanted.items():
        for (_, y), value in zip(
            cases, proved(of(Constant(np.array([x for x, _ in cases]))), len(cases)), strict=True
        ):
            assert value == y or (math.isnan(value) and math.isnan(y)), of.name
    doubtful = proved(a.silu(Constant(np.array([-inf]))), 1)
    assert not doubtful[0].is_finite()


def test_incomplete_gamma_functions_where_torch_documents_nan_and_at_their_limits() -> None:
    inf, nan = math.inf, math.nan
    wanted = {
        (-1.6, 2.0): (nan, nan),
        (2.0, -inf): (nan, nan),
        (0.0, -0.0): (nan, nan),
        (nan, 1.0): (nan, nan),
        (0.0, 2.0): (1.0, 0.0),
        (2.0, 0.0): (0.0, 1.0),
        (inf, 3.0): (0.0, 1.0),
        (3.0, inf): (1.0, 0.0),
        (2e38, 3e37): (0.0, 1.0),  # tails that vanish in every format
        (3.0, 2e38): (1.0, 0.0),
    }
    first, second = (np.array(xs) for xs in zip(*wanted, strict=True))
    for which, of in enumerate((g.igamma, g.igammac)):
        values = proved(of(Constant(first), Constant(second)), len(wanted))
        for pair, value in zip(wanted, values, strict=True):
            truth = wanted[pair][which]
            same = math.isnan(truth) if math.isnan(value) else abs(float(value) - truth) < 1e-300
            assert same, (of.name, pair, value)
    open_ones = proved(g.igamma(Constant(np.array([2e4, inf])), Constant(np.array([2e4, inf]))), 2)
    assert not any(value.is_finite() for value in open_ones)
