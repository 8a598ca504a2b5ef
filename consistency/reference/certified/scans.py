"""Products of rows, and scans: for each element, a function of its row up to that element."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import balls
from . import complex_numbers as c
from .balls import Element, Elements
from .complex_numbers import Pair, Tensor
from .elementwise import Function
from .movement import Labels, labeled, permute, reshape, view
from .nodes import Node, Positions
from .sums import as_rows, dims_of, reduced_shape

Step = Callable[[Any, Element], Any]
End = Callable[[Any], Element]


def _whole_product(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else int(a) * int(b)


_whole_mul = Function("mul of whole numbers", _whole_product, kind="int")


def _times(a: Tensor, b: Tensor) -> Any:
    return _whole_mul(a, b) if isinstance(a, Node) and a.kind != "real" else c.mul(a, b)


def _gather_with_ones(x: Tensor, move: Callable[[Labels], Labels]) -> Any:
    """Rearranged by labels; −1 stands for the number 1."""
    if isinstance(x, Pair):
        return Pair(labeled(x.re, move, balls.ONE), labeled(x.im, move))
    return labeled(x, move, balls.ONE if x.kind == "real" else 1)


def prod(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The product of each row, by pairwise multiplication: then the gradient of a factor is the
    product of the others, even if some are zero."""
    dims = dims_of(dim, x.ndim)
    rows = c.each(lambda node: as_rows(node, dims), x)
    count, width = rows.shape
    padded_width = 1 << max(width - 1, 0).bit_length()
    if padded_width != width:
        spare = np.full((count, padded_width - width), -1, dtype=np.int64)
        rows = _gather_with_ones(rows, lambda labels: np.concatenate([labels, spare], 1))
    while padded_width > 1:
        half = padded_width // 2
        rows = _times(_columns(rows, 0, half), _columns(rows, half, half))
        padded_width = half
    return c.each(lambda node: reshape(node, reduced_shape(x.shape, dims, keepdim)), rows)


def _columns(rows: Any, begin: int, width: int) -> Any:
    return c.each(lambda node: view(node, (node.shape[0], width), (node.shape[1], 1), begin), rows)


def running_product(x: Tensor, dim: int) -> Any:
    """Cumulative products, by doubling."""

    def run(rows: Any) -> Any:
        reach = 1
        while reach < rows.shape[1]:
            rows = _times(rows, _gather_with_ones(rows, functools.partial(_shift_right, by=reach)))
            reach *= 2
        return rows

    return along(x, dim, run)


def _shift_right(labels: Labels, by: int) -> Labels:
    return np.concatenate([np.full((labels.shape[0], by), -1, dtype=np.int64), labels[:, :-by]], 1)


def along(x: Any, dim: int, run: Callable[[Any], Any]) -> Any:
    """``run`` applied to the matrix whose rows lie along ``dim``, in the shape of ``x``."""
    dims = (dim % x.ndim,) if x.ndim else ()
    result = run(c.each(lambda node: as_rows(node, dims), x))
    order = [d for d in range(x.ndim) if d not in dims] + list(dims)
    inverse_order = np.argsort(order).tolist()
    shape = [x.shape[d] for d in order]
    return c.each(
        lambda node: permute(reshape(node, shape), inverse_order) if x.ndim else reshape(node, ()),
        result,
    )


class Scan(Node):
    """States from ``step(state, element)``, starting with ``first(element)``; ``end`` converts a
    state to an element."""

    def __init__(
        self,
        step: Step,
        matrix: Node,
        kind: str = "real",
        first: Step | None = None,
        end: End | None = None,
    ) -> None:
        super().__init__(matrix.shape, (matrix,))
        self.step, self.kind, self.first, self.end = step, kind, first, end

    def _rows(self, positions: Positions) -> list[tuple[int, list[int]]]:
        """Requested rows, and their requested columns in ascending order."""
        rows, columns = np.divmod(positions, max(self.shape[1], 1))
        ends = [*np.flatnonzero(np.diff(rows)).tolist(), rows.size - 1] if rows.size else []
        starts = [0, *(end + 1 for end in ends[:-1])]
        return [
            (int(rows[s]), columns[s : e + 1].tolist()) for s, e in zip(starts, ends, strict=True)
        ]

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        width = self.shape[1]
        lists = [
            np.arange(row * width, row * width + columns[-1] + 1)
            for row, columns in self._rows(positions)
        ]
        return (np.concatenate(lists) if lists else np.empty(0, dtype=np.int64),)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        values, results, begin = given[0].tolist(), [], 0
        for _, columns in self._rows(positions):
            count = columns[-1] + 1
            row = values[begin : begin + count]
            states = list(
                itertools.accumulate(
                    row[1:], self.step, initial=self.first(None, row[0]) if self.first else row[0]
                )
            )
            results += [
                states[column] if self.end is None else self.end(states[column])
                for column in columns
            ]
            begin += count
        return results


class RunningTotal(Scan):
    """Cumulative sums; the gradient is the reverse cumulative sum."""

    def __init__(self, matrix: Node) -> None:
        super().__init__(
            balls.add if matrix.kind == "real" else _whole_sum,
            matrix,
            "real" if matrix.kind == "real" else "int",
        )

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        flipped = labeled(gradient, lambda labels: labels[:, ::-1])
        return (labeled(RunningTotal(flipped), lambda labels: labels[:, ::-1]),)


def _whole_sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def running_total(x: Any, dim: int) -> Any:
    return along(x, dim, lambda rows: c.each(RunningTotal, rows))
