"""Joining tensors and splitting them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dtypes import Array, result_type
from consistency.backends.numpy.implementations import implements


def _alike(tensors: Sequence[Array]) -> list[Array]:
    dtype = result_type(*tensors)
    return [one.astype(dtype, copy=False) for one in tensors]


@implements("cat", wide=True, complex=True)
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    alike = _alike(tensors)
    # An empty 1-d tensor joins anything.
    parts = [one for one in alike if one.shape != (0,)] or alike
    return np.concatenate(parts, dim)


@implements("stack", wide=True, complex=True)
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    return np.stack(_alike(tensors), dim)


def _offer_stack(name: str, function: Callable[..., Any]) -> None:
    @implements(name, wide=True, complex=True)
    def call(tensors: Sequence[Array]) -> Array:
        return np.asarray(function(_alike(tensors)))


_STACKS: dict[str, Callable[..., Any]] = {
    "hstack": np.hstack,
    "vstack": np.vstack,
    "dstack": np.dstack,
    "column_stack": np.column_stack,
}
for _name, _function in _STACKS.items():
    _offer_stack(_name, _function)


@implements("block_diag", wide=True, complex=True)
def block_diag(*tensors: Array) -> Array:
    blocks = [np.atleast_2d(one) for one in _alike(tensors)]
    result = np.zeros(np.sum([one.shape for one in blocks], axis=0), blocks[0].dtype)
    row = column = 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result


@implements("meshgrid", wide=True, complex=True)
def meshgrid(*tensors: Array | Sequence[Array], indexing: str = "ij") -> tuple[Array, ...]:
    arrays = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], np.ndarray) else tensors
    return tuple(np.meshgrid(*arrays, indexing="xy" if indexing == "xy" else "ij"))


@implements("cartesian_prod", wide=True, complex=True)
def cartesian_prod(*tensors: Array) -> Array:
    if len(tensors) == 1:
        return tensors[0]
    return np.stack([one.reshape(-1) for one in np.meshgrid(*tensors, indexing="ij")], -1)


# --- splitting


def _cut(x: Array, lengths: Sequence[int], dim: int) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(lengths)[:-1], dim)) if len(lengths) else ()


@implements("split_with_sizes", wide=True, complex=True)
def split_with_sizes(input: Array, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    return _cut(input, split_sizes, dim)


@implements("unsafe_split", wide=True, complex=True)
def unsafe_split(input: Array, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    return split(input, split_size, dim)


@implements("split", wide=True, complex=True)
def split(
    tensor: Array, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Array, ...]:
    """Pieces of the length asked for, of which the last may be shorter; or of the lengths
    listed."""
    if np.ndim(split_size_or_sections):
        return _cut(tensor, split_size_or_sections, dim)  # type: ignore[arg-type]
    length, piece = tensor.shape[dim], int(split_size_or_sections)  # type: ignore[arg-type]
    if not length or not piece:
        return (tensor,)
    return _cut(tensor, [min(piece, length - start) for start in range(0, length, piece)], dim)


@implements("chunk", "unsafe_chunk", wide=True, complex=True)
def chunk(input: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    return (
        split(input, -(-input.shape[dim] // chunks), dim) if input.shape[dim] else (input,) * chunks
    )


@implements("tensor_split", wide=True, complex=True)
def tensor_split(
    input: Array, indices_or_sections: int | Sequence[int] | Array, dim: int = 0
) -> tuple[Array, ...]:
    """Like np.array_split, except that indices count from the end when negative."""
    sections: Any = indices_or_sections
    if isinstance(sections, np.ndarray):
        sections = sections.tolist()
    return tuple(np.array_split(input, sections, dim))


def _offer_split(name: str, dim: Callable[[Array], int]) -> None:
    @implements(name, wide=True, complex=True)
    def call(input: Array, indices_or_sections: int | Sequence[int]) -> tuple[Array, ...]:
        return tensor_split(input, indices_or_sections, dim(input))


_offer_split("hsplit", lambda x: 0 if x.ndim == 1 else 1)
_offer_split("vsplit", lambda x: 0)
_offer_split("dsplit", lambda x: 2)


@implements("unbind", wide=True, complex=True)
def unbind(input: Array, dim: int = 0) -> tuple[Array, ...]:
    return tuple(np.moveaxis(input, dim, 0))
