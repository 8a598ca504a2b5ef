"""Functions of one element."""

from collections.abc import Callable

import numpy as np

from consistency.backends.numpy.dtypes import INDEX, Array, constant, floating, is_nan, pi
from consistency.backends.numpy.implementations import implements

_FLOATING: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "deg2rad": lambda x: x * constant("0.017453292519943295769236907684886127", x),
    "rad2deg": lambda x: x * constant("57.295779513082320876798154814105170332", x),
}
# The others leave branch cuts and overflow of complex numbers to the C library, which differ.
_ALSO_COMPLEX = frozenset(
    {"exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "tanh", "reciprocal"}
)


def _offer_floating(name: str, function: Callable[[Array], Array]) -> None:
    @implements(name, wide=True, complex=name in _ALSO_COMPLEX, pointwise=True)
    def call(input: Array) -> Array:
        return function(floating(input))


for _name, _function in _FLOATING.items():
    _offer_floating(_name, _function)


def _offer_rounding(name: str, function: Callable[[Array], Array]) -> None:
    @implements(name, wide=True, pointwise=True)
    def call(input: Array) -> Array:
        return function(input) if input.dtype.kind == "f" else input.copy()


for _name, _function in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}.items():
    _offer_rounding(_name, _function)


@implements("round", wide=True, pointwise=True)
def round_(input: Array, *, decimals: int = 0) -> Array:
    """Half to even. With decimals, scaled by a power of ten as PyTorch documents: not correctly
    rounded."""
    if input.dtype.kind != "f":
        return input.copy()
    ten = constant("10", input) ** abs(decimals)
    if decimals < 0:
        return np.asarray(np.rint(input / ten) * ten)
    return np.rint(input * ten) / ten if decimals else np.rint(input)


@implements("abs", wide=True, complex=True, pointwise=True)
def abs_(input: Array) -> Array:
    return np.abs(input)


@implements("neg", wide=True, complex=True, pointwise=True)
def neg(input: Array) -> Array:
    return np.negative(input)


@implements("positive", wide=True, complex=True, pointwise=True)
def positive(input: Array) -> Array:
    return input.copy()


@implements("square", wide=True, complex=True, pointwise=True)
def square(input: Array) -> Array:
    x = input.astype(INDEX) if input.dtype.kind == "b" else input
    return np.asarray(x * x)


@implements("sign", "sgn", wide=True, pointwise=True)
def sign(input: Array) -> Array:
    """(0 < x) − (x < 0), as PyTorch computes it: so the sign of NaN is 0, which NumPy has as
    NaN."""
    if input.dtype.kind == "b":
        return input.copy()
    return np.subtract(input > 0, input < 0, dtype=input.dtype)


@implements("frac", wide=True, pointwise=True)
def frac(input: Array) -> Array:
    return np.subtract(input, np.trunc(input))


@implements("sigmoid", wide=True, pointwise=True)
def sigmoid(input: Array) -> Array:
    """Both signs through exp(−|x|), which neither overflows nor loses the subnormal tail."""
    x = floating(input)
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


@implements("logit", wide=True, pointwise=True)
def logit(input: Array, eps: float | None = None) -> Array:
    """log(x / (1 − x)); near ½, where that is nearly log(1), through log1p of the exact 2x − 1."""
    x = floating(input)
    if eps is not None:
        low = constant(eps, x)
        high = constant(1, x) - low
        # Bounds that cross are asked for in torch's order, the lower one first.
        x = np.where(x < low, low, np.where(x > high, high, x))
    return np.asarray(np.where(x < 0.25, np.log(x / (1 - x)), np.log1p((2 * x - 1) / (1 - x))))


@implements("sinc", wide=True, pointwise=True)
def sinc(input: Array) -> Array:
    """sin(πx) / (πx). The integers' zeros come from a reduced argument: sin(π·n) in floating point
    is not 0."""
    x = floating(input)
    nearest = np.rint(x)
    odd = np.mod(nearest, 2) != 0
    wave = np.sin(pi(x) * (x - nearest))
    return np.where(x == 0, 1, np.where(odd, -wave, wave) / (pi(x) * x))


@implements("angle", wide=True, pointwise=True)
def angle(input: Array) -> Array:
    x = floating(input)
    return np.where(is_nan(x), x, np.where(x < 0, pi(x), constant(0, x)))
