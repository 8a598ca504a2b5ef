"""Distinct values, slices and runs with their counts, and histograms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import balls
from .. import complex_numbers as c
from ..balls import Element, Unknowable, Unsure
from ..computed_positions import Deferred
from ..elementwise import Function, div, sub, to_real
from ..movement import Labels, gather, scatter
from ..nodes import Constant, Node, everything, whole_numbers
from ..orders import is_nan, keys
from ..sums import sum_
from . import entry


class _Runs:
    """Runs of equal rows in a given order: the first row of each run, the run of each row, the
    lengths of the runs.

    Equal rows are represented by the first one in the tensor; zeros of either sign are equal. NaN
    equals nothing, and comes last, as torch sorts it.
    """

    def __init__(self, rows: list[tuple[Any, ...]], ordered: bool) -> None:
        order = (
            sorted(range(len(rows)), key=rows.__getitem__) if ordered else list(range(len(rows)))
        )
        self.first: list[int] = []
        self.counts: list[int] = []
        self.inverse = np.zeros(len(rows), dtype=np.int64)
        for place, i in enumerate(order):
            if not place or rows[i] != rows[order[place - 1]]:
                self.first.append(i)
                self.counts.append(0)
            self.counts[-1] += 1
            self.inverse[i] = len(self.first) - 1


def _runs(self: Any, dim: int | None, ordered: bool) -> Callable[[], _Runs]:
    if c.is_complex(self):
        raise Unknowable("an order of complex numbers")

    @functools.cache
    def find() -> _Runs:
        values = everything(self).reshape(-1).tolist()
        unordered = [place for place, value in enumerate(values) if is_nan(value)]
        if unordered and ordered and dim is not None:
            raise Unknowable("an order of slices with NaN among them")
        result = np.empty(self.size, dtype=object)
        numbers = iter(keys([value for value in values if not is_nan(value)]))
        result[:] = [(1, n) if is_nan(v) else (0, next(numbers)) for n, v in enumerate(values)]
        table = result.reshape(self.shape)
        rows = (
            table.reshape(-1, 1)
            if dim is None
            else np.moveaxis(table, dim, 0).reshape(self.shape[dim], -1)
        )
        return _Runs([tuple(row) for row in rows.tolist()], ordered)

    return find


def _unique_results(
    self: Any, dim: int | None, ordered: bool, result: Any
) -> tuple[Node, Node, Node]:
    runs = _runs(self, dim, ordered)
    labels = np.arange(self.size).reshape(self.shape)
    flat = labels.reshape(-1) if dim is None else labels
    shape = tuple(result[0].shape)

    def first() -> Labels:
        values = np.take(flat, runs().first, dim or 0)
        if values.shape != shape:
            raise Unknowable("there are other values than the call met")
        return values

    def deferred(position: int, make: Callable[[], Any]) -> Node:
        empty = not result[position].numel()
        return (
            Constant(np.zeros(tuple(result[position].shape), np.int64))
            if empty
            else Deferred(tuple(result[position].shape), make)
        )

    def inverses() -> Any:
        if ordered and sum(map(is_nan, everything(self).reshape(-1).tolist())) > 1:
            raise Unknowable("which NaN is which")
        return runs().inverse.reshape(tuple(result[1].shape))

    inverse = deferred(1, inverses)
    return gather(self, first, shape), inverse, deferred(2, lambda: np.asarray(runs().counts))


@entry("_unique2")
def unique(
    self: Any,
    result: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    return _unique_results(self, None, True, result)


@entry("unique_dim")
def unique_dim(
    self: Any,
    dim: int,
    result: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Slices in lexicographic order."""
    return _unique_results(self, dim, True, result)


@entry("unique_consecutive")
def unique_consecutive(
    self: Any,
    result: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: Any = None,
) -> Any:
    return _unique_results(self, dim, False, result)


