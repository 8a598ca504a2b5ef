"""Functions of two elements or more: arithmetic, comparisons, logic, bits."""

from collections.abc import Callable

import numpy as np

from consistency.backends.numpy.dtypes import INDEX, Array, Operand, Scalar, is_nan, unify
from consistency.backends.numpy.implementations import implements

_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "gcd": np.gcd,
    "lcm": np.lcm,
}
_COMPARING: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_FLOATING: dict[str, Callable[[Array, Array], Array]] = {
    "true_divide": np.true_divide,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "copysign": np.copysign,
    "xlogy": lambda x, y: np.where((x == 0) & ~is_nan(y), 0, x * np.log(y)),
    "special.xlog1py": lambda x, y: np.where((x == 0) & ~is_nan(y), 0, x * np.log1p(y)),
}
_ALSO_COMPLEX = frozenset({"mul", "true_divide", "eq", "ne"})


def _offer(name: str, function: Callable[[Array, Array], Array], make_floating: bool) -> None:
    @implements(name, wide=True, complex=name in _ALSO_COMPLEX, pointwise=True)
    def call(input: Operand, other: Operand) -> Array:
        return function(*unify(input, other, floating=make_floating))


def _offer_comparison(name: str, function: Callable[[Array, Array], Array]) -> None:
    @implements(name, wide=True, complex=name in _ALSO_COMPLEX, pointwise=True)
    def call(input: Operand, other: Operand) -> Array:
        x = np.asarray(input)
        if x.dtype.kind in "iu" and isinstance(other, int):
            return function(x.astype(INDEX), np.asarray(other))  # which may lie beyond the dtype
        return function(*unify(input, other))


for _name, _function in _COMPARING.items():
    _offer_comparison(_name, _function)
for _name, _function in _ARITHMETIC.items():
    _offer(_name, _function, make_floating=False)
for _name, _function in _FLOATING.items():
    _offer(_name, _function, make_floating=True)


@implements("add", wide=True, complex=True, pointwise=True)
def add(input: Operand, other: Operand, *, alpha: Scalar = 1) -> Array:
    x, y = unify(input, other)
    return x + scaled(y, alpha)


@implements("sub", wide=True, complex=True, pointwise=True)
def sub(input: Operand, other: Operand, *, alpha: Scalar = 1) -> Array:
    x, y = unify(input, other)
    return x - scaled(y, alpha)


@implements("rsub", wide=True, complex=True, pointwise=True)
def rsub(input: Operand, other: Operand, *, alpha: Scalar = 1) -> Array:
    return sub(other, input, alpha=alpha)


def scaled(x: Array, alpha: Scalar) -> Array:
    """alpha · x without changing its dtype (and without touching the sign of a zero when alpha is
    1)."""
    return x if alpha == 1 else x * np.asarray(alpha).astype(x.dtype)


# --- division


@implements("div", wide=True, complex=True, pointwise=True)
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Array:
    """Division; `floor` rounds the exact quotient, `trunc` the one already rounded, as PyTorch
    does."""
    if rounding_mode is None:
        return np.true_divide(*unify(input, other, floating=True))
    x, y = unify(input, other)
    _refuse_zero(y)
    floored: Array = np.floor_divide(x, y)
    if rounding_mode == "floor":
        return floored
    if rounding_mode != "trunc":
        raise ValueError(f"rounding_mode must be None, 'trunc' or 'floor', not {rounding_mode!r}")
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    return np.asarray(floored + ((floored * y != x) & ((x < 0) != (y < 0))).astype(x.dtype))


@implements("floor_divide", wide=True, pointwise=True)
def floor_divide(input: Operand, other: Operand) -> Array:
    return div(input, other, rounding_mode="floor")


@implements("fmod", wide=True, pointwise=True)
def fmod(input: Operand, other: Operand) -> Array:
    x, y = unify(input, other)
    _refuse_zero(y)
    return np.fmod(x, y)


@implements("remainder", wide=True, pointwise=True)
def remainder(input: Operand, other: Operand) -> Array:
    """fmod moved into the range of the divisor's sign; unlike NumPy's, a zero keeps the sign of the
    dividend."""
    x, y = unify(input, other)
    _refuse_zero(y)
    rest = np.fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _refuse_zero(divisor: Array) -> None:
    if divisor.dtype.kind in "iu" and np.any(divisor == 0):
        raise ZeroDivisionError("integer division by zero")


# --- logic and bits


def _offer_logical(name: str, function: Callable[[Array, Array], Array]) -> None:
    @implements(name, wide=True, pointwise=True)
    def call(input: Array, other: Array) -> Array:
        return function(*unify(input, other))


for _name, _function in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}.items():
    _offer_logical(f"logical_{_name}", _function)


def _offer_shift(name: str, function: Callable[[Array, Array], Array]) -> None:
    @implements(name, wide=True, pointwise=True)
    def call(input: Operand, other: Operand) -> Array:
        x, y = unify(input, other)
        if np.any(y < 0) or np.any(y >= 8 * x.dtype.itemsize):
            raise NotImplementedError("shifting by a negative number of bits or by all of them")
        return function(x, y)


for _name, _function in {"left": np.left_shift, "right": np.right_shift}.items():
    _offer_shift(f"bitwise_{_name}_shift", _function)
