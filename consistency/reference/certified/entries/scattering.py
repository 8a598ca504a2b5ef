"""Writing, adding and reducing at indices and masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import complex_numbers as c
from ..balls import Unknowable
from ..computed_positions import once_each, wrapped
from ..elementwise import node_of, to_real
from ..groups import reduced
from ..movement import Labels, expand, reshape, scatter
from ..nodes import Constant, Node, whole_numbers
from . import entry
from .indexing import along, chosen, key_of, positions
from .partial_writes import overlaid

_HOW = {"add": "sum", "multiply": "prod"}


def written(self: Any, source: Any, labels: Callable[[], Labels], shape: tuple[int, ...]) -> Any:
    """``self`` with the elements of ``source``, broadcast to ``shape``, written at labels,
    which must be distinct unless the source is a single number."""
    source = _node(source)
    single = source.size == 1
    return overlaid(self, source, labels if single else lambda: once_each(labels()), shape)


def added(self: Any, source: Any, labels: Callable[[], Labels], shape: tuple[int, ...]) -> Any:
    def spread(x: Node) -> Node:
        return scatter(expand(to_real(x), shape), labels, self.shape)

    return c.add(self, c.each(spread, _node(source)))


def _node(x: Any) -> Any:
    return c.pair(x) if isinstance(x, complex) else x if c.is_complex(x) else node_of(x)


def _part(source: Any, index: Any) -> Any:
    """The leading part of a source in the index's shape (scatter)."""
    source = _node(source)
    if source.shape == index.shape or not source.shape:
        return source
    from .rearrangements import moved

    return moved(source, lambda x: x[tuple(slice(n) for n in index.shape)])


@entry("scatter")
def scatter_(
    self: Any, dim: int, index: Any, src: Any = None, value: Any = None, reduce: str | None = None
) -> Any:
    source = _part(src, index) if src is not None else _node(value)
    labels = lambda: along(self.shape, dim, whole_numbers(index))  # noqa: E731
    if reduce is None:
        return written(self, source, labels, index.shape)
    if c.is_complex(self, source):
        raise Unknowable("products of complex numbers at one place")
    return reduced(_HOW[reduce], self, expand(source, index.shape), labels, True)


@entry("scatter_add")
def scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    return added(
        self, _part(src, index), lambda: along(self.shape, dim, whole_numbers(index)), index.shape
    )


@entry("scatter_reduce")
def scatter_reduce(
    self: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: str,
    include_self: bool = True,
    result: Any = None,
) -> Any:
    _means_of_floats(reduce, self)
    return reduced(
        _HOW.get(reduce, reduce),
        self,
        _part(src, index),
        lambda: along(self.shape, dim, whole_numbers(index)),
        include_self,
    )


def _means_of_floats(how: str, x: Any) -> None:
    if how == "mean" and x.kind != "real":
        raise Unknowable("how a mean of whole numbers is rounded")


def slices(self: Any, dim: int, index: Any) -> Callable[[], Labels]:
    """The flat positions of the slices along a dimension selected by an index, in the order of the
    source's elements."""

    def find() -> Labels:
        where = whole_numbers(index).reshape(-1)
        return (
            np.take(positions(self), wrapped(where, self.shape[dim]), dim).reshape(-1)
            if self.shape
            else where
        )

    return find


def _sliced(self: Any, dim: int, index: Any) -> tuple[int, ...]:
    return (
        tuple(index.size if d == dim % len(self.shape) else n for d, n in enumerate(self.shape))
        if self.shape
        else (index.size,)
    )


@entry("index_add")
def index_add(self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return added(
        self,
        source if alpha == 1 else c.mul(source, alpha),
        slices(self, dim, index),
        _sliced(self, dim, index),
    )


@entry("index_copy")
def index_copy(self: Any, dim: int, index: Any, source: Any) -> Any:
    return written(self, source, slices(self, dim, index), _sliced(self, dim, index))


@entry("index_fill")
def index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    """Each index once: 2,049 of two different ones would be written as 2,049 slices."""
    distinct = Constant(np.unique(whole_numbers(index)))
    return written(self, value, slices(self, dim, distinct), _sliced(self, dim, distinct))


@entry("index_reduce")
def index_reduce(
    self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    _means_of_floats(reduce, self)
    return reduced(reduce, self, source, slices(self, dim, index), include_self)


@entry("index_put", "_index_put_impl", "_unsafe_index_put")
def index_put(
    self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    """Values are broadcast to the shape selected by the indices."""
    shape = positions(self)[
        key_of(indices)
    ].shape  # masks must be known here, because their counts determine the shape
    labels = lambda: positions(self)[key_of(indices)].reshape(-1)  # noqa: E731
    return (added if accumulate else written)(self, values, labels, shape)


@entry("put")
def put(self: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    labels = lambda: wrapped(whole_numbers(index), self.size).reshape(-1)  # noqa: E731
    source = c.each(lambda x: reshape(x, index.shape), source)
    return (added if accumulate else written)(self, source, labels, index.shape)


@entry("masked_fill")
def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    return c.where(mask, _node(value), self)


@entry("masked_scatter")
def masked_scatter(self: Any, mask: Any, source: Any) -> Any:
    """The k-th position where the mask holds gets the k-th element."""
    shape = np.broadcast_shapes(self.shape, mask.shape)
    count = chosen(
        mask, shape
    ).size  # known here, because it determines how much of the source is used
    from .rearrangements import moved

    used = moved(source, lambda x: x.reshape(-1)[:count])
    return overlaid(c.each(lambda x: expand(x, shape), self), used, chosen(mask, shape))


@entry("bincount")
def bincount(self: Any, result: Any, weights: Any = None, minlength: int = 0) -> Any:
    ones = node_of(np.ones(self.shape)) if weights is None else to_real(weights)

    def labels() -> Labels:
        # In uint8 there is no -1, which stands for the largest of no numbers.
        bins = whole_numbers(self).reshape(-1).astype(np.int64)
        if max(int(bins.max(initial=-1)) + 1, minlength) != math.prod(result.shape):
            raise Unknowable("there are other numbers than the call met")
        return bins

    return scatter(ones, labels, tuple(result.shape))
