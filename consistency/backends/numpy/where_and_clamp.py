"""Choosing between elements, bounding and comparing them."""

from typing import Any

import numpy as np

from consistency.backends.numpy.dtypes import (
    Array,
    Operand,
    constant,
    floating,
    is_nan,
    result_type,
    unify,
)
from consistency.backends.numpy.implementations import implements


@implements("where", wide=True, complex=True, pointwise=True)
def where(condition: Array, input: Operand, other: Operand) -> Array:
    x, y = unify(input, other)
    return np.where(condition.astype(np.bool_), x, y)


def _bound(value: Operand, dtype: np.dtype[Any]) -> Array:
    """A bound in the dtype of the result; no number without a sign is below 0."""
    bound = np.asarray(value)
    return (np.maximum(bound, 0) if dtype.kind == "u" else bound).astype(dtype)


@implements("clamp", wide=True, pointwise=True)
def clamp(input: Array, min: Operand | None = None, max: Operand | None = None) -> Array:
    """min(max(x, low), high): high wins where the bounds cross, NaN stays."""
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        raise ValueError("clamp needs min, max or both")
    dtype = result_type(input, *bounds)
    x = input.astype(dtype)
    if min is not None:
        x = np.maximum(x, _bound(min, dtype))
    return x if max is None else np.minimum(x, _bound(max, dtype))


@implements("clamp_min", wide=True, pointwise=True)
def clamp_min(input: Array, min: Operand) -> Array:
    return clamp(input, min=min)


@implements("clamp_max", wide=True, pointwise=True)
def clamp_max(input: Array, max: Operand) -> Array:
    return clamp(input, max=max)


@implements("isclose", wide=True, pointwise=True)
def isclose(
    input: Array, other: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    x, y = (floating(one) for one in unify(input, other))
    distance = np.abs(x - y)
    allowed = constant(atol, x) + np.abs(constant(rtol, x) * y)
    close: Array = (x == y) | (np.isfinite(distance) & (distance <= allowed))
    return close | (is_nan(x) & is_nan(y)) if equal_nan else close
