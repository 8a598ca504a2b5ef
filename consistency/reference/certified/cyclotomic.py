"""Whether a sum of exact numbers times roots of unity is zero, decided exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import acb, fmpz_poly

_DEGREE = 20_000


def vanishes(numbers: Sequence[acb], exponents: Sequence[int], order: int, part: int) -> bool:
    """Whether the real (``part`` 0) or imaginary (1) part of Σ z·exp(2πi·e/order) is 0; False if it
    is not, or if undecided.

    Parts are sums of cosines of multiples of 2π/m, with m a multiple of 4, and 2·cos(2πf/m) = ζᶠ +
    ζᵐ⁻ᶠ with ζ = exp(2πi/m). A polynomial in ζ with rational coefficients is 0 if and only if the
    m-th cyclotomic polynomial divides it.
    """
    m = math.lcm(4, order)
    terms: list[tuple[int, int, int]] = []  # mantissa, exponent of two, f
    for z, e in zip(numbers, exponents, strict=True):
        # re·cos θ − im·sin θ, or re·sin θ + im·cos θ; sin θ = cos(θ − π/2), −sin θ = cos(θ + π/2)
        for x, shift in ((z.real, -part), (z.imag, 1 - part)):
            if not x.is_exact():
                return False
            if not x.is_zero():
                mantissa, power = x.man_exp()
                terms.append((int(mantissa), int(power), (e * (m // order) + shift * (m // 4)) % m))
    if not terms:
        return True
    common = math.gcd(m, *(f for _, _, f in terms))
    degree = m // common
    if degree > _DEGREE:
        return False
    low = min(power for _, power, _ in terms)
    coefficients = [0] * degree
    for integer, exponent, f in terms:
        value = integer << (exponent - low)
        coefficients[f // common] += value
        coefficients[-(f // common) % degree] += value
    remainder = fmpz_poly(coefficients) % fmpz_poly.cyclotomic(degree)
    return remainder.degree() < 0
