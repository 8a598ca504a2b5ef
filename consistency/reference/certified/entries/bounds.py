"""Maxima and minima of two numbers, and clamping.

Where both are equal there is no derivative, and torch chooses a subgradient. Since 2.14 it is the
one of smallest norm (pytorch#191142): two tensors get half of the gradient each, and a tensor at a
bound that is a number gets nothing. Until 2.13 the first tensor got the whole gradient. Here it is
the choice of the torch that runs, whose float64 is the reference.
"""

from __future__ import annotations

import math
from typing import Any

import torch

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
    maximum,
    minimum,
    node_of,
    on_numbers,
    or_,
    unless,
    where,
)
from ..integers import whole
from ..nodes import Node
from . import entry

SMALLEST_NORM = torch.__version__ >= "2.14"
_OF_EQUALS = (0.5, 0.5) if SMALLEST_NORM else (1.0, 0.0)  # the shares of two equal numbers


def _fmax(a: Element, b: Element) -> Element:
    """The larger one; a number in preference to NaN."""
    if type(a) is float and a != a:
        return b
    return a if type(b) is float and b != b else balls.maximum(a, b)


def _fmin(a: Element, b: Element) -> Element:
    return -_fmax(-a, -b)


def _both_nan(a: Node, b: Node) -> Node:
    return and_(is_nan(a), is_nan(b))


def _first_share(wins: Node, a: Node, b: Node) -> Node:
    """The share of ``a`` in the gradient, where it ``wins`` over another number."""
    share = where(equal(a, b), _OF_EQUALS[0], where(or_(wins, is_nan(b)), 1.0, 0.0))
    return unless(share, _both_nan(a, b))


def _second_share(wins: Node, a: Node, b: Node) -> Node:
    """The share of ``b``, where ``a`` ``wins``."""
    share = where(equal(a, b), _OF_EQUALS[1], where(or_(wins, is_nan(b)), 0.0, 1.0))
    return unless(share, _both_nan(a, b))


larger = Function(
    "fmax",
    on_numbers(_fmax),
    (
        lambda a, b, y: _first_share(less(b, a), a, b),
        lambda a, b, y: _second_share(less(b, a), a, b),
    ),
)
smaller = Function(
    "fmin",
    on_numbers(_fmin),
    (
        lambda a, b, y: _first_share(less(a, b), a, b),
        lambda a, b, y: _second_share(less(a, b), a, b),
    ),
)


@entry("fmax")
def fmax(self: Any, other: Any) -> Any:
    return w.maximum(self, other) if whole(self, other) else larger(self, other)


@entry("fmin")
def fmin(self: Any, other: Any) -> Any:
    return w.minimum(self, other) if whole(self, other) else smaller(self, other)


def _within(x: Element, low: Element, high: Element) -> Element:
    return balls.minimum(balls.maximum(x, low), high)


def _inside(x: Node, low: Node, high: Node, y: Node) -> Node:
    """The share of the number itself; unknown for NaN."""
    if SMALLEST_NORM:
        inside = where(and_(less(low, x), less(x, high)), 1.0, _of_bounds(x, low, high))
    else:
        inside = where(and_(less_equal(low, x), less_equal(x, high)), 1.0, 0.0)
    return unless(inside, or_(is_nan(x), or_(is_nan(low), is_nan(high))))


def _of_bounds(x: Node, low: Node, high: Node) -> Node:
    """½ at one of two different bounds in order, 1 at two equal ones, 0 outside."""
    at_one = and_(or_(equal(x, low), equal(x, high)), less(low, high))
    return where(and_(equal(x, low), equal(low, high)), 1.0, where(at_one, 0.5, 0.0))


def _empty(x: Node, low: Node, high: Node) -> Node:
    """Both bounds are equal and differ from the number: then torch gives a gradient to none of
    them until 2.13."""
    if SMALLEST_NORM:
        return is_nan(x)
    return or_(is_nan(x), and_(equal(low, high), or_(less(x, low), less(high, x))))


def _below(x: Node, low: Node, high: Node, y: Node) -> Node:
    share = where(and_(less(x, low), less(low, high)), 1.0, 0.0)
    if SMALLEST_NORM:
        share = where(and_(equal(x, low), less(low, high)), 0.5, share)
        share = where(and_(less(x, low), equal(low, high)), 1.0, share)
    return unless(share, _empty(x, low, high))


def _above(x: Node, low: Node, high: Node, y: Node) -> Node:
    share = where(or_(less(high, x), less(high, low)), 1.0, 0.0)
    if SMALLEST_NORM:
        share = where(and_(equal(x, high), less(low, high)), 0.5, share)
    return unless(share, _empty(x, low, high))


def _strictly_above(x: Node, bound: Node, y: Node) -> Node:
    return unless(where(less(bound, x), 1.0, 0.0), or_(is_nan(x), is_nan(bound)))


def _strictly_below(x: Node, bound: Node, y: Node) -> Node:
    return unless(where(less(x, bound), 1.0, 0.0), or_(is_nan(x), is_nan(bound)))


between = Function("clamp", on_numbers(_within), (_inside, _below, _above))
at_least = Function("clamp below", on_numbers(balls.maximum), (_strictly_above, None))
at_most = Function("clamp above", on_numbers(balls.minimum), (_strictly_below, None))


@entry("clamp", "clip")
def clamp(self: Any, min: Any = None, max: Any = None) -> Any:
    """The upper bound takes precedence over the lower one."""
    if whole(self, *(b for b in (min, max) if b is not None)):
        result = self if min is None else w.maximum(self, min)
        return result if max is None else w.minimum(result, max)
    low, high = (
        node_of(end if bound is None else bound)
        for bound, end in ((min, -math.inf), (max, math.inf))
    )
    if not SMALLEST_NORM or not (min is None or max is None or _numbers(min, max)):
        result = between(self, low, high)
    else:
        upwards, downwards = (at_least, at_most) if _numbers(min, max) else (maximum, minimum)
        result = self if min is None else upwards(self, low)
        result = result if max is None else downwards(result, high)
    return doubted(result, or_(is_nan(low), is_nan(high)))


def _numbers(*bounds: Any) -> bool:
    return not any(isinstance(bound, Node) for bound in bounds)


@entry("clamp_min")
def clamp_min(self: Any, min: Any) -> Any:
    return clamp(self, min=min)


@entry("clamp_max")
def clamp_max(self: Any, max: Any) -> Any:
    return clamp(self, max=max)