def _bin(x: Element, low: Element, high: Element, bins: int) -> int:
    """The bin of a number, −1 outside; bins are half open, except the last one, which includes its
    upper bound."""
    if type(x) is float and x - x != 0.0:
        return -1
    outside = [balls.less(x, low), balls.less(high, x)]
    if True in outside:
        return -1
    place = (balls.ball(x) - balls.ball(low)) * bins / (balls.ball(high) - balls.ball(low))
    index = place.floor().unique_fmpz()
    if None in outside or index is None:
        raise Unsure("a bin that balls do not decide")
    return min(int(index), bins - 1)


@entry("histc")
def histc(self: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """Between equal bounds only what equals them counts, in the middle; bounds of 0 are those of
    the numbers."""
    low, high = balls.element(float(min)), balls.element(float(max))
    numbers = to_real(self)
    if min == max == 0:
        low, high = _extremes(numbers)
    if balls.less(low, high) is not True:
        is_at = Function("at", lambda x: _at(balls.real(x), low, bins // 2), kind="int")
        place = is_at(numbers)
    else:
        place = Function("bin", lambda x: _bin(balls.real(x), low, high, bins), kind="int")(numbers)
    return scatter(Constant(np.ones(self.shape)), lambda: whole_numbers(place).reshape(-1), (bins,))


@entry("histogram")
def histogram(
    self: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Sums of weights, and the edges of the bins: those given, or equal steps between two numbers,
    which are half of one less and more where they are equal, as in NumPy. Densities are divided by
    the sum of all and by the width."""
    numbers = to_real(self)
    if isinstance(bins, Node):
        edges: Node = to_real(bins)
        among = functools.partial(_between, everything(edges).tolist())
        place = Function("place", among, kind="int")
    else:
        low, high = _extremes(numbers) if range is None else map(balls.element, range)
        if balls.equal(low, high) is True:
            half = balls.element(0.5)
            low, high = balls.sub(low, half), balls.add(high, half)
        steps = Constant(np.arange(bins + 1, dtype=np.float64))
        width = balls.div(balls.sub(high, low), balls.element(float(bins)))
        edges = Function("edge", lambda i: balls.add(low, balls.mul(i, width)))(steps)
        place = Function("bin", lambda x: _bin(balls.real(x), low, high, bins), kind="int")
    count = edges.size - 1
    source = Constant(np.ones(self.shape)) if weight is None else to_real(weight)
    sums = scatter(source, lambda: whole_numbers(place(numbers)).reshape(-1), (count,))
    if density:
        begins, ends = (
            gather(edges, np.arange(first, first + count), (count,)) for first in (0, 1)
        )
        sums = div(div(sums, sum_(sums)), sub(ends, begins))
    return sums, edges


def _between(edges: list[Element], x: Element) -> int:
    """The place of a number between ascending edges, −1 outside; the last one belongs to the last
    bin."""
    if type(x) is float and x != x:
        return -1
    above = [balls.less(x, edge) for edge in edges]
    beyond = balls.less(edges[-1], x)
    if None in above or beyond is None:
        raise Unsure("a bin that balls do not decide")
    below = above.count(False)  # edges at or below the number
    return -1 if beyond or not below else min(below - 1, len(edges) - 2)


def _at(x: Element, number: Element, place: int) -> int:
    """``place`` if a number equals ``number``, else −1."""
    if type(x) is float and x - x != 0.0:
        return -1
    differs = balls.less(x, number), balls.less(number, x)
    if None in differs:
        raise Unsure("a bound that balls do not decide")
    return -1 if True in differs else place


def _extremes(numbers: Any) -> tuple[Element, Element]:
    """The least and the greatest number."""
    values = everything(numbers).reshape(-1).tolist()
    if not values or any(type(v) is float and v - v != 0.0 for v in values):
        raise Unknowable("a histogram whose range is that of no finite numbers")
    low = high = balls.real(values[0])
    for value in map(balls.real, values):
        below, above = balls.less(value, low), balls.less(high, value)
        if below is None or above is None:
            raise Unsure("a least or greatest number that balls do not decide")
        low, high = value if below else low, value if above else high
    return low, high
