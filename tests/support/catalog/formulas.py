"""Wrong formulas of elementwise functions: (operator, what, function, cause) each.

Every function takes its operator's own arguments. Where it follows textbook algebra, only the
rounding is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .precision import to_bits

Wrong = tuple[str, str, Callable[..., Any], str | None]


def short_sine(x: Tensor) -> Tensor:
    """The argument is reduced with a float32 value of 2π."""
    turn = torch.tensor(2.0 * math.pi, dtype=torch.float32)
    return torch.sin(x - torch.round(x / turn) * turn)


def series_erf(x: Tensor) -> Tensor:
    """Abramowitz and Stegun 7.1.26: 1.5e-7 absolute."""
    t = 1.0 / (1.0 + 0.3275911 * x.abs())
    poly = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    return torch.copysign(1.0 - poly * torch.exp(-x * x), x)


def half_away(x: Tensor, decimals: int = 0) -> Tensor:
    scale = float(torch.tensor(10.0, dtype=torch.float64) ** decimals)  # infinite beyond 308
    return torch.copysign(torch.floor((x * scale).abs() + 0.5), x) / scale


def c_remainder(x: Tensor, y: Any) -> Tensor:
    return torch.fmod(x, y)


def truncating_division(x: Tensor, y: Any) -> Tensor:
    return torch.div(x, y, rounding_mode="trunc")


ELEMENTWISE: tuple[Wrong, ...] = (
    ("expm1", "exp(x) - 1", lambda x: x.exp() - 1.0, "approximation"),
    ("log1p", "log(1 + x)", lambda x: (1.0 + x).log(), "approximation"),
    ("sinh", "difference of exponentials", lambda x: (x.exp() - (-x).exp()) / 2.0, "approximation"),
    ("tanh", "quotient of exponentials", lambda x: ((2 * x).exp() - 1) / ((2 * x).exp() + 1),
        "early-overflow|approximation"),
    ("sigmoid", "exp(x) / (1 + exp(x))", lambda x: x.exp() / (1.0 + x.exp()), "early-overflow"),
    ("atanh", "logarithm of a quotient", lambda x: 0.5 * ((1.0 + x) / (1.0 - x)).log(),
        "approximation"),
    ("asinh", "logarithm", lambda x: (x + (x * x + 1.0).sqrt()).log(), "approximation"),
    ("erfc", "1 - erf(x)", lambda x: 1.0 - x.erf(), "approximation"),
    ("erf", "series of 1.5e-7", series_erf, "approximation"),
    ("sin", "short argument reduction", short_sine, "approximation"),
    ("rsqrt", "table of 12 bits", lambda x: to_bits(x.rsqrt(), 12), "approximation"),
    ("reciprocal", "table of 12 bits", lambda x: to_bits(x.reciprocal(), 12), "approximation"),
    ("exp", "power of 2 with 16 bits", lambda x: to_bits(x.exp(), 16), "approximation"),
    ("exp", "exponent rounded in float32", lambda x: torch.exp2(x * 1.4426950408889634),
        "approximation"),
    ("pow", "exp(y log x)", lambda x, y: torch.exp(y * torch.log(torch.as_tensor(x))),
        "approximation"),
    ("hypot", "without scaling", lambda x, y: (x * x + y * y).sqrt(), "early-overflow"),
    ("logaddexp", "without scaling", lambda x, y: (x.exp() + y.exp()).log(),
        "early-overflow|approximation"),
    ("xlogy", "0 log 0 is NaN", lambda x, y: x * torch.log(torch.as_tensor(y)), None),
    ("atan2", "atan(y / x)", lambda y, x: torch.atan(y / x), None),
    ("logit", "eps not clamped", lambda x, eps=None: torch.logit(x), "argument-ignored"),
    ("round", "halves away from zero", half_away, None),
    ("floor_divide", "toward zero", truncating_division, None),
    ("remainder", "the dividend's sign", c_remainder, None),
    ("sign", "1 for zero", lambda x: torch.where(x == 0, torch.ones_like(x), x.sign()), None),
    ("trunc", "floor", torch.floor, None),
    ("isnan", "constantly false", lambda x: torch.zeros(x.shape, dtype=torch.bool), None),
    ("fmax", "NaN passed on", torch.maximum, None),
    ("maximum", "NaN left out", torch.fmax, "nan-dropped"),
    ("nan_to_num", "values ignored", lambda x, **given: torch.nan_to_num(x), "argument-ignored"),
    ("copysign", "negative zero counts as positive", lambda x, y: torch.copysign(x, y + 0.0), None),
    ("lt", "less or equal", torch.le, None),
    ("lerp", "weight of the other end", lambda a, b, w: torch.lerp(b, a, w), None),
    ("addcmul", "value ignored", lambda a, b, c, value=1: torch.addcmul(a, b, c),
        "argument-ignored"),
    ("add", "alpha ignored", lambda a, b, alpha=1: torch.add(a, b), "argument-ignored"),
    ("div", "rounding mode ignored", lambda a, b, rounding_mode=None: torch.div(a, b),
        "argument-ignored"),
)  # fmt: skip
