"""Norms of rows, with torch's conventions at kinks: the gradient of a norm is 0 at 0, and extremes
share it evenly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flint import arb

from . import balls, sums
from .balls import Element
from .complex_numbers import Pair, Tensor
from .elementwise import Function, div, equal, mul, or_, sub, to_real, where
from .functions import abs_, hypot, pow_, power, sign, square_root
from .movement import cat, expand, reshape, unsqueeze
from .nodes import Node

_INF = math.inf

# |z| of a complex number, with gradient 0 at 0.
modulus = Function(
    "modulus",
    hypot.of,
    (
        lambda a, b, y: where(equal(y, 0.0), 0.0, div(a, y)),
        lambda a, b, y: where(equal(y, 0.0), 0.0, div(b, y)),
    ),
)


def sizes(x: Tensor) -> Node:
    """The absolute value of each element."""
    return modulus(x.re, x.im) if isinstance(x, Pair) else abs_(to_real(x))


def _square(x: Element) -> Element:
    return balls.mul(x, x)


def _euclidean(values: list[Element]) -> Element:
    return square_root(balls.total([_square(v) for v in values]))


def _by_power(order: float) -> Callable[[list[Element]], Element]:
    """(Σ |x|ᵖ)^(1/p)."""
    exponent = arb(order)

    def of(values: list[Element]) -> Element:
        total = balls.total([power(abs(v), exponent) for v in values])
        return power(total, 1 / exponent)

    return of


def _spread(matrix: Node, per_row: Node) -> Node:
    return expand(reshape(per_row, (matrix.shape[0], 1)), matrix.shape)


def _pull_euclidean(matrix: Node, result: Node, gradient: Node) -> Node:
    length = _spread(matrix, result)
    return mul(_spread(matrix, gradient), where(equal(length, 0.0), 0.0, div(matrix, length)))


def _pull_power(order: float) -> Callable[[Node, Node, Node], Node]:
    """sign(x)·(|x| ÷ norm)ᵖ⁻¹; 0 at 0, unless the norm is NaN."""

    def pulled(matrix: Node, result: Node, gradient: Node) -> Node:
        length = _spread(matrix, result)
        slope = mul(sign(matrix), pow_(div(abs_(matrix), length), sub(order, 1.0)))
        at_zero = where(equal(matrix, 0.0), div(matrix, length), slope)
        return mul(_spread(matrix, gradient), where(equal(length, 0.0), 0.0, at_zero))

    return pulled


def vector_norm(x: Any, order: float, dim: Any = None, keepdim: bool = False) -> Node:
    """(Σ |x|ᵖ)^(1/p); for p = 0 the number of nonzero elements, for ±∞ the largest or smallest
    absolute value."""
    order = float(order)
    if order == 2.0:
        if isinstance(x, Pair):
            dims = sums.dims_of(dim, x.ndim)
            parts = cat([unsqueeze(x.re, -1), unsqueeze(x.im, -1)], -1)
            norm = sums.reduce_rows(
                _euclidean, parts, [*dims, x.ndim], False, pulled=_pull_euclidean
            )
            return reshape(norm, sums.reduced_shape(x.shape, dims, keepdim))
        return sums.reduce_rows(_euclidean, to_real(x), dim, keepdim, pulled=_pull_euclidean)
    size = sizes(x)
    if order in (_INF, -_INF):
        return (sums.amax if order > 0 else sums.amin)(size, dim, keepdim)
    if order == 0.0:
        return sums.sum_(where(equal(size, 0.0), 0.0, 1.0), dim, keepdim)
    if order == 1.0:
        return sums.sum_(size, dim, keepdim)
    if order != order:
        raise balls.Unsure("a norm of order NaN")
    return sums.reduce_rows(_by_power(order), size, dim, keepdim, pulled=_pull_power(order))


def farthest(x: Node, dim: Any) -> Node:
    """The largest absolute value; its gradient is unknown where several elements have it."""

    def pulled(matrix: Node, result: Node, gradient: Node) -> Node:
        is_extreme = where(equal(matrix, _spread(matrix, result)), 1.0, 0.0)
        is_unique = equal(_spread(matrix, sums.sum_(is_extreme, 1)), 1.0)
        shared = where(or_(equal(matrix, 0.0), equal(is_extreme, 0.0)), 0.0, _UNDECIDED(matrix))
        return mul(_spread(matrix, gradient), where(is_unique, is_extreme, shared))

    return sums.reduce_rows(sums._largest, abs_(x), dim, pulled=pulled)


_UNDECIDED = Function("undecided", lambda x: balls.UNSURE)
