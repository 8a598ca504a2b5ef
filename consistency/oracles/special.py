"""Functions of corresponding elements, on mpmath's numbers: the special functions, and activations made of them.

Each entry takes mpmath's context and the operator's own arguments, one number in place of each tensor. Formulas are the definitions
in PyTorch's documentation (its names for the constants of SELU and of the tanh form of GELU) and in the NIST Digital Library of
Mathematical Functions; forms are chosen so that nothing cancels by more than the 160 bits allow, or more bits are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

Function = Callable[..., Any]
SELU_ALPHA, SELU_SCALE = "1.6732632423543772848170429916717", "1.0507009873554804934193349852946"
_LARGE = 2.0**20


def _moderate(m: Any, x: Any) -> None:
    """Raises ValueError beyond the numbers for which mpmath's series end in reasonable time."""
    if abs(x) > _LARGE:
        raise ValueError("too far out for mpmath")


def lgamma(m: Any, x: Any) -> Any:
    """log |Γ(x)|; DLMF 5.2."""
    return m.loggamma(x) if x > 200 else m.ln(abs(m.gamma(x)))


def mvlgamma(m: Any, x: Any, p: int) -> Any:
    """log of the multivariate gamma function; DLMF 35.3.4."""
    return m.mpf(p * (p - 1)) / 4 * m.ln(m.pi) + sum(lgamma(m, x - m.mpf(j) / 2) for j in range(p))


def erfinv(m: Any, x: Any) -> Any:
    """By Newton's method from the quantile of a normal distribution, which is good to 1e-15; the series DLMF 7.17.2 near 0."""
    if abs(x) >= 1:
        return m.sign(x) * m.inf if abs(x) == 1 else m.nan
    if abs(x) < 2.0**-30:
        return m.sqrt(m.pi) / 2 * (x + m.pi / 12 * x**3 + 7 * m.pi**2 / 480 * x**5)
    rest = 1 - abs(x)  # the share of both tails: exact
    t = m.mpf(-NormalDist().inv_cdf(float(rest) / 2) / math.sqrt(2.0))
    good = 25  # bits, doubled by every step
    while good < m.prec:
        good *= 2
        t += (m.erfc(t) - rest) * m.exp(t * t) * m.sqrt(m.pi) / 2
    return t if x > 0 else -t


def polygamma(m: Any, n: int, x: Any) -> Any:
    _moderate(m, x)
    return m.psi(n, x)


def log_ndtr(m: Any, x: Any) -> Any:
    if x > 0:
        return m.log1p(-m.erfc(x / m.sqrt(2)) / 2)
    return m.ln(m.erfc(-x / m.sqrt(2)) / 2)


def erfcx(m: Any, x: Any) -> Any:
    _moderate(m, x)
    return m.exp(x * x) * m.erfc(x)


def second_kind(m: Any, order: int, x: Any, sign: int) -> Any:
    """K (``sign`` 1) or Y (−1) of order 0 or 1 for x > 0, by the series DLMF 10.31.1, 10.31.2 and 10.8.1, 10.8.2.

    Its terms grow like exp(x) where the sum falls like exp(−x): 3x bits more than are wanted.
    """
    wanted = m.prec
    with m.workprec(wanted + 3 * int(x) + 60):
        q, k, harmonic = sign * x * x / 4, 0, m.mpf(0)
        term = largest = m.mpf(1)
        first, second = m.mpf(0), m.mpf(0)
        while abs(term) * 2 ** (m.prec + 10) > largest:
            first += term
            second += term * (2 * (harmonic - m.euler) + (m.mpf(order) / (k + 1)))  # ψ(k + 1) + ψ(k + 1 + order)
            k += 1
            harmonic += m.mpf(1) / k
            term *= q / (k * (k + order))
            largest = max(largest, abs(term))
        slope = m.ln(x / 2)
        value = second / 2 - slope * first if order == 0 else sign / x + slope * x / 2 * first - x / 4 * second
        if sign > 0:
            return value
        return (-1 if order == 0 else 1) * 2 / m.pi * value


def _bessel(kind: str, order: int, *, scaled: bool = False) -> Function:
    """J, Y, I, K of whole order; ``scaled`` by what keeps I and K from overflowing and vanishing (DLMF 10.2, 10.25)."""

    def call(m: Any, x: Any) -> Any:
        _moderate(m, x)
        if kind in "yk" and x <= 0:
            raise ValueError("a pole, or complex")
        near = kind in "yk" and x <= 100
        value = second_kind(m, order, x, 1 if kind == "k" else -1) if near else getattr(m, f"bessel{kind}")(order, x)
        if not scaled:
            return value
        return value * m.exp(x if kind == "k" else -abs(x))

    return call


LARGEST_GAMMA = 10_000


def _gammainc(upper: bool) -> Function:
    def call(m: Any, a: Any, x: Any) -> Any:
        _moderate(m, a)
        _moderate(m, x)
        if a < 0 or x < 0:
            raise ValueError("torch defines it for neither")
        if max(a, x) > LARGEST_GAMMA:
            raise ValueError("mpmath would double its precision for minutes")
        return m.gammainc(a, x, regularized=True) if upper else m.gammainc(a, 0, x, regularized=True)

    return call


def zeta(m: Any, x: Any, q: Any) -> Any:
    _moderate(m, q)
    if not 1 < x < 200:
        raise ValueError("outside of where the series converges, or where it is one term")
    return m.zeta(x, q)


def airy_ai(m: Any, x: Any) -> Any:
    _moderate(m, x)
    return m.airyai(x)


