"""Maxima and minima of rows and their indices: of whole rows, and cumulative."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import balls, sums
from .balls import Element
from .elementwise import div, equal, is_nan, node_of, where
from .movement import expand, reshape, scatter
from .nodes import Node, whole_numbers
from .scans import Scan, along
from .sums import RowFunction, _largest, _smallest, _whole, as_rows, dims_of, reduced_shape


def of_all(x: Node, largest: bool) -> Node:
    """The extreme of all elements, which share its gradient evenly; if it is NaN, all NaN share it,
    as in torch."""

    def pulled(rows: Node, result: Node, gradient: Node) -> Node:
        def over(per_row: Node) -> Node:
            return expand(reshape(per_row, (rows.shape[0], 1)), rows.shape)

        nan_mask = where(is_nan(rows), 1.0, 0.0)
        nan_share = where(
            equal(nan_mask, 0.0), 0.0, div(over(gradient), over(sums.sum_(nan_mask, 1)))
        )
        return where(over(is_nan(result)), nan_share, sums._pull_extremum(rows, result, gradient))

    of = (
        (sums._largest if largest else sums._smallest)
        if x.kind == "real"
        else sums._whole(max if largest else min)
    )
    return sums.reduce_rows(of, x, kind=x.kind, pulled=pulled)


def _index_of_extreme(largest: bool) -> Callable[[list[Element]], int | None]:
    """The first index of the largest (or smallest) element; NaN comes before any number."""

    def of(values: list[Element]) -> int | None:
        best = 0
        for i, value in enumerate(values):
            if value is None:
                return None
            if type(value) is float and value != value:
                return i
            beaten = balls.less(values[best], value) if largest else balls.less(value, values[best])
            if i and beaten is None:
                return _certain_extreme(values, largest)
            if beaten:
                best = i
        return best

    return of


def _certain_extreme(values: list[Element], largest: bool) -> int | None:
    """The index of an element beyond all others, which may exist although some balls overlap; else
    None."""
    for i, value in enumerate(values):
        if type(value) is float and value != value:
            return i
    for i, value in enumerate(values):
        comparisons = (
            balls.less(other, value) if largest else balls.less(value, other)
            for j, other in enumerate(values)
            if j != i
        )
        if all(test is True for test in comparisons):
            return i
    return None


def places(x: Node, dim: Any, keepdim: bool, largest: bool) -> Node:
    """The index of the extreme along one dim; in the flat tensor where ``dim`` is None."""
    dims = dims_of(dim, x.ndim)
    return reshape(
        RowFunction(_index_of_extreme(largest), as_rows(x, dims), "int"),
        reduced_shape(x.shape, dims, keepdim),
    )


def chosen(x: Node, dim: int, keepdim: bool, largest: bool) -> tuple[Node, Node]:
    """The extreme along ``dim`` and its index; the gradient goes to the element at this index."""
    dims = dims_of(dim, x.ndim)
    shape = reduced_shape(x.shape, dims, keepdim)
    matrix = as_rows(x, dims)
    place = RowFunction(_index_of_extreme(largest), matrix, "int")

    def pulled(rows: Node, result: Node, gradient: Node) -> Node:
        columns = expand(node_of(np.arange(rows.shape[1])), rows.shape)
        is_chosen = equal(expand(reshape(place, (rows.shape[0], 1)), rows.shape), columns)
        return where(is_chosen, expand(reshape(gradient, (rows.shape[0], 1)), rows.shape), 0.0)

    of = (
        (_largest if largest else _smallest)
        if x.kind == "real"
        else _whole(max if largest else min)
    )
    value = RowFunction(of, matrix, x.kind, pulled)
    return reshape(value, shape), reshape(place, shape)


# --- scans: states are (element, its index, index of the last element); None is undecided ---------

Best = tuple[Element, int | None, int]


def _first_state(_: Any, value: Element) -> Best:
    return value, 0, 0


def _is_nan(x: Element) -> bool:
    return type(x) is float and x != x


def _extreme_step(largest: bool) -> Callable[[Best, Element], Best]:
    """A scan step: the latest of equal elements counts, and the latest NaN before any number."""

    def step(state: Best, value: Element) -> Best:
        best, place, last = state[0], state[1], state[2] + 1
        if value is None or best is None:
            return None, None, last
        if _is_nan(value):
            return value, last, last
        if _is_nan(best):
            return best, place, last
        worse = balls.less(value, best) if largest else balls.less(best, value)
        if worse is None:
            return (balls.maximum if largest else balls.minimum)(best, value), None, last
        return (best, place, last) if worse else (value, last, last)

    return step


class Running(Scan):
    """The cumulative extreme; its gradient goes to the elements at ``chosen``, indices in the
    row."""

    def __init__(self, matrix: Node, largest: bool, chosen: Node) -> None:
        super().__init__(
            _extreme_step(largest), matrix, matrix.kind, _first_state, operator.itemgetter(0)
        )
        self.chosen = chosen

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        rows, width = self.shape
        base = np.arange(rows)[:, None] * width
        return (scatter(gradient, lambda: base + whole_numbers(self.chosen), self.shape),)


def running(x: Node, dim: int, largest: bool) -> tuple[Node, Node]:
    """Cumulative extremes along ``dim``, and their indices."""

    def places_of(rows: Node) -> Node:
        return Scan(_extreme_step(largest), rows, "int", _first_state, operator.itemgetter(1))

    values = along(x, dim, lambda rows: Running(rows, largest, places_of(rows)))
    return values, along(x, dim, places_of)
