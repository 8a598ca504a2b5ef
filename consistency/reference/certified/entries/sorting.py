"""Sorting and selection by order. Ties go to the first element unless stated otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import complex_numbers as c
from ..balls import Element, Unknowable
from ..computed_positions import Lookup
from ..movement import labeled, reshape
from ..nodes import Node, WithoutGradient
from ..orders import SortedPositions, middle, middle_of_numbers, most_frequent, rows_along
from ..sums import RowFunction, reduced_shape
from . import entry

Pick = Callable[[list[Element]], int]


def _real(x: Any) -> Node:
    if c.is_complex(x):
        raise Unknowable("an order of complex numbers")
    return x  # type: ignore[no-any-return]


def _looked_up(matrix: Node, index: Node) -> Node:
    """For each row the elements at the positions in the row of ``index``."""
    offset = np.repeat(np.arange(index.shape[0]) * matrix.shape[1], index.shape[1])
    return Lookup(matrix, index, offset)


def _sorted(
    self: Any, dim: int, descending: bool, begin: int = 0, end: int | None = None
) -> tuple[Node, Node]:
    matrix, restore = rows_along(_real(self), dim)
    index: Node = SortedPositions(matrix, descending)
    if begin or end is not None:
        index = labeled(index, lambda x: x[:, begin:end])
    return restore(_looked_up(matrix, index)), restore(index)


@entry("sort")
def sort(self: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    return _sorted(self, dim, descending)


@entry("argsort")
def argsort(self: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
    return sort(self, dim, descending)[1]


@entry("msort")
def msort(self: Any) -> Any:
    return sort(self, 0)[0]


@entry("topk")
def topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """In descending order; with ``sorted=False`` the order, and hence the gradient, is unknown."""
    if not sorted and k > 1 and isinstance(self, Node):
        self = WithoutGradient(self, "the order of what topk gives without sorting it")
    return _sorted(self, dim, largest, 0, k)


@entry("kthvalue")
def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, index = _sorted(self, dim, False, k - 1, k)
    shape = reduced_shape(self.shape, (dim % max(self.ndim, 1),), keepdim)
    return reshape(values, shape), reshape(index, shape)


def _picked(self: Any, dim: int, keepdim: bool, pick: Pick) -> tuple[Node, Node]:
    matrix, _ = rows_along(_real(self), dim)
    index = RowFunction(pick, matrix, "int")
    shape = reduced_shape(self.shape, (dim % max(self.ndim, 1),), keepdim)
    values = Lookup(matrix, index, np.arange(matrix.shape[0]) * matrix.shape[1])
    return reshape(values, shape), reshape(index, shape)


def _median(self: Any, dim: Any, keepdim: bool, pick: Pick) -> Any:
    if dim is not None:
        return _picked(self, dim, keepdim, pick)
    if not self.size:
        raise Unknowable("the median of no numbers")
    flat = reshape(_real(self), (self.size,))
    return _picked(flat, 0, False, pick)[0]


@entry("median")
def median(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _median(self, dim, keepdim, middle)


@entry("nanmedian")
def nanmedian(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _median(self, dim, keepdim, middle_of_numbers)


@entry("mode")
def mode(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
    return _picked(self, dim, keepdim, most_frequent)
