"""Sorting of rows: comparisons of exact numbers are certain, those of balls only if they are
disjoint."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from . import balls
from .balls import Element, Elements, Unsure
from .movement import permute, reshape
from .nodes import Node, Positions
from .sums import as_rows

UNDECIDED = "an order that balls do not decide"


def keys(values: list[Element]) -> list[Any]:
    """Sort keys of elements: numbers if all are exact, else balls. NaN is larger than all
    numbers."""
    exact = [_number(v) for v in values]
    return [_Ball(v) for v in values] if any(x is None for x in exact) else exact


def _number(x: Element) -> Any:
    """(is NaN, the number) of an exact element; None for a ball."""
    if type(x) is not arb:
        return None if x is None else (True, 0) if x != x else (False, x)
    if not x.is_exact():
        return None
    number = float(x)
    return (False, number) if x == arb(number) else None


@functools.total_ordering
class _Ball:
    """A sort key of an element. Raises Unsure where balls overlap."""

    def __init__(self, value: Element) -> None:
        self.value = balls.real(value)
        self.is_nan = type(self.value) is float and self.value != self.value

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, _Ball)
        if self.is_nan or other.is_nan:
            return self.is_nan and other.is_nan
        return _decided(balls.equal(self.value, other.value))

    def __lt__(self, other: _Ball) -> bool:
        if self.is_nan or other.is_nan:
            return other.is_nan and not self.is_nan
        return _decided(balls.less(self.value, other.value))

    __hash__ = None  # type: ignore[assignment]


def _decided(answer: bool | None) -> bool:
    if answer is None:
        raise Unsure(UNDECIDED)
    return answer


def order(values: list[Element], descending: bool = False) -> list[int]:
    """Indices in stable sorted order. NaN is larger than all numbers."""
    sort_keys = keys(values)
    return sorted(range(len(values)), key=sort_keys.__getitem__, reverse=descending)


class SortedPositions(Node):
    """For each row of a matrix, the indices of its elements in sorted order."""

    kind = "int"

    def __init__(self, matrix: Node, descending: bool) -> None:
        super().__init__(matrix.shape, (matrix,))
        self.descending = descending

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        width = self.shape[1]
        return (np.unique(positions // width)[:, None] * width + np.arange(width),)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        rows, columns = np.divmod(positions, self.shape[1])
        orders = {
            row: order(values, self.descending)
            for row, values in zip(np.unique(rows).tolist(), given[0].tolist(), strict=True)
        }
        return [
            orders[row][column] for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        ]


def middle(values: list[Element]) -> int:
    """The index of the lower median, or of the first NaN."""
    indices = order(values)
    nan = [i for i, v in enumerate(values) if is_nan(v)]
    return nan[0] if nan else indices[(len(values) - 1) // 2]


def middle_of_numbers(values: list[Element]) -> int:
    """The index of the lower median of all that are not NaN; the first if all are NaN."""
    count = sum(not is_nan(v) for v in values)
    return order(values)[max(count - 1, 0) // 2]


def most_frequent(values: list[Element]) -> int:
    """The last index of the most frequent value, the smallest of several such values."""
    sort_keys = keys(values)
    positions = order(values)
    best, best_count, begin = positions[0], 0, 0
    for end in range(1, len(positions) + 1):
        if end == len(positions) or sort_keys[positions[end]] != sort_keys[positions[begin]]:
            if end - begin > best_count:
                best, best_count = positions[end - 1], end - begin
            begin = end
    return best


def is_nan(x: Element) -> bool:
    return type(x) is float and x != x


def rows_along(x: Node, dim: int) -> tuple[Node, Callable[[Node], Node]]:
    """A matrix with rows along a dimension, and the function that restores the tensor's shape from
    a matrix with as many rows."""
    if not x.ndim:
        return reshape(x, (1, 1)), lambda made: reshape(made, ())
    dim %= x.ndim
    other_dims = [d for d in range(x.ndim) if d != dim]

    def restore(matrix: Node) -> Node:
        permuted = reshape(matrix, [*(x.shape[d] for d in other_dims), matrix.shape[1]])
        return permute(permuted, np.argsort([*other_dims, dim]).tolist())

    return as_rows(x, (dim,)), restore
