"""Window functions of signal processing, as the documentation of torch.signal.windows defines them.

Decimal coefficients are taken as written there, numbers that were given as they are. A window of one point is 1. Two of the
formulas there are misprinted: gaussian's exponent is −n²/(2σ²), and nuttall's coefficients are those of its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from flint import arb, fmpq

from . import balls
from .balls import Elements
from .nodes import Node, Positions

Number = Fraction | float | int


class Points(Node):
    """A function of a whole number, at 0, 1, 2 …"""

    def __init__(self, count: int, of: Callable[[int], arb]) -> None:
        super().__init__((count,))
        self.of = of

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return [self.of(n) for n in positions.tolist()]


def exact(x: Number) -> arb:
    """A rational number as a ball."""
    return arb(fmpq(x.numerator, x.denominator)) if isinstance(x, Fraction) else arb(x)


def _cosines(length: int, steps: int, a: Sequence[Number]) -> Callable[[int], arb]:
    """Σ (−1)ⁱ·aᵢ·cos(2πi·n/steps)"""

    def at(n: int) -> arb:
        terms = [exact(a_i) * (-1) ** i * arb.cos_pi_fmpq(fmpq(2 * i * n, steps)) for i, a_i in enumerate(a)]
        found = sum(terms, arb(0))
        if found.contains(0) and not found.is_zero() and n % steps == 0:  # all cosines are 1
            return exact(sum((Fraction(a_i) * (-1) ** i for i, a_i in enumerate(a)), Fraction(0)))
        return found

    return at


def _decimal(*texts: str) -> list[Number]:
    return [Fraction(text) for text in texts]


COSINES = {
    "blackman": _decimal("0.42", "0.5", "0.08"),
    "hamming": _decimal("0.54", "0.46"),
    "hann": _decimal("0.5", "0.5"),
    "nuttall": _decimal("0.3635819", "0.4891775", "0.1365995", "0.0106411"),
}


def window(name: str, length: int, *, sym: bool = True, **given: Any) -> Node | None:
    """The window of that name, or None where it is not known."""
    steps = length - 1 if sym else length
    if length == 1:
        return Points(1, lambda n: arb(1))
    alpha = given.get("alpha")
    match name:
        case "blackman" | "hamming" | "hann" | "nuttall":
            return Points(length, _cosines(length, steps, COSINES[name]))
        case "general_cosine":
            return Points(length, _cosines(length, steps, given["a"]))
        case "general_hamming":
            a = COSINES["hamming"] if alpha is None else [Fraction(alpha), 1 - Fraction(alpha)]
            return Points(length, _cosines(length, steps, a))
        case "bartlett":
            return Points(length, lambda n: exact(1 - abs(Fraction(2 * n, steps) - 1)))
        case "cosine":
            periods = length if sym else length + 1
            return Points(length, lambda n: arb.sin_pi_fmpq(fmpq(2 * n + 1, 2 * periods)))
        case "exponential" if given.get("center") is None:
            tau = Fraction(given.get("tau", 1.0))
            return Points(length, lambda n: exact(-abs(n - Fraction(steps, 2)) / tau).exp())
        case "gaussian":
            deviation = Fraction(given.get("std", 1.0))
            return Points(length, lambda n: exact(-(((n - Fraction(steps, 2)) / deviation) ** 2) / 2).exp())
        case "kaiser":
            return Points(length, _kaiser(steps, Fraction(given.get("beta", 12.0))))
    return None


def _kaiser(steps: int, beta: Fraction) -> Callable[[int], arb]:
    """I₀(β·√(1 − ((n − N/2)/(N/2))²)) ÷ I₀(β)"""

    def at(n: int) -> arb:
        place = Fraction(2 * n, steps) - 1
        inside = exact(beta) * exact(1 - place * place).sqrt()
        return inside.bessel_i(balls.ZERO) / exact(beta).bessel_i(balls.ZERO)

    return at
