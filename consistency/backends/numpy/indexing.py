"""Reading at positions given by other tensors."""

from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import axis
from consistency.backends.numpy.dtypes import INDEX, Array
from consistency.backends.numpy.implementations import implements


def not_negative(index: Array) -> Array:
    """NumPy counts negative positions from the end; PyTorch, except in `take`, `put` and
    `index_put`, refuses them."""
    if index.dtype.kind == "i" and np.any(index < 0):
        raise IndexError("index out of range: negative")
    return index


def spots_of(index: Array, dim: int, ndim: int) -> tuple[Array, ...]:
    """For every element of `index`, where it points: its own position, but `index` itself along
    `dim`."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis(dim, ndim)] = not_negative(index)
    return tuple(grid)


def lifted(*arrays: Array) -> list[Array]:
    """0-d tensors count as 1-d ones in indexed reads and writes."""
    return [np.atleast_1d(array) for array in arrays]


@implements("gather", wide=True, complex=True)
def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    if not index.size:
        return np.empty(index.shape, input.dtype)
    x, where = lifted(input, index)
    return np.asarray(x[spots_of(where, dim, x.ndim)]).reshape(index.shape)


@implements("index_select", wide=True, complex=True)
def index_select(input: Array, dim: int, index: Array) -> Array:
    x, where = lifted(input, index)
    chosen = np.take(x, not_negative(where), axis(dim, x.ndim))
    return chosen if input.ndim else chosen.reshape(())


@implements("take", wide=True, complex=True)
def take(input: Array, index: Array) -> Array:
    return np.asarray(input.reshape(-1)[index])


@implements("take_along_dim", wide=True, complex=True)
def take_along_dim(input: Array, indices: Array, dim: int | None = None) -> Array:
    if dim is None:
        return take(input, indices.reshape(-1))
    x, where = np.moveaxis(input, dim, -1), np.moveaxis(indices, dim, -1)
    if x.shape[-1]:
        where = where % x.shape[-1]  # as torch takes them
    outer = np.broadcast_shapes(x.shape[:-1], where.shape[:-1])
    x, where = (np.broadcast_to(one, (*outer, one.shape[-1])) for one in (x, where))
    return np.moveaxis(np.take_along_axis(x, where, -1), -1, dim)


@implements("masked_select", wide=True, complex=True)
def masked_select(input: Array, mask: Array) -> Array:
    x, chosen = np.broadcast_arrays(input, mask)
    return np.asarray(x[chosen])


@implements("nonzero", wide=True, complex=True)
def nonzero(input: Array, *, as_tuple: bool = False) -> Any:
    """One row for each non-zero element; as_tuple, one array for each dimension."""
    positions = np.argwhere(input).astype(INDEX)
    if not as_tuple:
        return positions
    return (
        tuple(np.atleast_2d(np.moveaxis(positions, -1, 0)))
        if input.ndim
        else tuple(np.nonzero(np.atleast_1d(input)))
    )


@implements("argwhere", wide=True, complex=True)
def argwhere(input: Array) -> Array:
    return np.asarray(nonzero(input))
