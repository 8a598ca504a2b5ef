"""Complex functions beside mpmath off their cuts, and on them beside C99's signs."""

from __future__ import annotations

import cmath
import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest

from consistency.reference.certified import complex_functions as cf
from consistency.reference.certified.complex_numbers import Pair
from consistency.reference.certified.gradients import gradients
from consistency.reference.certified.nodes import Constant, Leaf
from consistency.reference.certified.rounding import nearest_double
from tests.reference.certified.exact_rows import COUNTS, argument, holds, proved

BITS = 1600
FAR = {
    "sin",
    "cos",
    "tan",
    "exp",
    "exp2",
    "expm1",
    "sinh",
    "cosh",
    "tanh",
}  # where a huge argument overflows, or nearly
NAMES = [
    "asin", "acos", "atan", "asinh", "acosh", "atanh", "log", "log1p", "log2", "log10", "sqrt",
    *sorted(FAR),
]  # fmt: skip
TRUTHS: dict[str, Any] = {
    "log1p": lambda z: mpmath.log(1 + z),
    "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log10": lambda z: mpmath.log(z) / mpmath.log(10),
    "exp2": lambda z: mpmath.exp(z * mpmath.log(2)),
    "expm1": lambda z: mpmath.exp(z) - 1,
}


def pairs(points: list[complex], kind: Any = Constant) -> Pair:
    return Pair(kind(np.array([z.real for z in points])), kind(np.array([z.imag for z in points])))


def both(made: Pair, count: int) -> list[tuple[Any, Any]]:
    return list(zip(proved(made.re, count), proved(made.im, count), strict=True))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", NAMES)
def test_values_off_the_cuts(name: str, count: int) -> None:
    draw = random.Random(name)
    size = 300.0 if name in FAR else 1e150
    points = [
        complex(argument(draw, -size, size, (1.0, -1.0)), argument(draw, -size, size, (1.0, -1.0)))
        for _ in range(count)
    ]
    narrow = 0
    with mpmath.workprec(2 * BITS):
        for z, parts in zip(points, both(getattr(cf, name)(pairs(points)), count), strict=True):
            truth = TRUTHS.get(name, getattr(mpmath, name, None))(mpmath.mpc(z))
            narrow += all(nearest_double(part) is not None for part in parts)
            for part, exact in zip(parts, (truth.real, truth.imag), strict=True):
                assert (
                    not part.is_finite()
                    or holds(part + abs(truth) * 0, exact, BITS // 2)
                    or abs(exact) < mpmath.ldexp(1, -BITS // 2)
                ), (z, part, exact)
    assert narrow >= 0.9 * count


CUTS = {
    "sqrt": [-4.0], "log": [-4.0], "asin": [3.0, -3.0], "acos": [3.0, -3.0], "acosh": [0.5, -0.5,
    -3.0], "atanh": [3.0, -3.0],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CUTS))
def test_the_sign_of_zero_chooses_the_side(name: str) -> None:
    points = [complex(x, zero) for x in CUTS[name] for zero in (0.0, -0.0)]
    for z, (re, im) in zip(
        points, both(getattr(cf, name)(pairs(points)), len(points)), strict=True
    ):
        wanted = getattr(cmath, name)(z)
        assert math.isclose(float(re), wanted.real, rel_tol=1e-12, abs_tol=1e-300), z
        assert math.isclose(float(im), wanted.imag, rel_tol=1e-12), z


@pytest.mark.parametrize("name", ["asinh", "atan"])
def test_cuts_on_the_imaginary_axis(name: str) -> None:
    points = [complex(zero, y) for y in (3.0, -3.0) for zero in (0.0, -0.0)]
    for z, (re, im) in zip(points, both(getattr(cf, name)(pairs(points)), 4), strict=True):
        wanted = getattr(cmath, name)(z)
        assert math.isclose(float(re), wanted.real, rel_tol=1e-12), z
        assert math.isclose(float(im), wanted.imag, rel_tol=1e-12), z


@pytest.mark.parametrize("name", NAMES)
def test_slopes_on_either_side(name: str) -> None:
    """∂re/∂x and ∂re/∂y are the real part of the derivative and minus its imaginary part, on cuts
    as next to them."""
    points = [
        complex(0.75, 0.5), complex(-1.5, 0.25), complex(2.0, -3.0), complex(-3.0, 0.0),
        complex(-3.0, -0.0), complex(3.0, -0.0),
    ]  # fmt: skip
    points += [complex(0.0, 3.0), complex(-0.0, 3.0)]
    z = pairs(points, Leaf)
    ones = Constant(np.ones(len(points)))
    by_x, by_y = gradients([(getattr(cf, name)(z).re, ones)], [z.re, z.im])
    truth = TRUTHS.get(name, getattr(mpmath, name, None))
    for z0, dx, dy in zip(
        points, proved(by_x, len(points)), proved(by_y, len(points)), strict=True
    ):
        near = complex(
            z0.real + math.copysign(1e-30, z0.real) * (z0.real == 0),
            z0.imag + math.copysign(1e-30, z0.imag) * (z0.imag == 0),
        )
        with mpmath.workprec(400):
            slope = mpmath.diff(truth, mpmath.mpc(near), h=mpmath.ldexp(1, -130))
        assert abs(complex(float(dx), -float(dy)) - complex(slope)) < 1e-9 * max(
            abs(complex(slope)), 1e-3
        ), z0
