"""Distinct elements, searching in sorted sequences, counting into bins."""

from typing import Any

import numpy as np

from consistency.backends.numpy.dtypes import (
    FLOAT,
    INDEX,
    Array,
    Operand,
    constant,
    is_integer,
    is_nan,
    unify,
)
from consistency.backends.numpy.implementations import implements


@implements("unique", wide=True)
def unique(
    input: Array,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Sorted whether asked or not. Every NaN is different from every other; slices that hold one
    come last, in their order."""
    slices = input.reshape(-1) if dim is None else np.moveaxis(input, dim, 0)
    unordered = is_nan(slices).any(axis=tuple(range(1, slices.ndim)))
    others, last = slices[~unordered], slices[unordered]
    inverse: Array = np.empty(len(slices), INDEX)
    counts: Array = np.zeros(0, INDEX)
    if len(others):
        # NumPy 1 and 2 disagree about the shape of the inverse.
        others, found, counts = np.unique(others, return_inverse=True, return_counts=True, axis=0)
        inverse[~unordered] = found.reshape(-1)
    inverse[unordered] = len(others) + np.arange(len(last))
    counts = np.concatenate((counts, np.ones(len(last), INDEX)))
    values = np.concatenate((others, last))
    values = values if dim is None else np.moveaxis(values, 0, dim)
    inverse = inverse.reshape(input.shape if dim is None else -1)
    results = [
        values,
        *([inverse.astype(INDEX)] if return_inverse else []),
        *([counts.astype(INDEX)] if return_counts else []),
    ]
    return results[0] if len(results) == 1 else tuple(results)


@implements("searchsorted", wide=True)
def searchsorted(
    sorted_sequence: Array,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    keys = np.asarray(input)
    if isinstance(input, np.ndarray) and is_integer(keys) and is_integer(sorted_sequence):
        # An array without dimensions is converted to the sequence's dtype, unlike a number.
        keys = unify(keys, sorted_sequence)[0]
    from_right = right or side == "right"
    sequence = (
        sorted_sequence if sorter is None else np.take_along_axis(sorted_sequence, sorter, -1)
    )
    if sequence.ndim == 1:
        positions = _search(sequence, keys, from_right)
    else:
        positions = np.empty(keys.shape, INDEX)
        for row in np.ndindex(*sequence.shape[:-1]):
            positions[row] = _search(sequence[row], keys[row], from_right)
    return np.asarray(positions).astype(np.int32 if out_int32 else INDEX)


def _search(sequence: Array, keys: Array, from_right: bool) -> Any:
    return np.searchsorted(sequence, keys, side="right" if from_right else "left")


@implements("bucketize", wide=True)
def bucketize(
    input: Operand, boundaries: Array, *, out_int32: bool = False, right: bool = False
) -> Array:
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@implements("isin", wide=True)
def isin(
    elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    x, tests = (np.asarray(one) for one in (elements, test_elements))
    matches: Array = (x[..., None] == tests.reshape(-1)).any(-1)
    return ~matches if invert else matches


@implements("bincount", double=True)
def bincount(input: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """Weights are added up in double; the result is only rounded to float32 if they were."""
    counts = np.bincount(input, weights, minlength)
    return counts.astype(FLOAT) if weights is not None and weights.dtype == FLOAT else counts


@implements("histc")
def histc(input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """Counts in equal bins, the last of which includes its upper edge; between bounds of 0, over
    the range of the data. Numbers that are all at equal bounds lie in the middle."""
    low, high = constant(min, input), constant(max, input)
    if low == high == 0 and input.size:
        low, high = input.min(), input.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        raise NotImplementedError("a histogram over an infinite range")
    inside = input[(input >= low) & (input <= high)]
    if low == high:
        low, high = low - 1, high + 1
    # Multiplied first, whole numbers of unit bins stay whole.
    bin = np.minimum(((inside - low) * bins / (high - low)).astype(INDEX), bins - 1)
    return np.bincount(bin, minlength=bins).astype(input.dtype)
