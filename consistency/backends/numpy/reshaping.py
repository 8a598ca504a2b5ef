"""Other shapes of the same elements, and repetitions of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import axis, count, sizes
from consistency.backends.numpy.dtypes import Array, Dims
from consistency.backends.numpy.implementations import implements


@implements("reshape", wide=True, complex=True)
def reshape(input: Array, shape: Sequence[int]) -> Array:
    return input.reshape(shape)


@implements("view", wide=True, complex=True, native_half=True)
def view(input: Array, *size: Any) -> Array:
    if size and isinstance(size[0], str):
        # bfloat16 is float32 here, long numbers are not the case's, and fractions get its format.
        is_longer = input.dtype.kind in "fc" and size[0] in ("float64", "complex128")
        if size[0] == "bfloat16" or input.dtype.char in "gG" or is_longer:
            raise NotImplementedError(f"view of {input.dtype} as {size[0]}")
        return input.view(size[0])
    return input.reshape(sizes(*size))


@implements("reshape_as", "view_as", wide=True, complex=True, native_half=True)
def reshape_as(input: Array, other: Array) -> Array:
    return input.reshape(other.shape)


@implements("flatten", wide=True, complex=True)
def flatten(input: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if input.ndim == 0:
        return input.reshape(1)
    first, last = axis(start_dim, input.ndim), axis(end_dim, input.ndim)
    return input.reshape(
        *input.shape[:first], count(input.shape[first : last + 1]), *input.shape[last + 1 :]
    )


@implements("ravel", wide=True, complex=True)
def ravel(input: Array) -> Array:
    return input.reshape(-1)


@implements("unflatten", wide=True, complex=True)
def unflatten(input: Array, dim: int, sizes: Sequence[int]) -> Array:
    where = axis(dim, input.ndim)
    return input.reshape(*input.shape[:where], *sizes, *input.shape[where + 1 :])


@implements("squeeze", wide=True, complex=True)
def squeeze(input: Array, dim: Dims = None) -> Array:
    if not input.ndim:
        return input
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(
        input, tuple(d for d in (axis(one, input.ndim) for one in dims) if input.shape[d] == 1)
    )


@implements("unsqueeze", wide=True, complex=True)
def unsqueeze(input: Array, dim: int) -> Array:
    return np.expand_dims(input, dim)


@implements("broadcast_to", wide=True, complex=True)
def broadcast_to(input: Array, size: Sequence[int]) -> Array:
    return expand(input, size)


@implements("expand", wide=True, complex=True)
def expand(input: Array, *size: int | Sequence[int]) -> Array:
    """−1 keeps the size of a dimension."""
    shape = sizes(*size)
    source_shape = (1,) * (len(shape) - input.ndim) + input.shape
    return np.broadcast_to(
        input,
        [have if want == -1 else want for want, have in zip(shape, source_shape, strict=True)],
    )


@implements("expand_as", wide=True, complex=True, native_half=True)
def expand_as(input: Array, other: Array) -> Array:
    return np.broadcast_to(input, other.shape)


@implements("broadcast_tensors", wide=True, complex=True, native_half=True)
def broadcast_tensors(*tensors: Array) -> tuple[Array, ...]:
    return tuple(np.broadcast_arrays(*tensors))


@implements("clone", "contiguous", wide=True, complex=True)
def clone(input: Array, *, memory_format: object = None) -> Array:
    return input.copy()


def _offer_minimum_rank(ndim: int, function: Callable[..., Any]) -> None:
    @implements(f"atleast_{ndim}d", wide=True, complex=True, native_half=True)
    def call(*tensors: Array | Sequence[Array]) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], np.ndarray):
            return function(tensors[0])
        return tuple(function(one) for one in (tensors[0] if len(tensors) == 1 else tensors))


for _ndim, _minimum_rank in enumerate((np.atleast_1d, np.atleast_2d, np.atleast_3d), 1):
    _offer_minimum_rank(_ndim, _minimum_rank)


@implements("tile", wide=True, complex=True)
def tile(input: Array, dims: Sequence[int]) -> Array:
    return np.tile(input, dims)


@implements("repeat", wide=True, complex=True)
def repeat(input: Array, *repeats: int | Sequence[int]) -> Array:
    return np.tile(input, sizes(*repeats))


@implements("repeat_interleave", wide=True, complex=True)
def repeat_interleave(
    input: Array, repeats: int | Array, dim: int | None = None, *, output_size: int | None = None
) -> Array:
    return np.repeat(input if input.ndim else input.reshape(1), repeats, dim)
