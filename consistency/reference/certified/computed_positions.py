"""Nodes for data-dependent indexing: computed positions, and elements looked up at them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .balls import Elements, Unknowable, Unsure, elements
from .movement import Labels, scatter
from .nodes import Node, Positions, evaluate, whole_numbers


class Deferred(Node):
    """Integers or booleans that are all computed when the first of them is requested.

    Their number may depend on data; it is compared with the shape of the call's result.
    """

    def __init__(
        self, shape: Sequence[int], make: Callable[[], npt.NDArray[Any]], kind: str = "int"
    ) -> None:
        super().__init__(shape)
        self._make, self.kind = make, kind

    @functools.cached_property
    def found(self) -> npt.NDArray[Any]:
        result = np.asarray(self._make())
        if result.shape != self.shape:
            raise Unknowable(
                f"there are {list(result.shape)} where the call gave {list(self.shape)}"
            )
        return result.reshape(-1)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return elements(self.found[positions])


class Lookup(Node):
    """``source`` at the flat positions ``offset + stride·index``; only requested ones are computed.

    ``unique`` is the index of the element that receives the gradient where several elements hold
    the same number.
    """

    def __init__(
        self, source: Node, index: Node, offset: Labels, stride: int = 1, unique: Node | None = None
    ) -> None:
        super().__init__(index.shape, (source,))
        self.unique = unique or index
        self.index, self.offset, self.stride, self.kind = (
            index,
            offset.reshape(-1),
            stride,
            source.kind,
        )

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        indices = evaluate(self.index, positions).tolist()
        if any(i is None for i in indices):
            raise Unsure("a choice that balls do not decide")
        return (self.offset[positions] + self.stride * np.asarray(indices, dtype=np.int64),)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return given[0]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        labels = lambda: self.offset + self.stride * whole_numbers(self.unique).reshape(-1)  # noqa: E731
        return (scatter(gradient, labels, self.inputs[0].shape),)


def wrapped(index: Labels, size: int) -> Labels:
    """Indices with negative ones counted from the end. Raises Unknowable where one is out of
    range."""
    if index.size and (index.min() < -size or index.max() >= size):
        raise Unknowable("a position that does not exist")
    return np.where(index < 0, index + size, index)


def once_each(labels: Labels) -> Labels:
    """``labels``, if all differ: the result of two writes to one element is not defined."""
    if np.unique(labels).size != labels.size:
        raise Unknowable("a place that is written twice")
    return labels
