"""Dimensions: how PyTorch counts them, and one shape for every reduction."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from consistency.backends.numpy.dtypes import Array, Dims, constant


def axis(dim: int, ndim: int) -> int:
    """A dimension counted from 0. A 0-d tensor is indexed as if it had one dimension."""
    extent = max(ndim, 1)
    if not -extent <= dim < extent:
        raise IndexError(f"dimension {dim} is out of range for a tensor of {ndim} dimensions")
    return dim % extent


def axes(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions a reduction runs over: None and () mean all of them."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    requested = [dim] if isinstance(dim, int) else list(dim)
    return tuple(axis(one, ndim) for one in requested)


def fold_rows(x: Array, dim: Dims, keepdim: bool) -> tuple[Array, tuple[int, ...]]:
    """The reduced dimensions flattened into a contiguous last one, and the shape that the result
    must have.

    A reduction along the contiguous last axis is the one place where NumPy sums pairwise; along
    another it adds one by one and loses √n more. There are always at least two dimensions (why: see
    `pointwise` of `implements`).
    """
    reduced = axes(dim, x.ndim)
    remaining = [d for d in range(x.ndim) if d not in reduced]
    outer = tuple(x.shape[d] for d in remaining)
    order = (*remaining, *(d for d in reduced if d < x.ndim))
    length = count(x.shape[d] for d in order[len(remaining) :])
    rows = np.ascontiguousarray(x.transpose(order)).reshape(*(outer or (1,)), length)
    return rows, tuple(
        1 if d in reduced else size for d, size in enumerate(x.shape)
    ) if keepdim else outer


def reduce_rows(x: Array, dim: Dims, keepdim: bool, kernel: Callable[[Array], Array]) -> Array:
    """Apply `kernel`, which reduces the last axis, over `dim`."""
    rows, shape = fold_rows(x, dim, keepdim)
    return kernel(rows).reshape(shape)


def reduce_rows_to_pair(
    x: Array, dim: Dims, keepdim: bool, kernel: Callable[[Array], tuple[Array, Array]]
) -> tuple[Array, Array]:
    """The same for a kernel with two results."""
    rows, shape = fold_rows(x, dim, keepdim)
    first, second = kernel(rows)
    return first.reshape(shape), second.reshape(shape)


def row_sum(rows: Array) -> Array:
    return np.asarray(rows.sum(-1, dtype=rows.dtype if rows.dtype.kind != "b" else None))


def row_mean(rows: Array) -> Array:
    return np.asarray(row_sum(rows) / constant(rows.shape[-1], rows))


def along(x: Array, dim: int, kernel: Callable[[Array], Array]) -> Array:
    """Apply `kernel`, which maps a contiguous last axis to one of any length, along `dim`."""
    return along_to_pair(x, dim, lambda lines: (result := kernel(lines), result))[0]


def along_to_pair(
    x: Array, dim: int, kernel: Callable[[Array], tuple[Array, Array]]
) -> tuple[Array, Array]:
    """The same for a kernel with two results."""
    if x.ndim == 0:
        first, second = kernel(x.reshape(1))
        return first.reshape(()), second.reshape(())
    where = axis(dim, x.ndim)
    first, second = kernel(np.ascontiguousarray(np.moveaxis(x, where, -1)))
    return np.moveaxis(first, -1, where), np.moveaxis(second, -1, where)


def count(sizes: Iterable[int]) -> int:
    """The number of elements of a shape: 1 for an empty one."""
    return math.prod(sizes)


def sizes(*shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape written as `2, 3` or as `(2, 3)`."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        return tuple(shape[0])
    return tuple(one for one in shape if isinstance(one, int))


def per_dimension(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """A kernel size, stride … for each spatial dimension; `3` or `(3,)` apply to all of them."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * count if len(values) == 1 else values
