"""Writing one tensor into a part of another, out of place, and assembling tensors from parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import complex_numbers as c
from ..balls import Unknowable
from ..computed_positions import Deferred
from ..elementwise import node_of, to_real
from ..movement import Labels, Overlay, broadcast, reshape
from ..nodes import Constant, Node, whole_numbers
from . import entry
from .rearrangements import moved


def overlaid(
    below: Any,
    above: Any,
    labels: Labels | Callable[[], Labels],
    shape: tuple[int, ...] | None = None,
) -> Any:
    """``below`` with the elements at ``labels`` replaced by those of ``above``, broadcast to
    ``shape`` if given."""

    def of(x: Node, y: Node) -> Node:
        if x.kind != y.kind:
            x, y = to_real(x), to_real(y)
        if shape is not None and y.shape != shape:
            y = broadcast(y, Constant(np.zeros(shape)))[0]
        return Overlay(x, y, labels)

    return c.each(of, below, above)


def part(self: Any, take: Callable[[Labels], Labels]) -> Labels:
    """The flat positions of a part of a tensor."""
    return take(np.arange(self.size).reshape(self.shape)).reshape(-1)


@entry("select_scatter")
def select_scatter(self: Any, src: Any, dim: int, index: int) -> Any:
    return overlaid(self, src, part(self, lambda x: np.take(x, index, dim)))


@entry("slice_scatter")
def slice_scatter(
    self: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    return overlaid(
        self,
        src,
        part(self, lambda x: x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]),
    )


@entry("diagonal_scatter")
def diagonal_scatter(self: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return overlaid(self, src, part(self, lambda x: np.diagonal(x, offset, dim1, dim2)))


@entry("as_strided_scatter")
def as_strided_scatter(
    self: Any,
    src: Any,
    places: Labels,
    own_places: Labels,
    size: Any,
    stride: Any,
    storage_offset: Any,
) -> Any:
    """Elements are addressed by their position in the memory of ``self``."""
    if c.is_complex(self):  # two numbers each
        places, own_places = places[::2] // 2, own_places[::2] // 2
    if np.unique(places).size != places.size or np.unique(own_places).size != own_places.size:
        raise Unknowable("places that are written twice")
    owner = dict(zip(own_places.tolist(), range(own_places.size), strict=True))
    if not all(place in owner for place in places.tolist()):
        raise Unknowable("places that are no elements of the tensor")
    return overlaid(
        self, src, np.array([owner[place] for place in places.tolist()], dtype=np.int64)
    )


@entry("fill_diagonal")
def fill_diagonal(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """The main diagonal of all dimensions; with ``wrap`` it starts again below in tall matrices."""
    step = sum(math.prod(self.shape[d + 1 :]) for d in range(len(self.shape)))
    labels = np.arange(0, self.size, step)[: None if wrap else min(self.shape)]
    return overlaid(
        self,
        node_of(fill_value) if not isinstance(fill_value, complex) else c.pair(fill_value),
        labels,
        labels.shape,
    )


@entry("diag_embed")
def diag_embed(self: Any, result: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    shape = tuple(result.shape)
    labels = np.diagonal(np.arange(math.prod(shape)).reshape(shape), offset, dim1, dim2).reshape(-1)
    return overlaid(_zeros(self, shape), self, labels)


@entry("block_diag")
def block_diag(tensors: Any, result: Any) -> Any:
    """Matrices along the diagonal; vectors count as rows."""
    places = np.arange(math.prod(result.shape)).reshape(tuple(result.shape))
    matrix: Any = _zeros(tensors[0], tuple(result.shape))
    row = column = 0
    for tensor in tensors:
        h, w = (1,) * (2 - len(tensor.shape)) + tuple(tensor.shape)
        matrix = overlaid(matrix, tensor, places[row : row + h, column : column + w].reshape(-1))
        row, column = row + h, column + w
    return matrix


def _zeros(like: Any, shape: tuple[int, ...]) -> Node:
    kind = "real" if c.is_complex(like) else like.kind
    return Constant(
        np.zeros(shape, dtype={"real": np.float64, "int": np.int64, "bool": np.bool_}[kind])
    )


@entry("repeat_interleave")
def repeat_interleave(
    repeats: Any, result: Any, self: Any = None, dim: Any = None, output_size: Any = None
) -> Any:
    """For counts alone, the indices 0, 0, 1 …, each repeated by its count."""
    if self is None:
        return Deferred(
            tuple(result.shape), lambda: np.repeat(np.arange(repeats.size), whole_numbers(repeats))
        )
    counts = repeats if isinstance(repeats, int) else whole_numbers(repeats).reshape(-1)
    if dim is None:
        return moved(c.each(lambda x: reshape(x, (-1,)), self), lambda x: np.repeat(x, counts))
    return moved(self, lambda x: np.repeat(x, counts, dim))
