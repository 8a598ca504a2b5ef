"""Sums, extremes and other reductions of rows, and sums of products."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import balls
from .balls import Element, Elements
from .elementwise import div, mul, to_real
from .movement import expand, permute, reshape, unsqueeze
from .nodes import Node, Positions


class RowFunction(Node):
    """One element per row of a matrix, by a function of the row's elements.

    ``pulled`` returns the matrix's gradient from (the matrix, this node, this node's gradient);
    without it there is none.
    """

    def __init__(
        self, of: Callable[[list[Element]], Element], matrix: Node, kind: str = "real",
        pulled: Callable[[Node, Node, Node], Node | None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(matrix.shape[:1], (matrix,))
        self.of, self.kind, self.pulled = of, kind, pulled

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        width = self.inputs[0].shape[1]
        return (positions[:, None] * width + np.arange(width),)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        return [self.of(row) for row in given[0].tolist()]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        return (None if self.pulled is None else self.pulled(self.inputs[0], self, gradient),)


class Products(Node):
    """Σₖ a[…, i, k]·b[…, k, j] of batches of matrices (B × M × K, B × K × N)."""

    def __init__(self, a: Node, b: Node) -> None:
        super().__init__((a.shape[0], a.shape[1], b.shape[2]), (a, b))
        self.kind = "real" if a.kind == b.kind == "real" else "int"

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        _, m, n = self.shape
        k = self.inputs[0].shape[2]
        row, column = np.divmod(positions, n)
        batch = row // m
        along = np.arange(k)
        return row[:, None] * k + along, (batch[:, None] * k + along) * n + column[:, None]

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        of = balls.dot if self.kind == "real" else _whole_dot
        return [of(x, y) for x, y in zip(given[0].tolist(), given[1].tolist(), strict=True)]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        a, b = self.inputs
        return Products(gradient, permute(b, (0, 2, 1))), Products(permute(a, (0, 2, 1)), gradient)


def _whole_dot(a: list[int | None], b: list[int | None]) -> int | None:
    return None if None in a or None in b else sum(map(operator.mul, a, b))


def dims_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Reduced dimensions as torch takes them: None and an empty list are all of them."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return tuple(range(ndim))
    return tuple(
        sorted(
            {d % max(ndim, 1) for d in (dim if isinstance(dim, (list, tuple)) else (dim,))}
            if ndim
            else ()
        )
    )


def as_rows(x: Node, dims: Sequence[int]) -> Node:
    """A matrix with one row per element of the reduction over ``dims``."""
    other_dims = [d for d in range(x.ndim) if d not in dims]
    width = math.prod(x.shape[d] for d in dims)
    permuted = permute(x, [*other_dims, *dims]) if x.ndim else x
    return reshape(permuted, (math.prod(x.shape[d] for d in other_dims), width))


def reduced_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    return tuple(1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims)


def reduce_rows(
    of: Callable[[list[Element]], Element], x: Node, dim: Any = None, keepdim: bool = False, *,
    kind: str = "real",
    pulled: Callable[[Node, Node, Node], Node | None] | None = None,
) -> Node:  # fmt: skip
    """A function of the elements of each row along ``dim`` (None: of all elements)."""
    dims = dims_of(dim, x.ndim)
    return reshape(
        RowFunction(of, as_rows(x, dims), kind, pulled), reduced_shape(x.shape, dims, keepdim)
    )


def _over_rows(matrix: Node, per_row: Node) -> Node:
    """One element per row, repeated for each element of the row."""
    return expand(reshape(per_row, (matrix.shape[0], 1)), matrix.shape)


def _pull_sum(matrix: Node, result: Node, gradient: Node) -> Node:
    return _over_rows(matrix, gradient)


def _whole_total(values: list[Element]) -> int | None:
    return None if None in values else sum(values)


def sum_(x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    """The sum; of integers and booleans, an exact integer."""
    if x.kind != "real":
        return reduce_rows(_whole_total, x, dim, keepdim, kind="int")
    return reduce_rows(balls.total, x, dim, keepdim, pulled=_pull_sum)


def mean(x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    count = math.prod(x.shape[d] for d in dims_of(dim, x.ndim))
    return div(sum_(x, dim, keepdim), count)


def _product(values: list[Element]) -> Element:
    product: Element = balls.ONE
    for value in values:
        product = balls.mul(product, value)
    return product


def _largest(values: list[Element]) -> Element:
    """The maximum; NaN if any is NaN; a zero of unknown sign for zeros of either sign."""
    result = values[0]
    for value in values[1:]:
        result = balls.maximum(result, value)
    return _either_zero(result, values)


def _smallest(values: list[Element]) -> Element:
    result = values[0]
    for value in values[1:]:
        result = balls.minimum(result, value)
    return _either_zero(result, values)


def _either_zero(extreme: Element, values: list[Element]) -> Element:
    if type(extreme) is not float or extreme != 0.0:
        return extreme
    signs = {math.copysign(1.0, v) for v in values if type(v) is float and v == 0.0}
    return extreme if len(signs) == 1 else balls.ZERO


def _whole(of: Callable[[list[Element]], Element]) -> Callable[[list[Element]], Element]:
    return lambda values: None if None in values else of(values)


def _pull_extremum(matrix: Node, result: Node, gradient: Node) -> Node:
    """The gradient is shared evenly by all elements equal to the extreme, as in torch's amax."""
    return mul(_over_rows(matrix, gradient), ExtremeShares(matrix, result))


