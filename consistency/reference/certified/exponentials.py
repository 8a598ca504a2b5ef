"""Softmax and other sums of exponentials, shifted by the row's largest element, as torch defines
them."""

from __future__ import annotations

from typing import Any

from flint import arb

from . import elementwise as e
from . import functions as f
from . import sums
from .balls import Element
from .elementwise import to_real
from .movement import reshape
from .nodes import Node


def _exact_largest(values: list[Element]) -> Element:
    """An exact number near the largest element (the midpoint, if that is a ball). NaN if any is
    NaN."""
    largest: Element = None
    for value in values:
        if type(value) is float and value != value:
            return value
        middle = value.mid() if type(value) is arb else value
        if largest is None or middle > largest:
            largest = middle
    return largest


def _exact_largest_finite(values: list[Element]) -> Element:
    finite = [v for v in values if type(v) is arb or v == 0.0]
    return _exact_largest(finite) if finite else 0.0


def shift(x: Node, dim: Any, *, finite: bool = False) -> Node:
    """The number subtracted from each row before the exponential; without a gradient, because it
    affects only infinities.

    If it is an infinity (not with ``finite``), rows become NaN as in torch: ∞ − ∞.
    """
    return sums.reduce_rows(
        _exact_largest_finite if finite else _exact_largest, to_real(x), dim, True
    )


def softmax(x: Node, dim: Any) -> Node:
    powers = f.exp(e.sub(x, shift(x, dim)))
    return e.div(powers, sums.sum_(powers, dim, True))


def log_softmax(x: Node, dim: Any) -> Node:
    shifted = e.sub(x, shift(x, dim))
    return e.sub(shifted, f.log(sums.sum_(f.exp(shifted), dim, True)))


def safe_softmax(x: Node, dim: Any) -> Node:
    """Softmax in which rows of only −∞ become 0."""
    hidden = e.equal(sums.amax(x, dim, True), float("-inf"))
    return e.where(hidden, 0.0, softmax(e.where(hidden, 0.0, x), dim))


def logsumexp(x: Node, dim: Any, keepdim: bool = False) -> Node:
    x = to_real(x)
    by = shift(x, dim, finite=True)
    dims = sums.dims_of(dim, x.ndim)
    result = e.add(f.log(sums.sum_(f.exp(e.sub(x, by)), dim, True)), by)
    return reshape(result, sums.reduced_shape(x.shape, dims, keepdim))
