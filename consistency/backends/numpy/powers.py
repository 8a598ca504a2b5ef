"""Powers, steps, blends: the functions of two elements or more that are not plain arithmetic."""

import numpy as np

from consistency.backends.numpy.binary import scaled
from consistency.backends.numpy.dtypes import SINCE_2_5, Array, Operand, Scalar, unify
from consistency.backends.numpy.implementations import implements


@implements("pow", wide=True, pointwise=True)
def pow_(input: Operand, exponent: Operand) -> Array:
    x, y = unify(input, exponent)
    if x.dtype.kind in "iub" and np.any(y < 0):
        raise NotImplementedError("integers to negative powers")
    return np.power(x, y)


@implements("float_power", pointwise=True, native_half=True, double=True)
def float_power(input: Operand, exponent: Operand) -> Array:
    """Always in float64."""
    x, y = (np.asarray(one).astype(np.float64) for one in (input, exponent))
    return np.power(x, y)


@implements("ldexp", wide=True, pointwise=True)
def ldexp(input: Operand, other: Operand) -> Array:
    """input · 2**other, where other need not be an integer."""
    if not SINCE_2_5:
        raise NotImplementedError("half precision becomes float32 in torch before 2.5")
    x, y = unify(input, other, floating=True)
    whole = np.asarray(other)
    if whole.dtype.kind == "u":
        whole = np.minimum(whole, np.uint64(np.iinfo(np.int32).max)).astype(np.int64)  # as infinite
    if whole.dtype.kind == "i" and x.dtype.kind == "f":
        return np.asarray(np.ldexp(x, whole))  # exact, also where the power leaves the format
    dtype = x.dtype
    if dtype.kind != "f":
        return x * np.exp2(y)
    # np.exp2 errs by more than 2 ulp of float32.
    wide = np.promote_types(x.dtype, np.float64)
    x, y = x.astype(wide), y.astype(wide)
    finite = np.isfinite(y)
    # Beyond 2²⁰ the power is infinite or 0 in every format; int32 holds such exponents.
    power = np.clip(np.where(finite, y, 0), -(2.0**20), 2.0**20)
    floor = np.floor(power)
    mantissa, exponent = np.frexp(x)
    scaled = np.ldexp(mantissa * np.exp2(power - floor), exponent + floor.astype(np.int32))
    return np.asarray(np.where(finite, scaled, x * np.exp2(y))).astype(dtype)


@implements("nextafter", native_half=True, pointwise=True)
def nextafter(input: Array, other: Array) -> Array:
    return np.nextafter(*unify(input, other))


@implements("heaviside", wide=True, pointwise=True)
def heaviside(input: Array, values: Array) -> Array:
    """0, `values` or 1. NaN is not above zero, so it gives 0 as in PyTorch (NumPy's gives NaN)."""
    x, at_zero = unify(input, values)
    return np.where(x == 0, at_zero, (x > 0).astype(x.dtype))


@implements("lerp", wide=True, pointwise=True)
def lerp(input: Array, end: Array, weight: Array | float) -> Array:
    """Measured from the nearer end, so that weight 1 gives `end` exactly."""
    x, y = unify(input, end)
    w = np.asarray(weight).astype(x.dtype)
    return np.asarray(np.where(np.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w)))


@implements("addcmul", wide=True, pointwise=True)
def addcmul(input: Array, tensor1: Array, tensor2: Array, *, value: Scalar = 1) -> Array:
    x, y, z = unify(input, tensor1, tensor2)
    return np.asarray(x + scaled(y, value) * z)


@implements("addcdiv", wide=True, pointwise=True)
def addcdiv(input: Array, tensor1: Array, tensor2: Array, *, value: Scalar = 1) -> Array:
    x, y, z = unify(input, tensor1, tensor2)
    if x.dtype.kind in "iub":
        raise NotImplementedError("addcdiv of integers")
    return x + scaled(y, value) / z
