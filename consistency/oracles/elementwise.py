"""Oracles of functions of corresponding elements: mpmath, element by element, on all of them or on a fixed sample.

Results have 160 bits before they become (high, tail): an error of about 2⁻¹⁰⁶ relative, and more than 2⁻⁹⁰ nowhere, cancellation
included. Left out (their places are not in the answer): infinities of functions whose limits are not listed here, poles, and what
mpmath refuses. The sign of an exact zero is not the business of a real number, and is taken over from float64 by who uses the
answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from . import _numbers
from .answer import Answer, Unsure
from .special import SPECIAL, sigmoid

Function = Callable[..., Any]


def _plain(name: str) -> Function:
    return lambda m, x: getattr(m, name)(x)


def _divided(m: Any, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        raise ValueError("a step: neighbours are admissible, too")
    return x / y


def _fmod(m: Any, x: Any, y: Any) -> Any:
    """x − y·trunc(x/y), exact: with whole numbers, as far as the exponents lie apart."""
    rest = m.fmod(abs(x), abs(y))
    return -rest if x < 0 else rest


def _remainder(m: Any, x: Any, y: Any) -> Any:
    rest = _fmod(m, x, y)
    return rest + y if rest and (rest < 0) != (y < 0) else rest


def _power(m: Any, x: Any, y: Any) -> Any:
    if not (m.isfinite(x) and m.isfinite(y)) or (x == 0 and y <= 0):
        raise ValueError("conventions of IEEE 754's pow, not of mathematics")
    return m.power(x, y)


def _hypot(m: Any, x: Any, y: Any) -> Any:
    return m.inf if m.inf in (abs(x), abs(y)) else m.sqrt(x * x + y * y)


def _atan2(m: Any, y: Any, x: Any) -> Any:
    if y == 0 or not (m.isfinite(x) and m.isfinite(y)):
        raise ValueError("depends on the sign of zero, or on IEEE 754's conventions")
    return m.atan2(y, x)


def _logaddexp(base: int) -> Function:
    def call(m: Any, x: Any, y: Any) -> Any:
        top, low = max(x, y), min(x, y)
        if abs(top) == m.inf or low == -m.inf:
            return top
        scale = m.ln(base) if base else m.mpf(1)
        # Where the sum is close to 1, top and the logarithm cancel: 60 bits more.
        with m.workprec(m.prec + 60):
            return top + m.log1p(m.exp((low - top) * scale)) / scale

    return call


def _times_log(plus_one: bool) -> Function:
    def call(m: Any, x: Any, y: Any) -> Any:
        if x == 0:
            return m.nan if m.isnan(y) else m.mpf(0)
        if y < (-1 if plus_one else 0):
            return m.nan
        return x * (m.log1p(y) if plus_one else m.ln(y))

    return call


def _prod(m: Any, *factors: Any) -> Any:
    """Zero times infinity is NaN, which mpmath agrees to."""
    return math.prod(factors[1:], start=factors[0])


ELEMENTARY: dict[str, Function] = {
    "sqrt": _plain("sqrt"),
    "rsqrt": lambda m, x: 1 / m.sqrt(x),
    "reciprocal": lambda m, x: 1 / x,
    "square": lambda m, x: x * x,
    "exp": _plain("exp"),
    "exp2": lambda m, x: m.power(2, x) if m.isfinite(x) else m.exp(x),
    "expm1": lambda m, x: m.expm1(x) if x > -(2**20) or not m.isfinite(x) else m.mpf(-1),  # to a million bits
    "log": _plain("ln"),
    "log2": lambda m, x: m.log(x, 2) if m.isfinite(x) and x else m.ln(x),
    "log10": lambda m, x: m.log(x, 10) if m.isfinite(x) and x else m.ln(x),
    "log1p": lambda m, x: -m.inf if x == -1 else m.nan if x < -1 else m.log1p(x),
    "sin": _plain("sin"),
    "cos": _plain("cos"),
    "tan": _plain("tan"),
    "asin": _plain("asin"),
    "acos": _plain("acos"),
    "atan": _plain("atan"),
    "sinh": _plain("sinh"),
    "cosh": _plain("cosh"),
    "tanh": _plain("tanh"),
    "asinh": lambda m, x: x if not m.isfinite(x) else m.sign(x) * m.asinh(abs(x)),
    "acosh": lambda m, x: m.acosh(x) if m.isfinite(x) else x,
    "atanh": lambda m, x: m.atanh(x) if abs(x) < 1 else m.sign(x) * m.inf if abs(x) == 1 else m.nan,
    "sigmoid": sigmoid,
    "deg2rad": lambda m, x: x * m.pi / 180,
    "rad2deg": lambda m, x: x * 180 / m.pi,
    "angle": lambda m, x: m.pi * 1 if x < 0 else m.mpf(0),
    "add": lambda m, x, y, alpha=1: x + _prod(m, alpha, y),
    "sub": lambda m, x, y, alpha=1: x - _prod(m, alpha, y),
    "rsub": lambda m, x, y, alpha=1: y - _prod(m, alpha, x),
    "mul": _prod,
    "div": _divided,
    "true_divide": _divided,
    "remainder": _remainder,
    "fmod": _fmod,
    "__radd__": lambda m, x, y: y + x,
    "__rsub__": lambda m, x, y: y - x,
    "__rmul__": lambda m, x, y: y * x,
    "__rdiv__": lambda m, x, y: y / x,
    "__rpow__": lambda m, x, y: _power(m, m.mpf(y), x),
    "pow": lambda m, x, y: _power(m, m.mpf(x), m.mpf(y)),
    "float_power": lambda m, x, y: _power(m, m.mpf(x), m.mpf(y)),
    "ldexp": lambda m, x, y: x * m.power(2, y),
    "hypot": _hypot,
    "atan2": _atan2,
    "logaddexp": _logaddexp(0),
    "logaddexp2": _logaddexp(2),
    "xlogy": _times_log(False),
    "special.xlog1py": _times_log(True),
    "addcmul": lambda m, x, y, z, value=1: x + value * y * z,
    "addcdiv": lambda m, x, y, z, value=1: x + value * y / z,
    "lerp": lambda m, x, y, weight: x + weight * (y - x),
}
# Where mpmath's answer at an infinity is the limit. Everywhere else an infinity is left out.
LIMITS = frozenset(
    {
        "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "sinh", "cosh", "tanh", "atan", "asinh", "add", "sub", "__radd__",
        "__rsub__", "hypot", "logaddexp", "logaddexp2", "erf",
    }
)  # fmt: skip
NAN_PASSES = frozenset(ELEMENTARY) - {"pow", "float_power", "__rpow__", "hypot"} | frozenset(SPECIAL)
FUNCTIONS: Mapping[str, Function] = ELEMENTARY | SPECIAL
# Milliseconds an element, where the others take microseconds: a sixteenth of as many is computed.
SLOW = frozenset({"special.zeta", "polygamma", "igammac"})


def evaluate(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], most: int | None = None) -> list[Answer]:
    """The answer to ``name(*args, **kwargs)``, on at most ``most`` of its elements. Raises Unsure."""
    m, function = _numbers.context(), FUNCTIONS[name]
    most = max(most // 16, 2) if most is not None and name in SLOW else most
    operands = [np.asarray(item.detach().numpy()) for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
    if not operands or any(operand.dtype.kind not in "fiu" for operand in operands):
        raise Unsure("complex numbers, booleans, or no tensor at all")
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    places = sample(math.prod(shape), most)
    columns = [np.broadcast_to(operand, shape).reshape(-1)[places].tolist() for operand in operands]
    found: list[tuple[int, float, float]] = []
    for place, *values in zip(places.tolist(), *columns, strict=True):
        pair = _one(m, name, function, args, kwargs, values)
        if pair is not None:
            found.append((place, *pair))
    made = np.array([row[1:] for row in found], dtype=np.float64).reshape(-1, 2)
    return [Answer(tuple(shape), made[:, 0], made[:, 1], np.array([row[0] for row in found], dtype=np.int64))]


def _one(
    m: Any, name: str, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any], values: list[Any]
) -> tuple[float, float] | None:
    """One element, or None where nothing is known."""
    if not all(map(math.isfinite, values)):
        if any(v != v for v in values) and name in NAN_PASSES:
            return math.nan, 0.0
        if name not in LIMITS:
            return None
    numbers = iter([m.mpf(value) for value in values])
    given = [next(numbers) if isinstance(item, torch.Tensor) else item for item in args]
    named = {key: next(numbers) if isinstance(item, torch.Tensor) else item for key, item in kwargs.items()}
    try:
        result = function(m, *given, **named)
    except (ValueError, ZeroDivisionError, OverflowError, m.NoConvergence):
        return None
    return (math.nan, 0.0) if hasattr(result, "_mpc_") else _numbers.split(result)


def sample(count: int, most: int | None) -> Any:
    """Flat positions: all, or ``most`` of them at even distances, the first and the last (a vector's tail) among them."""
    if most is None or count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))
