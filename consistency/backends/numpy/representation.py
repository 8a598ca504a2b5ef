"""Functions that look at how a number is represented: its sign, kind, parts, bits and dtype."""

from collections.abc import Callable

import numpy as np

from consistency.backends.numpy.dtypes import FLOAT, Array, constant, is_nan
from consistency.backends.numpy.implementations import implements


@implements("signbit", wide=True, pointwise=True)
def signbit(input: Array) -> Array:
    return np.signbit(input) if input.dtype.kind == "f" else input < 0


@implements("nan_to_num", native_half=True, pointwise=True)
def nan_to_num(
    input: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    if input.dtype.kind != "f":
        return input.copy()
    limits = np.finfo(input.dtype)
    highest = constant(limits.max if posinf is None else posinf, input)
    lowest = constant(limits.min if neginf is None else neginf, input)
    result = np.where(is_nan(input), constant(0.0 if nan is None else nan, input), input)
    return np.where(input == np.inf, highest, np.where(input == -np.inf, lowest, result))


@implements("frexp", native_half=True, pointwise=True)
def frexp(input: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(input)
    return mantissa, exponent.astype(np.int32)


@implements("conj", "conj_physical", wide=True, complex=True, pointwise=True)
def conj(input: Array) -> Array:
    return (
        np.conj(input) if input.dtype.kind == "c" else input.copy()
    )  # np.conj makes integers of booleans


@implements("resolve_conj", "resolve_neg", wide=True, complex=True, pointwise=True)
def resolve(input: Array) -> Array:
    """Nothing is lazy here."""
    return input.copy()


@implements("real", wide=True, complex=True, pointwise=True)
def real(input: Array) -> Array:
    return input.real


@implements("imag", wide=True, complex=True, pointwise=True)
def imag(input: Array) -> Array:
    if input.dtype.kind != "c":
        raise NotImplementedError("imag is only defined for complex tensors")
    return input.imag


_PREDICATES: dict[str, Callable[[Array], Array]] = {
    "isnan": is_nan,
    "isinf": lambda x: np.abs(x) == np.inf,
    "isposinf": lambda x: x == np.inf,
    "isneginf": lambda x: x == -np.inf,
    "isfinite": lambda x: np.isfinite(x),
    "isreal": lambda x: np.isreal(x),
    "logical_not": np.logical_not,
}


def _offer_predicate(name: str, function: Callable[[Array], Array]) -> None:
    @implements(name, wide=True, pointwise=True)
    def call(input: Array) -> Array:
        return function(input)


for _name, _function in _PREDICATES.items():
    _offer_predicate(_name, _function)


@implements("bitwise_not", wide=True, pointwise=True)
def bitwise_not(input: Array) -> Array:
    return np.invert(input)


def _offer_cast(name: str, dtype: type) -> None:
    @implements(name, native_half=True, pointwise=True, double=dtype is np.float64)
    def call(input: Array, memory_format: object = None) -> Array:
        return input.astype(dtype)


_CASTS = {
    "bool": np.bool_,
    "byte": np.uint8,
    "char": np.int8,
    "short": np.int16,
    "int": np.int32,
    "long": np.int64,
    "half": np.float16,
    "float": FLOAT.type,
    "double": np.float64,
}
for _name, _dtype in _CASTS.items():
    _offer_cast(_name, _dtype)
