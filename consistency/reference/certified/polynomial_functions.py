"""Orthogonal polynomials by their recurrences (DLMF 18.9), which are exact in balls."""

from __future__ import annotations

from collections.abc import Callable

from flint import arb

from . import balls
from .balls import Element
from .elementwise import Function, on_numbers

_MOST = 500  # steps
Step = Callable[[int, arb, arb, arb], arb]


def _chebyshev(k: int, x: arb, last: arb, before: arb) -> arb:
    return 2 * x * last - before


def _hermite(k: int, x: arb, last: arb, before: arb) -> arb:
    return 2 * x * last - 2 * k * before


def _hermite_e(k: int, x: arb, last: arb, before: arb) -> arb:
    return x * last - k * before


def _laguerre(k: int, x: arb, last: arb, before: arb) -> arb:
    return ((2 * k + 1 - x) * last - k * before) / (k + 1)


def _legendre(k: int, x: arb, last: arb, before: arb) -> arb:
    return ((2 * k + 1) * x * last - k * before) / (k + 1)


def polynomial(
    name: str, first: Callable[[arb], arb], step: Step, *, shifted: bool = False
) -> Function:
    """The polynomial of degree n with p₀ = 1, p₁ = ``first`` and p₊₁ = ``step`` of (k, x, pₖ,
    pₖ₋₁); ``shifted``: of 2x − 1."""

    def of(x: Element, n: Element) -> Element:
        if type(x) is float and x != 0.0:
            return balls.UNSURE
        point, count = balls.ball(x), balls.ball(n)
        degree = count.unique_fmpz() if count.is_exact() and count.is_integer() else None
        if degree is None or not 0 <= int(degree) <= _MOST:
            return balls.UNSURE
        point = 2 * point - 1 if shifted else point
        before, last = arb(1), first(point)
        if int(degree) == 0:
            return before
        for k in range(1, int(degree)):
            before, last = last, step(k, point, last, before)
        return last

    return Function(name, on_numbers(of))


_FIRST: dict[str, Callable[[arb], arb]] = {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}
POLYNOMIALS = {
    **{
        f"chebyshev_polynomial_{k}": polynomial(f"Chebyshev {k}", first, _chebyshev)
        for k, first in _FIRST.items()
    },
    **{
        f"shifted_chebyshev_polynomial_{k}": polynomial(
            f"shifted Chebyshev {k}", first, _chebyshev, shifted=True
        )
        for k, first in _FIRST.items()
    },
    "hermite_polynomial_h": polynomial("Hermite H", lambda x: 2 * x, _hermite),
    "hermite_polynomial_he": polynomial("Hermite He", lambda x: x, _hermite_e),
    "laguerre_polynomial_l": polynomial("Laguerre", lambda x: 1 - x, _laguerre),
    "legendre_polynomial_p": polynomial("Legendre", lambda x: x, _legendre),
}
