"""Elementwise functions with their derivatives, and the selection between two tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import balls
from .balls import Element, Elements
from .movement import broadcast
from .nodes import Constant, Node, Positions

Slope = Callable[..., "Node | float | None"]


class Function:
    """A function of one or more elements. ``slopes`` are its partial derivatives, as functions of
    the inputs' nodes and the result's.

    Where a slope is None, or without slopes, there is no gradient. Called with nodes and numbers,
    it returns the node of its values for the broadcast operands. ``kind`` is the kind of the
    results.
    """

    def __init__(
        self,
        name: str,
        of: Callable[..., Element],
        slopes: Sequence[Slope | None] = (),
        kind: str = "real",
    ) -> None:
        self.name, self.of, self.slopes, self.kind = name, of, tuple(slopes), kind

    def __call__(self, *operands: Any) -> Node:
        return Map(self, broadcast(*(node_of(operand) for operand in operands)))


def node_of(value: Any) -> Node:
    """A node unchanged; a number as the node of a zero-dimensional tensor."""
    if isinstance(value, Node):
        return value
    if isinstance(value, np.ndarray):
        return Constant(value)
    return Constant(np.asarray(value)) if not _long(value) else Scalar(value)


def _long(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


class Scalar(Node):
    """One number without a NumPy type, such as an ``arb`` or a long integer."""

    def __init__(self, value: Any) -> None:
        super().__init__(())
        self.value = value

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        value = self.value() if callable(self.value) else self.value
        return [balls.real(value)] * positions.size


class Map(Node):
    def __init__(self, function: Function, inputs: Sequence[Node]) -> None:
        super().__init__(inputs[0].shape, inputs)
        self.function, self.kind = function, function.kind

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        of = self.function.of
        if len(given) == 1:
            return [of(x) for x in given[0].tolist()]
        return [of(*xs) for xs in zip(*(values.tolist() for values in given), strict=True)]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        gradients: list[Node | None] = []
        for slope in self.function.slopes or (None,) * len(self.inputs):
            s = slope(*self.inputs, self) if slope is not None else None
            gradients.append(
                None
                if s is None
                else gradient
                if isinstance(s, float) and s == 1.0
                else mul(gradient, s)
            )
        return gradients

    def __repr__(self) -> str:
        return f"<{self.function.name} {self.number} {list(self.shape)}>"


class Where(Node):
    """``a`` where ``test`` holds, ``b`` elsewhere."""

    def __init__(self, test: Node, a: Node, b: Node) -> None:
        super().__init__(a.shape, (test, a, b))
        self.kind = a.kind

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return [
            balls.choose(t, x, y)
            for t, x, y in zip(*(values.tolist() for values in given), strict=True)
        ]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        test = self.inputs[0]
        return None, where(test, gradient, 0.0), where(test, 0.0, gradient)


def where(test: Any, a: Any, b: Any) -> Node:
    test, a, b = broadcast(node_of(test), node_of(a), node_of(b))
    if a.kind != b.kind:
        a, b = to_real(a), to_real(b)
    return Where(test, a, b)


def _identity(x: Element) -> Element:
    return balls.real(x)


_REAL = Function("real", _identity, (lambda x, y: 1.0,))


def to_real(x: Node) -> Node:
    """Integers and booleans as real numbers."""
    return x if x.kind == "real" else _REAL(x)


def on_numbers(of: Callable[..., Element]) -> Callable[..., Element]:
    """A function of real elements, extended to integers and booleans."""

    def call(*xs: Element) -> Element:
        return of(*map(balls.real, xs))

    return call


add: Function = Function("add", on_numbers(balls.add), (lambda a, b, y: 1.0, lambda a, b, y: 1.0))
sub: Function = Function("sub", on_numbers(balls.sub), (lambda a, b, y: 1.0, lambda a, b, y: -1.0))
mul: Function = Function("mul", on_numbers(balls.mul), (lambda a, b, y: b, lambda a, b, y: a))
div: Function = Function(
    "div", on_numbers(balls.div), (lambda a, b, y: div(1.0, b), lambda a, b, y: neg(div(y, b)))
)
neg: Function = Function("neg", on_numbers(balls.neg), (lambda x, y: -1.0,))
maximum = Function(
    "maximum",
    on_numbers(balls.maximum),
    (lambda a, b, y: _share(a, b), lambda a, b, y: _share(b, a)),
)
minimum = Function(
    "minimum",
    on_numbers(balls.minimum),
    (lambda a, b, y: _share(b, a), lambda a, b, y: _share(a, b)),
)
less = Function("less", on_numbers(balls.less), kind="bool")
equal = Function("equal", on_numbers(balls.equal), kind="bool")


def _share(a: Node, b: Node) -> Node:
    """The share of ``a`` in the gradient of max(a, b): 1, 0, or ½ if both are equal; unknown for
    NaN."""
    return unless(where(less(b, a), 1.0, where(equal(a, b), 0.5, 0.0)), or_(is_nan(a), is_nan(b)))


def _not(x: bool | None) -> bool | None:
    return None if x is None else not x


def _and(x: bool | None, y: bool | None) -> bool | None:
    if x is None or y is None:
        return False if x is False or y is False else None
    return bool(x) and bool(y)


def _truth(x: Element) -> bool | None:
    """Whether a number is not 0."""
    if isinstance(x, (bool, int)) or x is None:
        return None if x is None else bool(x)
    return _not(balls.equal(x, 0.0))


truth = Function("truth", _truth, kind="bool")
not_ = Function("not", lambda x: _not(_truth(x)), kind="bool")
and_ = Function("and", lambda x, y: _and(_truth(x), _truth(y)), kind="bool")
or_ = Function("or", lambda x, y: _not(_and(_not(_truth(x)), _not(_truth(y)))), kind="bool")
is_nan = Function("is nan", lambda x: type(x) is float and x != x, kind="bool")
is_infinite = Function(
    "is infinite", lambda x: type(x) is float and x - x != 0.0 and x == x, kind="bool"
)


def _is_finite(x: Element) -> bool:
    return type(x) is not float or x - x == 0.0


def _unless(x: Element, doubt: bool | None) -> Element:
    return x if doubt is False else balls.UNSURE


is_finite = Function("is finite", _is_finite, kind="bool")
unless: Function = Function(
    "unless", _unless, (lambda x, doubt, y: unless(1.0, doubt), None)
)  # unsure where ``doubt`` holds or is undecided


def doubted(x: Node, doubt: Node) -> Node:
    """``x``, with unknown value and gradient where ``doubt`` holds."""
    return unless(to_real(x), doubt)


def less_equal(a: Any, b: Any) -> Node:
    """a ≤ b, False for NaN."""
    return or_(less(a, b), equal(a, b))