class ExtremeShares(Node):
    """The share of each element in the gradient of its row's extreme; an element that alone can be
    the extreme gets all of it."""

    def __init__(self, matrix: Node, extremes: Node) -> None:
        super().__init__(matrix.shape, (matrix, extremes))

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        rows = positions // self.shape[1]
        return rows[:, None] * self.shape[1] + np.arange(self.shape[1]), rows

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        shares: list[Element] = []
        for position, row, extreme in zip(
            positions.tolist(), given[0].tolist(), given[1].tolist(), strict=True
        ):
            tests = [balls.equal(balls.real(x), balls.real(extreme)) for x in row]
            sole = sum(test is not False for test in tests) == 1
            is_extreme = tests[position % self.shape[1]]
            if is_extreme is False:
                shares.append(0.0 if any(test is not False for test in tests) else math.nan)
            elif sole:
                shares.append(balls.ONE)
            else:
                shares.append(balls.UNSURE if None in tests else balls.ONE / tests.count(True))
        return shares


def amax(x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    return reduce_rows(
        _largest if x.kind == "real" else _whole(max),
        x,
        dim,
        keepdim,
        kind=x.kind,
        pulled=_pull_extremum,
    )


def amin(x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    return reduce_rows(
        _smallest if x.kind == "real" else _whole(min),
        x,
        dim,
        keepdim,
        kind=x.kind,
        pulled=_pull_extremum,
    )


def matmul(a: Node, b: Node) -> Node:
    """As torch.matmul, for one or more dimensions each; exact integers if both operands are."""
    if "real" in (a.kind, b.kind):
        a, b = to_real(a), to_real(b)
    lone_a, lone_b = a.ndim == 1, b.ndim == 1
    a = unsqueeze(a, 0) if lone_a else a
    b = unsqueeze(b, 1) if lone_b else b
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count = math.prod(batch)
    x = reshape(expand(a, (*batch, *a.shape[-2:])), (count, *a.shape[-2:]))
    y = reshape(expand(b, (*batch, *b.shape[-2:])), (count, *b.shape[-2:]))
    shape = (*batch, *(() if lone_a else (a.shape[-2],)), *(() if lone_b else (b.shape[-1],)))
    return reshape(Products(x, y), shape)


def square_sum(x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    return sum_(mul(x, x), dim, keepdim)
