"""Nodes: tensors of a certified computation, whose elements are evaluated lazily.

A node states which elements of its inputs an element depends on (:meth:`Node.needs`) and computes
the element from them (:meth:`Node.compute`). :func:`evaluate` collects the dependencies of the
requested elements from the root to the inputs, then computes in the opposite order, each node once
and without recursion. Positions are flat, in row-major order. Values are cached per precision.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Sequence
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from .balls import Elements, Unknowable, Unsure, elements

Positions = npt.NDArray[np.int64]
Shape = tuple[int, ...]
_count = itertools.count()
_ZERO = np.zeros(1, dtype=np.int64)
_NOTHING: Positions = np.empty(0, dtype=np.int64)


class Deadline:
    """When a computation is given up; nodes check this while they compute.

    ``until`` is a time of ``time.thread_time`` in seconds: a busy machine proves as much as an idle
    one. ``left`` is the number of elements that may still be computed, a limit that is the same on
    every machine.
    """

    until = math.inf
    left = math.inf

    @classmethod
    def check(cls) -> None:
        if time.thread_time() > cls.until:
            raise Unknowable("it takes too long")

    @classmethod
    def spend(cls, elements: int) -> None:
        cls.left -= elements
        if cls.left < 0:
            raise Unknowable("it takes more work than a spot check is worth")


class Node:
    """A tensor of ``shape``; ``kind`` is ``real``, ``int`` or ``bool``. ``pull`` returns the
    gradients with respect to its inputs (a vector-Jacobian product)."""

    kind = "real"
    inputs: tuple[Node, ...] = ()

    def __init__(self, shape: Sequence[int], inputs: Sequence[Node] = ()) -> None:
        self.shape: Shape = tuple(shape)
        self.size = math.prod(self.shape)
        self.inputs = tuple(inputs)
        self.number = next(_count)
        self._at: Positions = _NOTHING
        self._values: Elements = np.empty(0, dtype=object)
        self._bits = 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        """One array of positions per input, of any shape; :meth:`compute` receives the values in
        the same shapes."""
        return (positions,) * len(self.inputs)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        """The values at ``positions``, as a list or an array of objects."""
        raise NotImplementedError

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        """The gradient with respect to each input, from the gradient with respect to this node;
        None where there is none."""
        return (None,) * len(self.inputs)

    def known(self) -> Positions:
        if self._bits != flint.ctx.prec:
            self._at, self._values, self._bits = _NOTHING, np.empty(0, dtype=object), flint.ctx.prec
        return self._at

    def store(self, positions: Positions, values: Any) -> None:
        if (
            type(values) is np.ndarray
            and values.shape == positions.shape
            and values.dtype == object
        ):
            array = values
        else:
            array = np.empty(positions.size, dtype=object)
            array[:] = values
        if self._at.size:
            positions = np.concatenate([self._at, positions])
            array = np.concatenate([self._values, array])
            order = np.argsort(positions, kind="stable")
            positions, array = positions[order], array[order]
        self._at, self._values = positions, array

    def look_up(self, positions: Positions) -> Elements:
        flat = positions.reshape(-1)
        places = flat if self._at.size == self.size else np.searchsorted(self._at, flat)
        values: Elements = self._values[places].reshape(positions.shape)
        return values

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.number} {list(self.shape)}>"


class Constant(Node):
    """Constants: floats are exact; integers and booleans keep their kind."""

    def __init__(self, data: npt.NDArray[Any]) -> None:
        super().__init__(data.shape)
        self.data = data
        self.kind = {"f": "real", "b": "bool"}.get(data.dtype.kind, "int")

    def known(self) -> Positions:
        # All positions are known; callers read only the size of this array.
        return np.broadcast_to(_ZERO, self.size)

    def look_up(self, positions: Positions) -> Elements:
        return elements(self.data.reshape(-1)[positions]).reshape(positions.shape)


class Leaf(Constant):
    """Constants with respect to which gradients are computed."""


class Unknown(Node):
    """A tensor whose values are not known, and why; ``inputs`` are the nodes that it depends on, by
    an unknown function."""

    def __init__(
        self, shape: Sequence[int], why: str, kind: str = "real", inputs: Sequence[Node] = ()
    ) -> None:
        super().__init__(shape, inputs)
        self.why, self.kind = why, kind

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        raise Unknowable(self.why)

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        return [Unknown(source.shape, self.why) for source in self.inputs]

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        raise Unknowable(self.why)


class Detached(Node):
    """The same numbers without a gradient, as ``detach`` returns them."""

    def __init__(self, of: Node) -> None:
        super().__init__(of.shape, (of,))
        self.kind = of.kind

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return given[0]


class Alias(Node):
    """The same numbers in a separate node, with respect to which gradients can be computed."""

    def __init__(self, of: Node) -> None:
        super().__init__(of.shape, (of,))
        self.kind = of.kind

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return given[0]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        return (gradient,)


class WithoutGradient(Node):
    """The same numbers; their gradient depends on a convention and therefore counts as unknown."""

    def __init__(self, of: Node, why: str) -> None:
        super().__init__(of.shape, (of,))
        self.kind, self.why = of.kind, why

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return given[0]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        return (Unknown(self.shape, self.why),)


def evaluate(root: Node, positions: Positions) -> Elements:
    """The elements of ``root`` at flat ``positions``, in the current precision. Raises Unsure."""
    return evaluate_all((root,), positions)[0]


def evaluate_all(roots: Sequence[Node], positions: Positions) -> list[Elements]:
    """The elements of several nodes at the same positions; shared inputs are computed once. Raises
    Unsure."""
    places = np.asarray(positions, dtype=np.int64)
    demands: dict[Node, list[Positions]] = {root: [places.reshape(-1)] for root in roots}
    heap, order = [(-root.number, root) for root in demands], []
    heapq.heapify(heap)
    while heap:
        node = heapq.heappop(heap)[1]
        requests = demands.pop(node)
        missing = _sorted_unique(requests[0] if len(requests) == 1 else np.concatenate(requests))
        stored = node.known()
        if stored.size == node.size:
            continue
        if stored.size:
            missing = missing[
                stored[np.minimum(np.searchsorted(stored, missing), stored.size - 1)] != missing
            ]
        if not missing.size:
            continue
        needs = node.needs(missing)
        Deadline.spend(missing.size + sum(need.size for need in needs))
        order.append((node, missing, needs))
        for source, need in zip(node.inputs, needs, strict=True):
            if source not in demands:
                demands[source] = []
                heapq.heappush(heap, (-source.number, source))
            demands[source].append(need.reshape(-1))
    for node, missing, needs in reversed(order):
        Deadline.check()
        inputs = [source.look_up(need) for source, need in zip(node.inputs, needs, strict=True)]
        node.store(missing, node.compute(missing, inputs))
    return [root.look_up(places) for root in roots]


def _sorted_unique(positions: Positions) -> Positions:
    """np.unique, but fast for few positions."""
    if positions.size < 2 or bool((positions[1:] > positions[:-1]).all()):
        return positions
    positions = np.sort(positions)
    unique: Positions = positions[np.concatenate([[True], positions[1:] != positions[:-1]])]
    return unique


def everything(node: Node) -> Elements:
    """All elements, in the node's shape."""
    return evaluate(node, np.arange(node.size)).reshape(node.shape)


def whole_numbers(node: Node) -> npt.NDArray[Any]:
    """All elements of a node of integers or booleans as a NumPy array. Raises Unsure where one is
    undecided."""
    if isinstance(node, Constant):
        return node.data
    values = everything(node)
    if any(v is None for v in values.reshape(-1).tolist()):
        raise Unsure("a choice that balls do not decide")
    return values.astype(np.bool_ if node.kind == "bool" else np.int64)
