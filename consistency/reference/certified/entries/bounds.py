"""Maxima and minima of two numbers, and clamping."""

from __future__ import annotations

from typing import Any

from .. import balls
from .. import integers as w
from ..balls import Element
from ..elementwise import (
    Function,
    and_,
    doubted,
    equal,
    is_nan,
    less,
    less_equal,
    node_of,
    on_numbers,
    or_,
    unless,
    where,
)
from ..integers import whole
from ..nodes import Node
from . import entry


def _fmax(a: Element, b: Element) -> Element:
    """The larger one; a number in preference to NaN."""
    if type(a) is float and a != a:
        return b
    return a if type(b) is float and b != b else balls.maximum(a, b)


def _fmin(a: Element, b: Element) -> Element:
    return -_fmax(-a, -b)


def _both_nan(a: Node, b: Node) -> Node:
    return and_(is_nan(a), is_nan(b))


def _first_is_larger(a: Node, b: Node, y: Node) -> Node:
    """Of two equal numbers the first gets the whole gradient, as in torch."""
    return unless(where(or_(less_equal(b, a), is_nan(b)), 1.0, 0.0), _both_nan(a, b))


def _second_is_larger(a: Node, b: Node, y: Node) -> Node:
    return unless(where(or_(less_equal(b, a), is_nan(b)), 0.0, 1.0), _both_nan(a, b))


def _first_is_smaller(a: Node, b: Node, y: Node) -> Node:
    return unless(where(or_(less_equal(a, b), is_nan(b)), 1.0, 0.0), _both_nan(a, b))


def _second_is_smaller(a: Node, b: Node, y: Node) -> Node:
    return unless(where(or_(less_equal(a, b), is_nan(b)), 0.0, 1.0), _both_nan(a, b))


larger = Function("fmax", on_numbers(_fmax), (_first_is_larger, _second_is_larger))
smaller = Function("fmin", on_numbers(_fmin), (_first_is_smaller, _second_is_smaller))


@entry("fmax")
def fmax(self: Any, other: Any) -> Any:
    return w.maximum(self, other) if whole(self, other) else larger(self, other)


@entry("fmin")
def fmin(self: Any, other: Any) -> Any:
    return w.minimum(self, other) if whole(self, other) else smaller(self, other)


def _within(x: Element, low: Element, high: Element) -> Element:
    return balls.minimum(balls.maximum(x, low), high)


def _inside(x: Node, low: Node, high: Node, y: Node) -> Node:
    """At the bounds the gradient flows; unknown for NaN."""
    return unless(
        where(and_(less_equal(low, x), less_equal(x, high)), 1.0, 0.0),
        or_(is_nan(x), or_(is_nan(low), is_nan(high))),
    )


def _empty(x: Node, low: Node, high: Node) -> Node:
    """Both bounds are equal and differ from the number: then torch gives a gradient to none of
    them."""
    return or_(is_nan(x), and_(equal(low, high), or_(less(x, low), less(high, x))))


def _below(x: Node, low: Node, high: Node, y: Node) -> Node:
    return unless(where(and_(less(x, low), less(low, high)), 1.0, 0.0), _empty(x, low, high))


def _above(x: Node, low: Node, high: Node, y: Node) -> Node:
    return unless(where(or_(less(high, x), less(high, low)), 1.0, 0.0), _empty(x, low, high))


between = Function("clamp", on_numbers(_within), (_inside, _below, _above))


@entry("clamp", "clip")
def clamp(self: Any, min: Any = None, max: Any = None) -> Any:
    """The upper bound takes precedence over the lower one."""
    if whole(self, *(b for b in (min, max) if b is not None)):
        result = self if min is None else w.maximum(self, min)
        return result if max is None else w.minimum(result, max)
    low, high = (
        node_of(end if bound is None else bound)
        for bound, end in ((min, -float("inf")), (max, float("inf")))
    )
    return doubted(between(self, low, high), or_(is_nan(low), is_nan(high)))


@entry("clamp_min")
def clamp_min(self: Any, min: Any) -> Any:
    return clamp(self, min=min)


@entry("clamp_max")
def clamp_max(self: Any, max: Any) -> Any:
    return clamp(self, max=max)
