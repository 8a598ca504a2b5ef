"""Writing at positions given by other tensors, and combining what lands on the same spot."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import axis
from consistency.backends.numpy.dtypes import INDEX, Array, DType, Operand, Scalar
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.indexing import lifted, not_negative, spots_of


def subscript(dim: int, index: Any, ndim: int) -> tuple[Any, ...]:
    """The subscript that applies `index` along `dim`."""
    return (*[slice(None)] * axis(dim, ndim), index)


def _value(value: Operand, like: Array) -> Array:
    return np.asarray(value).astype(like.dtype)


_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "add": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "multiply": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}
_NEUTRAL: dict[str, float] = {"sum": 0, "mean": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}


def _neutral(reduce: str, dtype: DType) -> float:
    value = _NEUTRAL[reduce]
    if dtype.kind == "b":
        return value > 0
    if dtype.kind in "iu" and np.isinf(value):
        return int(np.iinfo(dtype).max if value > 0 else np.iinfo(dtype).min)
    return value


def _combined(
    x: Array, spots: tuple[Any, ...], values: Array, reduce: str, include_self: bool
) -> Array:
    """x with `values` combined into `spots`, one after the other; without include_self, x only
    where nothing lands."""
    result = x.copy()
    counts = np.zeros(x.shape, INDEX)
    np.add.at(counts, spots, 1)
    if not include_self:
        result[counts > 0] = _neutral(reduce, x.dtype)
    _COMBINE[reduce].at(result, spots, values)
    if reduce == "mean":
        shares = np.maximum(counts + (1 if include_self else 0), 1).astype(x.dtype)
        return np.asarray(
            np.floor_divide(result, shares) if x.dtype.kind in "iu" else result / shares
        )
    return result


@implements("scatter", wide=True, complex=True)
def scatter(
    input: Array,
    dim: int,
    index: Array,
    src: Operand | None = None,
    *,
    value: Scalar | None = None,
    reduce: str | None = None,
) -> Array:
    source = src if src is not None else value
    if source is None:
        raise ValueError("scatter needs src or value")
    if not index.size:  # whatever its shape
        return input.copy()
    x, where = lifted(input, index)
    values = _value(source, x)
    if isinstance(source, np.ndarray) and values.ndim:
        values = values[tuple(slice(size) for size in where.shape)]
    spots = spots_of(where, dim, x.ndim)
    if reduce is not None:
        return _combined(x, spots, values, reduce, include_self=True).reshape(input.shape)
    result = x.copy()
    result[spots] = values
    return result.reshape(input.shape)


@implements("scatter_add", wide=True, complex=True)
def scatter_add(input: Array, dim: int, index: Array, src: Array) -> Array:
    return scatter(input, dim, index, src, reduce="add")


@implements("scatter_reduce", wide=True)
def scatter_reduce(
    input: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Array:
    x, where, values = lifted(input, index, src)
    if not where.size:  # torch does not compare the shapes then
        return input.copy()
    values = values[tuple(slice(size) for size in where.shape)]
    return _combined(x, spots_of(where, dim, x.ndim), values, reduce, include_self).reshape(
        input.shape
    )


@implements("index_add", wide=True, complex=True)
def index_add(input: Array, dim: int, index: Array, source: Array, *, alpha: Scalar = 1) -> Array:
    x, where = lifted(input, index)
    result = x.copy()
    values = source if alpha == 1 else source * _value(alpha, source)
    np.add.at(result, subscript(dim, not_negative(where), x.ndim), values)
    return result.reshape(input.shape)


@implements("index_copy", wide=True, complex=True)
def index_copy(input: Array, dim: int, index: Array, source: Array) -> Array:
    x, where = lifted(input, index)
    result = x.copy()
    result[subscript(dim, not_negative(where), x.ndim)] = source
    return result.reshape(input.shape)


@implements("index_fill", wide=True, complex=True)
def index_fill(input: Array, dim: int, index: Array, value: Operand) -> Array:
    x, where = lifted(input, index)
    result = x.copy()
    result[subscript(dim, not_negative(where), x.ndim)] = _value(value, x)
    return result.reshape(input.shape)


@implements("index_reduce", wide=True)
def index_reduce(
    input: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Array:
    x, where = lifted(input, index)
    spots = subscript(dim, not_negative(where), x.ndim)
    return _combined(x, spots, source, reduce, include_self).reshape(input.shape)


@implements("index_put", wide=True, complex=True)
def index_put(
    input: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False
) -> Array:
    if any(one is None for one in indices):
        raise NotImplementedError("index_put with None among the indices")
    result = input.copy()
    spots: Any = tuple(indices)
    if accumulate:
        np.add.at(result, spots, _value(values, input))
    else:
        result[spots] = values
    return result


@implements("masked_fill", wide=True, complex=True)
def masked_fill(input: Array, mask: Array, value: Operand) -> Array:
    return np.where(mask, _value(value, input), input)


@implements("masked_scatter", wide=True, complex=True)
def masked_scatter(input: Array, mask: Array, source: Array) -> Array:
    result, chosen = (np.array(one) for one in np.broadcast_arrays(input, mask))
    result[chosen] = source.reshape(-1)[: np.count_nonzero(chosen)]
    return result


@implements("put", wide=True, complex=True)
def put(input: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    result = input.reshape(-1).copy()
    if accumulate:
        np.add.at(result, index.reshape(-1), source.reshape(-1))
    else:
        result[index.reshape(-1)] = source.reshape(-1)
    return result.reshape(input.shape)


@implements("select_scatter", wide=True, complex=True, native_half=True)
def select_scatter(input: Array, src: Array, dim: int, index: int) -> Array:
    result = input.copy()
    result[subscript(dim, index, input.ndim)] = src
    return result


@implements("slice_scatter", wide=True, complex=True, native_half=True)
def slice_scatter(
    input: Array,
    src: Array,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    result = input.copy()
    result[subscript(dim, slice(start, end, step), input.ndim)] = src
    return result


@implements("diagonal_scatter", wide=True, complex=True, native_half=True)
def diagonal_scatter(
    input: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    result = np.moveaxis(input, (dim1, dim2), (-2, -1)).copy()
    first = np.arange(src.shape[-1]) + max(-offset, 0)
    result[..., first, first + offset] = src
    return np.moveaxis(result, (-2, -1), (dim1, dim2))
