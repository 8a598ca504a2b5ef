"""Nodes that only move numbers: strided views, gathers, scatters and overwritten elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import balls
from .balls import Elements
from .nodes import Constant, Node, Positions, Shape

Labels = npt.NDArray[np.int64]


def element_of(number: Any, kind: str) -> balls.Element:
    """A number as an element of a node of this kind."""
    if not isinstance(number, (bool, int, float)):
        return number
    return (
        balls.element(float(number))
        if kind == "real"
        else bool(number)
        if kind == "bool"
        else int(number)
    )


class View(Node):
    """The elements of a flat source at ``offset + Σ index·stride``."""

    def __init__(
        self, source: Node, shape: Sequence[int], strides: Sequence[int], offset: int = 0
    ) -> None:
        super().__init__(shape, (source,))
        self.strides, self.offset, self.kind = tuple(strides), offset, source.kind
        self._contiguous = self.strides == row_major(self.shape)

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        if self._contiguous:
            return (positions + self.offset,)
        offsets = np.full(positions.shape, self.offset, dtype=np.int64)
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            positions, index = np.divmod(positions, size)
            if stride:
                offsets += index * stride
        return (offsets,)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return given[0]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        source = self.inputs[0]
        if self._contiguous and self.size == source.size:
            return (reshape(gradient, source.shape),)
        labels = self.needs(np.arange(self.size))[0]
        inverse = np.full(source.size, -1, dtype=np.int64)
        inverse[labels] = np.arange(labels.size)
        if bool((inverse[labels] == np.arange(labels.size)).all()):
            # No element appears twice in the view, so that there is nothing to sum.
            return (Gather(gradient, inverse, source.shape),)
        return (scatter(gradient, labels, source.shape),)


class Gather(Node):
    """``source[labels]``, and ``fill`` where a label is −1. ``labels`` may be a function without
    arguments that computes them later."""

    def __init__(
        self,
        source: Node,
        labels: Labels | Callable[[], Labels],
        shape: Sequence[int],
        fill: Any = 0.0,
    ) -> None:
        super().__init__(shape, (source,))
        self._labels, self.kind = labels, source.kind
        self.fill = element_of(fill, self.kind)

    @functools.cached_property
    def labels(self) -> Labels:
        return _flat_labels(self._labels)

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        labels = self.labels[positions]
        return (labels[labels >= 0],)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        labels = self.labels[positions]
        values = np.empty(positions.size, dtype=object)
        values[:] = self.fill
        values[labels >= 0] = given[0]
        return values

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        return (scatter(gradient, lambda: self.labels, self.inputs[0].shape),)


class Scatter(Node):
    """Scatter-add: element j is the sum of the source's elements with label j, 0 without any."""

    def __init__(
        self, source: Node, labels: Labels | Callable[[], Labels], shape: Sequence[int]
    ) -> None:
        super().__init__(shape, (source,))
        self._labels = labels

    @functools.cached_property
    def labels(self) -> Labels:
        return _flat_labels(self._labels)

    @functools.cached_property
    def _sorted(self) -> tuple[Labels, Labels]:
        order = np.argsort(self.labels, kind="stable")
        counts = np.bincount(self.labels + 1, minlength=self.size + 1)  # of label −1, 0, 1, …
        return order, np.cumsum(counts)

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        order, starts = self._sorted
        lists = [order[starts[p] : starts[p + 1]] for p in positions.tolist()]
        return (np.concatenate(lists) if lists else np.empty(0, dtype=np.int64),)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        _, starts = self._sorted
        values, sums, begin = given[0].tolist(), [], 0
        for count in (starts[positions + 1] - starts[positions]).tolist():
            sums.append(balls.total(values[begin : begin + count]))
            begin += count
        return sums

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        return (Gather(gradient, lambda: self.labels, self.inputs[0].shape),)


class Overlay(Node):
    """``below`` with the elements at ``labels`` replaced by those of ``above``; the last write to
    an element counts."""

    def __init__(self, below: Node, above: Node, labels: Labels | Callable[[], Labels]) -> None:
        super().__init__(below.shape, (below, above))
        self._labels, self.kind = labels, below.kind

    @functools.cached_property
    def owner(self) -> Labels:
        """For each element the index of the element of ``above`` written to it, or −1."""
        labels = _flat_labels(self._labels)
        owner = np.full(self.size, -1, dtype=np.int64)
        owner[labels] = np.arange(labels.size)
        return owner

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        owner = self.owner[positions]
        return positions[owner < 0], owner[owner >= 0]

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        owner = self.owner[positions]
        values = np.empty(positions.size, dtype=object)
        values[owner < 0], values[owner >= 0] = given
        return values

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        below, above = self.inputs
        below_gradient = Gather(
            gradient, lambda: np.where(self.owner < 0, np.arange(self.size), -1), below.shape
        )
        return below_gradient, Gather(
            gradient, lambda: _place_of_each(self.owner, above.size), above.shape
        )


