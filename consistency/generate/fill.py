"""Arrays of numbers of a value class, rounded once to their dtype."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.bits import array_dtype
from ..core.dtypes import FORMATS, INTEGER_RANGE, PARTS
from ..errors import RecipeError
from . import bitstream
from .value_classes import CLASSES, PATTERN_CLASSES, SPECIAL, Array, Raw


def fill(
    n: int,
    dtype: str,
    values: tuple[Any, ...],
    stop: int,
    special: tuple[tuple[int, str], ...] = (),
) -> Raw:
    """``n`` numbers of a value class as a NumPy array; bfloat16 comes as its uint16 bit patterns.

    Complex numbers take their real parts from the window itself and their imaginary parts from the
    ``n`` elements before it, which are the first to become blank. Special values at ``n … 2n - 1``
    are those of imaginary parts. Raises RecipeError for an unknown class, dtype, or parameters that
    make no sense.
    """
    if dtype in PARTS:
        return _complex(n, dtype, values, stop, special)
    if not values or not isinstance(values[0], str) or values[0] not in CLASSES:
        raise RecipeError(f"unknown value class {values[:1]!r:.60}; known: {', '.join(CLASSES)}")
    form = FORMATS.get(dtype)
    if form is None and dtype not in INTEGER_RANGE:
        raise RecipeError(
            f"tensors of dtype {dtype!r:.40} cannot be drawn; known: "
            f"{', '.join((*FORMATS, *INTEGER_RANGE, *PARTS))}"
        )
    bits, blanks = bitstream.window(n, stop)
    try:
        with np.errstate(all="ignore"):
            numbers = CLASSES[values[0]](
                bits,
                blanks,
                stop - bits.size + 1,
                form or FORMATS["float64"],
                *_checked(values[1:]),
            )
    except (TypeError, ValueError, OverflowError) as error:
        raise RecipeError(f"bad parameters of value class {list(values)!r:.80}: {error}") from None
    if values[0] in PATTERN_CLASSES:
        if form is None or special:
            refused = "special values" if form is not None else f"dtype {dtype}"
            raise RecipeError(f"value class {values[0]} does not go with {refused}")
        return numbers.view(array_dtype(dtype))
    if special:
        if form is None:
            raise RecipeError(f"special values in a tensor of dtype {dtype}, which holds none")
        numbers = np.asarray(
            numbers, dtype=np.float64
        )  # whole numbers come as int64, which holds no NaN
    for index, token in special:
        if token not in SPECIAL:
            raise RecipeError(f"unknown special value {token!r:.40}; known: {', '.join(SPECIAL)}")
        if not -n <= index < n:
            raise RecipeError(f"special value at position {index} of a tensor with {n} elements")
        numbers[index] = SPECIAL[token](form or FORMATS["float64"])
    return rounded_to_dtype(numbers, dtype)


def _complex(
    n: int, dtype: str, values: tuple[Any, ...], stop: int, special: tuple[tuple[int, str], ...]
) -> Raw:
    for index, _ in special:
        if not -n <= index < 2 * n:
            raise RecipeError(f"special value at position {index} of {n} complex numbers")
    window = stop, stop - n
    numbers = np.empty(n, dtype=dtype)
    if values[:1] == ("positive-definite",) and not special:
        small = (fill(n, "int64", ("integers", -3, 3), end).astype(np.float64) for end in window)
        numbers[:] = _hermitian(next(small) + 1j * next(small), *_checked(values[1:]))
        return numbers
    numbers.real = fill(
        n, PARTS[dtype], values, window[0], tuple((i, token) for i, token in special if i < n)
    )
    numbers.imag = fill(
        n, PARTS[dtype], values, window[1], tuple((i - n, token) for i, token in special if i >= n)
    )
    return numbers


def _hermitian(small: Raw, size: int, exponent: int = 0) -> Raw:
    """M·Mᴴ + size·I of whole numbers (exact), scaled by 1/8 and by 2 to the ``exponent``: what
    ``positive-definite`` is among complex numbers."""
    blocks = small.reshape(-1, size, size)
    product: Raw = blocks @ blocks.conj().swapaxes(-1, -2) + size * np.eye(size)
    return product.reshape(-1) * 2.0 ** (exponent - 3)


def _checked(parameters: tuple[Any, ...]) -> tuple[Any, ...]:
    """The parameters of a value class, which are finite numbers and names."""
    for value in parameters:
        if not isinstance(value, str) and not (
            isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
        ):
            raise ValueError(f"{value!r:.40} is neither a finite number nor a name")
    return parameters


def rounded_to_dtype(numbers: Raw, dtype: str) -> Raw:
    """Numbers as an array of ``dtype``: rounded to nearest, whole numbers clipped to its range."""
    if dtype == "bfloat16":
        return to_bfloat16(numbers)
    if dtype in FORMATS:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return numbers.astype(dtype)
    if dtype == numbers.dtype.name:
        return numbers
    low, high = INTEGER_RANGE[dtype]
    if numbers.dtype == np.uint64:
        return np.minimum(numbers, np.uint64(high)).astype(dtype)
    if numbers.dtype == np.float64:
        low, high = max(low, -(2**62)), min(high, 2**62)  # float64 has no 2⁶³ − 1
        numbers = np.nan_to_num(np.rint(numbers), nan=0.0, posinf=float(high), neginf=float(low))
    else:
        high = min(high, 2**63 - 1)
    return np.clip(numbers, low, high).astype(dtype)


def to_bfloat16(numbers: Array) -> npt.NDArray[np.uint16]:
    """Round to nearest even on the bits of the float32 value (float64 is first rounded to odd, so
    nothing rounds twice)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = numbers.astype(np.float32)
        back = single.astype(np.float64)
        inexact = (back != numbers) & np.isfinite(single)
        bits = single.view(np.uint32).copy()
        # Where rounding to float32 went away from zero step back, then set the sticky bit: rounding
        # to odd.
        bits[inexact & (np.abs(back) > np.abs(numbers))] -= np.uint32(1)
        bits[inexact] |= np.uint32(1)
    nan = np.isnan(single)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(nan, (bits >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)
