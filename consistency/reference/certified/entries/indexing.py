"""Reading by indices and masks, and index searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import balls
from .. import complex_numbers as c
from .. import elementwise as e
from ..balls import Element, Elements, Unknowable, Unsure
from ..computed_positions import Deferred, wrapped
from ..movement import Labels, expand, gather
from ..nodes import Constant, Node, Positions, whole_numbers
from . import entry


def taken(self: Any, labels: Callable[[], Labels], shape: Sequence[int], *indices: Any) -> Any:
    """A tensor at flat positions computed from ``indices``: immediately if these are constants."""
    all_constant = all(isinstance(i, Constant) for i in indices)
    positions: Any = labels() if all_constant else _checked(labels, math.prod(shape))
    return c.each(lambda x: gather(x, positions, shape), self)


def _checked(labels: Callable[[], Labels], size: int) -> Callable[[], Labels]:
    def find() -> Labels:
        result = labels()
        if result.size != size:
            raise Unknowable(f"there are {result.size} places where the call gave {size}")
        return result

    return find


def positions(self: Any) -> Labels:
    """The flat positions of a tensor, in its shape."""
    return np.arange(self.size).reshape(self.shape)


def along(shape: Sequence[int], dim: int, index: Labels) -> Labels:
    """Flat positions in a tensor of ``shape`` of the elements selected by an index along one
    dimension (gather, scatter)."""
    if not shape:
        return np.zeros(index.size, dtype=np.int64)
    places = list(np.indices(index.shape, sparse=True)) if index.ndim else [index.reshape(1)]
    places[dim % len(shape)] = wrapped(index.reshape(index.shape or (1,)), shape[dim])
    return np.ravel_multi_index(np.broadcast_arrays(*places), tuple(shape)).reshape(-1)


@entry("gather")
def gather_(self: Any, dim: int, index: Any) -> Any:
    return taken(self, lambda: along(self.shape, dim, whole_numbers(index)), index.shape, index)


@entry("index_select")
def index_select(self: Any, dim: int, index: Any, result: Any) -> Any:
    def labels() -> Labels:
        where = whole_numbers(index).reshape(-1)
        return (
            np.take(positions(self), wrapped(where, self.shape[dim]), dim).reshape(-1)
            if self.shape
            else where
        )

    return taken(self, labels, tuple(result.shape), index)


@entry("take")
def take(self: Any, index: Any) -> Any:
    return taken(
        self, lambda: wrapped(whole_numbers(index), self.size).reshape(-1), index.shape, index
    )


def key_of(indices: Any) -> tuple[Any, ...]:
    """The NumPy key: positions, masks, and a full slice where there is no tensor."""
    return tuple(slice(None) if i is None else whole_numbers(i) for i in indices)


@entry("index", "_unsafe_index")
def index_(self: Any, indices: Any, result: Any) -> Any:
    present = [i for i in indices if i is not None]
    return taken(
        self, lambda: positions(self)[key_of(indices)].reshape(-1), tuple(result.shape), *present
    )


def chosen(mask: Any, shape: Sequence[int]) -> Labels:
    """The flat positions in ``shape`` where a mask that is broadcast to it holds."""
    return np.flatnonzero(np.broadcast_to(whole_numbers(mask), tuple(shape)))


@entry("masked_select")
def masked_select(self: Any, mask: Any, result: Any) -> Any:
    shape = np.broadcast_shapes(self.shape, mask.shape)
    expanded = c.each(lambda x: expand(x, shape), self)
    return taken(expanded, lambda: chosen(mask, shape), tuple(result.shape), mask)


def truth(x: Any) -> Node:
    return e.or_(e.truth(x.re), e.truth(x.im)) if c.is_complex(x) else e.truth(x)


@entry("nonzero", "argwhere")
def nonzero(self: Any, result: Any) -> Any:
    return Deferred(tuple(result.shape), lambda: np.argwhere(whole_numbers(truth(self))))


@entry("nonzero_static")
def nonzero_static(self: Any, result: Any, size: int, fill_value: int = -1) -> Any:
    def places() -> Labels:
        found = np.argwhere(whole_numbers(truth(self)))[:size]
        rest = np.full((size - len(found), self.ndim), fill_value, dtype=np.int64)
        return np.concatenate([found, rest])

    return Deferred(tuple(result.shape), places)


@entry("nonzero_numpy")
def nonzero_numpy(self: Any, result: Any) -> Any:
    mask = truth(self)

    def of(dim: int, shape: Sequence[int]) -> Node:
        return Deferred(shape, lambda: np.nonzero(whole_numbers(mask))[dim])

    return [of(dim, tuple(r.shape)) for dim, r in enumerate(result)]


class CountBelow(Node):
    """The number of the row's ascending elements below a value; with ``right`` also those equal to
    it."""

    kind = "int"

    def __init__(self, rows: Node, values: Node, right: bool) -> None:
        super().__init__(values.shape, (rows, values))
        self.right = right

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        rows, values = self.inputs
        width = rows.shape[-1]
        row = np.zeros_like(positions) if rows.ndim == 1 else positions // max(values.shape[-1], 1)
        return row[:, None] * width + np.arange(width), positions

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return [
            self._count(row, value)
            for row, value in zip(given[0].tolist(), given[1].tolist(), strict=True)
        ]

    def _count(self, row: list[Element], value: Element) -> int:
        value = balls.real(value)
        low, high = 0, len(row)
        while low < high:
            middle = (low + high) // 2
            passed = _below(balls.real(row[middle]), value, self.right)
            low, high = (middle + 1, high) if passed else (low, middle)
        return low


def _below(a: Element, b: Element, inclusive: bool) -> bool:
    for x in (a, b):
        if type(x) is float and x != x:
            raise Unknowable("NaN among numbers in ascending order")
    result = balls.less(b, a) if inclusive else balls.less(a, b)
    if result is None:
        raise Unsure("a comparison that balls do not decide")
    return not result if inclusive else result


@entry("searchsorted")
def searchsorted(
    sorted_sequence: Any,
    self: Any,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
    out_int32: bool = False,
) -> Any:
    if sorter is not None:
        where = along(sorter.shape, -1, whole_numbers(sorter))
        sorted_sequence = gather(sorted_sequence, where, sorter.shape)
    return CountBelow(sorted_sequence, e.node_of(self), right or side == "right")


@entry("bucketize")
def bucketize(self: Any, boundaries: Any, right: bool = False, out_int32: bool = False) -> Any:
    return CountBelow(boundaries, e.node_of(self), right)