def _flat_labels(labels: Labels | Callable[[], Labels]) -> Labels:
    return np.asarray(labels() if callable(labels) else labels, dtype=np.int64).reshape(-1)


def _place_of_each(owner: Labels, size: int) -> Labels:
    places_of = np.full(size, -1, dtype=np.int64)
    places = np.flatnonzero(owner >= 0)
    places_of[owner[places]] = places
    return places_of


def scatter(source: Node, labels: Labels | Callable[[], Labels], shape: Sequence[int]) -> Node:
    """The sum by label; elements with label −1 are dropped."""
    return Scatter(source, labels, shape)


def row_major(shape: Sequence[int]) -> Shape:
    """Strides of a contiguous tensor, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def view(source: Node, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Node:
    """A strided view. Views of constants are evaluated at once; a view of a contiguous view is one
    of its source."""
    if type(source) is View and source._contiguous:
        return view(source.inputs[0], shape, strides, offset + source.offset)
    if tuple(shape) == source.shape and tuple(strides) == row_major(shape) and not offset:
        return source
    if type(source) is Constant:
        result = View(source, shape, strides, offset)
        if result._contiguous:
            return Constant(
                source.data.reshape(-1)[offset : offset + result.size].reshape(result.shape)
            )
        return Constant(
            source.data.reshape(-1)[result.needs(np.arange(result.size))[0]].reshape(result.shape)
        )
    return View(source, shape, strides, offset)


def gather(
    source: Node, labels: Labels | Callable[[], Labels], shape: Sequence[int], fill: Any = 0.0
) -> Node:
    """``source[labels]`` by flat positions (−1: ``fill``), in the given shape."""
    if (
        type(source) is Constant
        and not callable(labels)
        and (labels.size == 0 or labels.min() >= 0)
    ):
        return Constant(source.data.reshape(-1)[labels.reshape(-1)].reshape(tuple(shape)))
    return Gather(source, labels, shape, fill)


def labeled(source: Node, move: Callable[[Labels], Any], fill: Any = 0.0) -> Node:
    """``source`` rearranged as ``move`` rearranges an array of flat positions in the source's
    shape; −1 stands for ``fill``."""
    labels = np.asarray(move(np.arange(source.size).reshape(source.shape)), dtype=np.int64)
    return gather(source, labels, labels.shape, fill)


def reshape(source: Node, shape: Sequence[int]) -> Node:
    shape = tuple(shape)
    if -1 in shape:
        known_size = math.prod(s for s in shape if s != -1)
        shape = tuple(source.size // known_size if s == -1 else s for s in shape)
    return source if shape == source.shape else view(source, shape, row_major(shape))


def expand(source: Node, shape: Sequence[int]) -> Node:
    """Broadcast to ``shape``."""
    shape = tuple(shape)
    if shape == source.shape:
        return source
    lead = len(shape) - source.ndim
    own = row_major(source.shape)
    strides = (0,) * lead + tuple(
        0 if n == 1 else s for n, s in zip(source.shape, own, strict=True)
    )
    return view(source, shape, strides)


def broadcast(*nodes: Node) -> tuple[Node, ...]:
    shapes = {node.shape for node in nodes}
    if len(shapes) == 1:
        return nodes
    shape = np.broadcast_shapes(*shapes)
    return tuple(expand(node, shape) for node in nodes)


def permute(source: Node, dims: Sequence[int]) -> Node:
    own = row_major(source.shape)
    dims = [d % source.ndim for d in dims]
    return view(source, [source.shape[d] for d in dims], [own[d] for d in dims])


def transpose(source: Node, a: int, b: int) -> Node:
    dims = list(range(source.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(source, dims)


def unsqueeze(source: Node, dim: int) -> Node:
    shape = list(source.shape)
    shape.insert(dim % (source.ndim + 1), 1)
    return reshape(source, shape)


def cat(nodes: Sequence[Node], dim: int) -> Node:
    """Concatenated along ``dim``."""
    sizes = [node.shape[dim] for node in nodes]
    shape = list(nodes[0].shape)
    shape[dim] = sum(sizes)
    positions = np.arange(math.prod(shape)).reshape(shape)
    base: Node = Constant(np.zeros(shape))
    if all(type(node) is Constant for node in nodes):
        return Constant(np.concatenate([node.data for node in nodes], axis=dim))  # type: ignore[attr-defined]
    base.kind = nodes[0].kind
    begin = 0
    for node, size in zip(nodes, sizes, strict=True):
        where = np.take(positions, np.arange(begin, begin + size), axis=dim)
        base, begin = Overlay(base, node, where), begin + size
        base.kind = node.kind
    return base