def logit(m: Any, x: Any, eps: float | None = None) -> Any:
    if eps is not None:
        x = min(max(x, m.mpf(eps)), 1 - m.mpf(eps))
    return m.ln(x / (1 - x)) if 0 < x < 1 else m.nan if not 0 <= x <= 1 else m.inf * (2 * x - 1)


def sinc(m: Any, x: Any) -> Any:
    """At whole numbers it is 0, but which zero, or how much is left of sin(πx), is a matter of how π was rounded."""
    if x != 0 and x == m.floor(x):
        raise ValueError("a zero of no sign")
    return m.mpf(1) if x == 0 else m.sinpi(x) / (m.pi * x)


def entr(m: Any, x: Any) -> Any:
    return -x * m.ln(x) if x > 0 else m.mpf(0) if x == 0 else -m.inf


def sigmoid(m: Any, x: Any) -> Any:
    return 1 / (1 + m.exp(-x))


def softplus(m: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return x if x * beta > threshold else m.log1p(m.exp(x * beta)) / beta


def mish(m: Any, x: Any) -> Any:
    return x * m.tanh(m.log1p(m.exp(x)))


def gelu(m: Any, x: Any, approximate: str = "none") -> Any:
    """1 + tanh z is written as 2/(1 + exp(−2z)), and 1 + erf as erfc of the negative."""
    if approximate == "none":
        return x / 2 * m.erfc(-x / m.sqrt(2))
    return x / (1 + m.exp(-2 * m.sqrt(2 / m.pi) * (x + m.mpf(0.044715) * x**3)))


def logsigmoid(m: Any, x: Any) -> Any:
    return -m.log1p(m.exp(-x)) if x > 0 else x - m.log1p(m.exp(x))


def tanhshrink(m: Any, x: Any) -> Any:
    """x − tanh x loses 2·log₂|1/x| bits next to 0, which are added."""
    if x == 0:
        return x
    with m.workprec(m.prec + max(-2 * m.mag(x), 0)):
        return x - m.tanh(x)


def elu(m: Any, x: Any, alpha: Any = 1.0) -> Any:
    return x if x > 0 else alpha * m.expm1(x)


def celu(m: Any, x: Any, alpha: float = 1.0) -> Any:
    return x if x > 0 else alpha * m.expm1(x / alpha)


def selu(m: Any, x: Any) -> Any:
    return m.mpf(SELU_SCALE) * elu(m, x, m.mpf(SELU_ALPHA))


def hardsigmoid(m: Any, x: Any) -> Any:
    return min(max(x + 3, m.mpf(0)), m.mpf(6)) / 6


def softshrink(m: Any, x: Any, lambd: float = 0.5) -> Any:
    return x - lambd if x > lambd else x + lambd if x < -lambd else 0 * x


def leaky_relu(m: Any, x: Any, negative_slope: float = 0.01) -> Any:
    return x if x >= 0 else x * negative_slope


def rrelu(m: Any, x: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """Evaluation only: the mean of both slopes, which torch rounds to float64."""
    if training:
        raise ValueError("random")
    return x if x >= 0 else x * ((lower + upper) / 2)


SPECIAL: dict[str, Function] = {
    "logit": logit,
    "sinc": sinc,
    "erf": lambda m, x: m.erf(x),
    "erfc": lambda m, x: m.erfc(x),
    "erfinv": erfinv,
    "lgamma": lgamma,
    "digamma": lambda m, x: polygamma(m, 0, x),
    "polygamma": polygamma,
    "mvlgamma": mvlgamma,
    "i0": _bessel("i", 0),
    "special.i0e": _bessel("i", 0, scaled=True),
    "special.i1": _bessel("i", 1),
    "special.i1e": _bessel("i", 1, scaled=True),
    "special.ndtr": lambda m, x: m.erfc(-x / m.sqrt(2)) / 2,
    "special.ndtri": lambda m, x: m.sqrt(2) * erfinv(m, 2 * x - 1),
    "special.log_ndtr": log_ndtr,
    "special.entr": entr,
    "special.erfcx": erfcx,
    "special.bessel_j0": _bessel("j", 0),
    "special.bessel_j1": _bessel("j", 1),
    "special.bessel_y0": _bessel("y", 0),
    "special.bessel_y1": _bessel("y", 1),
    "special.modified_bessel_i0": _bessel("i", 0),
    "special.modified_bessel_i1": _bessel("i", 1),
    "special.modified_bessel_k0": _bessel("k", 0),
    "special.modified_bessel_k1": _bessel("k", 1),
    "special.scaled_modified_bessel_k0": _bessel("k", 0, scaled=True),
    "special.scaled_modified_bessel_k1": _bessel("k", 1, scaled=True),
    "special.spherical_bessel_j0": lambda m, x: m.mpf(1) if x == 0 else m.sin(x) / x,
    "special.airy_ai": airy_ai,
    "special.zeta": zeta,
    "igamma": _gammainc(False),
    "igammac": _gammainc(True),
    "nn.functional.rrelu": rrelu,
    "nn.functional.leaky_relu": leaky_relu,
    "nn.functional.elu": elu,
    "nn.functional.celu": celu,
    "nn.functional.selu": selu,
    "nn.functional.gelu": gelu,
    "nn.functional.silu": lambda m, x: x / (1 + m.exp(-x)),
    "nn.functional.mish": mish,
    "nn.functional.softplus": softplus,
    "nn.functional.softsign": lambda m, x: x / (1 + abs(x)),
    "nn.functional.logsigmoid": logsigmoid,
    "nn.functional.tanhshrink": tanhshrink,
    "nn.functional.hardsigmoid": hardsigmoid,
    "nn.functional.hardswish": lambda m, x: x * hardsigmoid(m, x),
    "nn.functional.softshrink": softshrink,
}
