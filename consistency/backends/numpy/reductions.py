"""Sums, products, moments, norms and truth over dimensions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import (
    reduce_rows,
    reduce_rows_to_pair,
    row_mean,
    row_sum,
)
from consistency.backends.numpy.dtypes import (
    INDEX,
    Array,
    Dims,
    accumulated,
    as_dtype,
    constant,
    floating,
    is_nan,
)
from consistency.backends.numpy.implementations import implements


@implements("sum", wide=True, complex=True)
def sum_(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    return reduce_rows(accumulated(input, dtype), dim, keepdim, row_sum)


@implements("nansum", wide=True)
def nansum(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    return sum_(np.where(is_nan(input), constant(0, input), input), dim, keepdim, dtype=dtype)


@implements("mean", wide=True, complex=True)
def mean(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    x = input.astype(as_dtype(dtype, input.dtype), copy=False)
    if x.dtype.kind in "iub":
        raise NotImplementedError("mean of integers")
    return reduce_rows(x, dim, keepdim, row_mean)


@implements("nanmean", wide=True)
def nanmean(
    input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    counts = reduce_rows(~is_nan(input), dim, keepdim, row_sum)
    total = nansum(input, dim, keepdim, dtype=dtype)
    return np.asarray(total / counts.astype(total.dtype))


@implements("prod", wide=True, complex=True)
def prod(
    input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    return reduce_rows(
        accumulated(input, dtype), dim, keepdim, lambda rows: rows.prod(-1, dtype=rows.dtype)
    )


@implements("amax", wide=True)
def amax(input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return reduce_rows(input, dim, keepdim, lambda rows: rows.max(-1))


@implements("amin", wide=True)
def amin(input: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return reduce_rows(input, dim, keepdim, lambda rows: rows.min(-1))


@implements("aminmax", wide=True)
def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


@implements("logsumexp", wide=True)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False) -> Array:
    return reduce_rows(floating(input), dim, keepdim, row_logsumexp)


def row_logsumexp(rows: Array) -> Array:
    if rows.shape[-1] == 0:
        return np.full(rows.shape[:-1], -np.inf, rows.dtype)
    top = rows.max(-1, keepdims=True)
    shift = np.where(np.abs(top) < np.inf, top, constant(0, rows))
    return shift[..., 0] + row_log_total(rows, shift)


def row_log_total(rows: Array, shift: Array) -> Array:
    """log Σ exp(x − shift); where the largest term is 1, log1p of the others: exact when one
    element dominates."""
    terms = np.exp(rows - shift)
    where_top = terms.argmax(-1)[..., None]
    top = np.take_along_axis(terms, where_top, -1)[..., 0]
    np.put_along_axis(terms, where_top, constant(0, terms), -1)
    total = row_sum(terms)
    return np.where(top == 1, np.log1p(total), np.log(top + total))


# --- moments


def row_variance(rows: Array, correction: float) -> tuple[Array, Array]:
    """Variance and mean in two passes; the second subtracts the rounding error of the mean (Chan et
    al. 1983)."""
    length = rows.shape[-1]
    center = row_mean(rows)
    distance = rows - center[..., None]
    mean_correction = row_sum(distance) ** 2 / constant(length, rows)
    squares = row_sum(distance * distance)
    squares = np.where(
        squares == np.inf, squares, np.maximum(squares - mean_correction, constant(0, rows))
    )
    return np.asarray(squares / constant(max(length - correction, 0), rows)), center


def row_deviation(rows: Array, correction: float) -> tuple[Array, Array]:
    """Standard deviation and mean of rows that are first brought near one by a power of two, so
    that squares neither leave the format nor vanish where the deviation does not."""
    if rows.dtype.kind != "f":
        variance, center = row_variance(rows, correction)
        return np.sqrt(variance), center
    largest = np.max(np.abs(rows), axis=-1, initial=0.0)
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1]
    variance, center = row_variance(np.ldexp(rows, -exponent[..., None]), correction)
    return np.ldexp(np.sqrt(variance), exponent), np.ldexp(center, exponent)


Moments = Callable[[Array, float], tuple[Array, Array]]


def _moments(
    moments: Moments,
    input: Array,
    dim: Dims | bool,
    unbiased: bool | None,
    keepdim: bool,
    correction: float | None,
) -> tuple[Array, Array]:
    if input.dtype.kind not in "fO":
        raise NotImplementedError("variance of integers")
    if isinstance(dim, bool):  # var(input, unbiased)
        dim, unbiased = None, dim
    default = 0 if unbiased is False else 1
    chosen = default if correction is None else correction
    return reduce_rows_to_pair(input, dim, keepdim, lambda rows: moments(rows, chosen))


def _offer_moments(name: str, moments: Moments, *, both: bool) -> None:
    @implements(name, wide=True)
    def call(
        input: Array,
        dim: Dims | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        spread, center = _moments(moments, input, dim, unbiased, keepdim, correction)
        return (spread, center) if both else spread


_offer_moments("var", row_variance, both=False)
_offer_moments("std", row_deviation, both=False)
_offer_moments("var_mean", row_variance, both=True)
_offer_moments("std_mean", row_deviation, both=True)


# --- norms


def row_norm(rows: Array, order: float) -> Array:
    size = np.abs(rows)
    if order == 0:
        return row_sum(rows != 0).astype(size.dtype)
    if order == 1:
        return row_sum(size)
    if abs(order) == np.inf:
        if not rows.shape[-1]:
            return np.zeros(rows.shape[:-1], size.dtype)
        return np.asarray(size.max(-1) if order > 0 else size.min(-1))
    if order == 2 and size.dtype.kind != "O":
        # Divided by a power of two near the largest, which is exact, so that the squares neither
        # overflow nor vanish.
        exponent = np.frexp(size.max(-1, keepdims=True, initial=0))[1]
        return np.asarray(
            np.ldexp(np.sqrt(row_sum(np.ldexp(size, -exponent) ** 2)), exponent[..., 0])
        )
    power = constant(order, size)
    return np.power(row_sum(np.power(size, power)), constant(1, size) / power)


@implements("linalg.vector_norm", wide=True, complex=True)
def vector_norm(
    x: Array, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    x = x.astype(as_dtype(dtype, x.dtype), copy=False)
    return reduce_rows(x, dim, keepdim, lambda rows: row_norm(rows, ord))


@implements("norm", wide=True, complex=True)
def norm(
    input: Array,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: None = None,
    dtype: str | None = None,
) -> Array:
    if p == "nuc":
        raise NotImplementedError("the nuclear norm")
    return vector_norm(input, 2 if p in ("fro", None) else float(p or 0), dim, keepdim, dtype=dtype)


@implements("dist", wide=True)
def dist(input: Array, other: Array, p: float = 2) -> Array:
    return vector_norm(floating(input - other), p)


# --- truth and counts


def _offer_truth(name: str, kernel: Callable[[Array], Any]) -> None:
    @implements(name, wide=True, complex=True)
    def call(input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        # uint8 stood for booleans before PyTorch had them; and here, unlike in sums, dim=() reduces
        # nothing.
        dtype = input.dtype if input.dtype == np.uint8 else np.dtype(np.bool_)
        if isinstance(dim, Sequence) and not dim:
            return input.astype(np.bool_).astype(dtype)
        return reduce_rows(input.astype(np.bool_), dim, keepdim, kernel).astype(dtype)


_offer_truth("all", lambda rows: rows.all(-1))
_offer_truth("any", lambda rows: rows.any(-1))


@implements("count_nonzero", wide=True, complex=True)
def count_nonzero(input: Array, dim: Dims = None) -> Array:
    return reduce_rows(input != 0, dim, False, row_sum).astype(INDEX)
