"""Permuted dimensions and reordered elements."""

from collections.abc import Sequence

import numpy as np

from consistency.backends.numpy.dimensions import axis, sizes
from consistency.backends.numpy.dtypes import Array, Dims
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.representation import conj


@implements("transpose", wide=True, complex=True)
def transpose(input: Array, dim0: int, dim1: int) -> Array:
    return input.swapaxes(dim0, dim1) if input.ndim else input


@implements("t", wide=True, complex=True)
def t(input: Array) -> Array:
    return input.T


@implements("T", wide=True, complex=True)
def reversed_dimensions(input: Array) -> Array:
    return input.T


@implements("mT", wide=True, complex=True)
def matrix_transpose(input: Array) -> Array:
    return input.swapaxes(-1, -2) if input.ndim else input


@implements("H", "mH", wide=True, complex=True)
def adjoint(input: Array) -> Array:
    return matrix_transpose(conj(input)) if input.ndim else conj(input)


@implements("permute", wide=True, complex=True)
def permute(input: Array, dims: Sequence[int]) -> Array:
    return input.transpose(dims)


@implements("movedim", wide=True, complex=True)
def movedim(input: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    return np.moveaxis(input, source, destination) if input.ndim else input


@implements("flip", wide=True, complex=True)
def flip(input: Array, *places: int | Sequence[int], dims: Sequence[int] = ()) -> Array:
    """`flip(x, (0, 1))`, and as a method `x.flip(0, 1)`."""
    return np.flip(input, sizes(*places) if places else tuple(dims)) if input.ndim else input


@implements("fliplr", wide=True, complex=True)
def fliplr(input: Array) -> Array:
    return np.fliplr(input)


@implements("flipud", wide=True, complex=True)
def flipud(input: Array) -> Array:
    return np.flipud(input)


@implements("rot90", wide=True, complex=True)
def rot90(input: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    return np.rot90(input, k, (dims[0], dims[1]))


@implements("roll", wide=True, complex=True)
def roll(input: Array, shifts: int | Sequence[int], dims: Dims = None) -> Array:
    if not input.ndim:
        return input
    return np.roll(input, shifts, None if dims is None or dims == () else dims)


@implements("narrow", "narrow_copy", wide=True, complex=True)
def narrow(input: Array, dim: int, start: int | Array, length: int) -> Array:
    first = int(start) % max(input.shape[dim], 1) if start < 0 else int(start)
    return np.take(input, range(first, first + length), dim)


@implements("select", wide=True, complex=True)
def select(input: Array, dim: int, index: int) -> Array:
    return np.asarray(np.take(input, index, dim))


@implements("unfold", wide=True, complex=True)
def unfold(input: Array, dimension: int, size: int, step: int) -> Array:
    if not input.ndim:
        return input.reshape(1)[:size]
    where = axis(dimension, input.ndim)
    starts = range(0, input.shape[where] - size + 1, step)
    lines = np.moveaxis(input, where, -1)
    pieces = lines[..., np.add.outer(np.asarray(starts, np.int64), np.arange(size))]
    return np.moveaxis(pieces, -2, where)
