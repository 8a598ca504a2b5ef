"""Maxima and minima of rows, and their indices."""

from __future__ import annotations

from typing import Any

from .. import elementwise as e
from .. import row_extremes, sums
from . import entry


@entry("amax")
def amax(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return sums.amax(self, dim, keepdim)


@entry("amin")
def amin(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return sums.amin(self, dim, keepdim)


@entry("aminmax")
def aminmax(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return sums.amin(self, dim, keepdim), sums.amax(self, dim, keepdim)


@entry("max")
def max_(self: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    """Of two tensors, of all elements, or along a dimension: then with indices."""
    if other is not None:
        return e.maximum(self, other)
    return (
        row_extremes.of_all(self, True)
        if dim is None
        else row_extremes.chosen(self, dim, keepdim, True)
    )


@entry("min")
def min_(self: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    if other is not None:
        return e.minimum(self, other)
    return (
        row_extremes.of_all(self, False)
        if dim is None
        else row_extremes.chosen(self, dim, keepdim, False)
    )


@entry("argmax")
def argmax(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return row_extremes.places(self, dim, keepdim, True)


@entry("argmin")
def argmin(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return row_extremes.places(self, dim, keepdim, False)


@entry("cummax")
def cummax(self: Any, dim: int) -> Any:
    return row_extremes.running(self, dim, True)


@entry("cummin")
def cummin(self: Any, dim: int) -> Any:
    return row_extremes.running(self, dim, False)
