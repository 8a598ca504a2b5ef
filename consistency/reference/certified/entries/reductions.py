"""Sums, means, products, counts and logical reductions of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import complex_numbers as c
from .. import elementwise as e
from .. import movement, scans, sums
from ..balls import Element
from ..complex_numbers import Pair
from ..elementwise import Function
from ..nodes import Node
from . import entry


@entry("sum")
def sum_(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return c.sum_(self, dim, keepdim)


@entry("mean")
def mean(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return c.mean(self, dim, keepdim)


# NaN as 0 with slope 0; times the infinite gradient of a mean of no elements, that is NaN.
_numbers = Function(
    "numbers",
    lambda x: 0.0 if type(x) is float and x != x else x,
    (lambda x, y: e.where(e.is_nan(x), 0.0, 1.0),),
)


@entry("nansum")
def nansum(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if not isinstance(self, Pair) and self.kind == "real":
        self = _numbers(self)
    return c.sum_(self, dim, keepdim)


@entry("prod")
def prod(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return scans.prod(self, dim, keepdim)


@entry("trace")
def trace(self: Any) -> Any:
    rows, columns = self.shape
    return c.sum_(c.each(lambda x: movement.view(x, (min(rows, columns),), (columns + 1,)), self))


def truths(x: Any) -> Node:
    """Which elements are not 0; NaN counts as nonzero."""
    return e.or_(e.truth(x.re), e.truth(x.im)) if isinstance(x, Pair) else e.truth(x)


def _all(values: list[Element]) -> bool | None:
    return False if False in values else None if None in values else True


def _any(values: list[Element]) -> bool | None:
    return True if True in values else None if None in values else False


@entry("all")
def all_(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduced_truths(_all, self, dim, keepdim)


@entry("any")
def any_(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduced_truths(_any, self, dim, keepdim)


def _reduced_truths(row: Callable[..., bool | None], self: Any, dim: Any, keepdim: bool) -> Any:
    """Over an empty list of dimensions nothing is reduced, unlike a sum, which is that of all."""
    if dim is not None and not isinstance(dim, int) and not len(dim):
        return truths(self)
    return sums.reduce_rows(row, truths(self), dim, keepdim, kind="bool")


@entry("count_nonzero")
def count_nonzero(self: Any, dim: Any = None) -> Any:
    return sums.sum_(truths(self), dim)
