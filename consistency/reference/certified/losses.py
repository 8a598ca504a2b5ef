"""Elementwise losses and their reductions."""

from __future__ import annotations

from typing import Any

from flint import arb

from . import balls, sums
from .activation_functions import softplus
from .balls import Element
from .elementwise import (
    Function,
    add,
    and_,
    div,
    less,
    maximum,
    mul,
    neg,
    not_,
    on_numbers,
    sub,
    unless,
    where,
)
from .functions import abs_, log, log1p, square
from .nodes import Detached, Node

NONE, MEAN, SUM = 0, 1, 2


def reduced(terms: Node, reduction: int) -> Node:
    return (
        terms if reduction == NONE else sums.mean(terms) if reduction == MEAN else sums.sum_(terms)
    )


def _clamped(x: Element, bound: Element) -> Element:
    return balls.minimum(balls.maximum(x, -bound), bound)


_within = Function("within ±", on_numbers(_clamped))


def _huber(d: Element, delta: Element) -> Element:
    """d²/2 up to delta, then delta·(|d| − delta/2)."""
    inside = balls.mul(balls.mul(d, d), arb(0.5))
    outside = balls.mul(delta, balls.sub(abs(d), balls.mul(delta, arb(0.5))))
    return (
        inside
        if type(d) is float and d != d
        else balls.choose(balls.less(delta, abs(d)), outside, inside)
    )


_huber_of = Function("huber", on_numbers(_huber), (lambda d, delta, y: _within(d, delta), None))


def huber(x: Node, target: Node, delta: float) -> Node:
    return _huber_of(sub(x, target), delta)


def smooth_l1(x: Node, target: Node, beta: float) -> Node:
    """The Huber loss divided by beta; the absolute difference if beta is 0."""
    if not beta:
        return abs_(sub(x, target))
    return div(_huber_of(sub(x, target), beta), beta)


def _certain(x: Node, y: Node) -> Node:
    """Unknown slope at 0 and 1: there the logarithms are clamped at −100, and torch's slope is
    neither theirs nor 0."""
    return unless(1.0, not_(and_(less(0.0, x), less(x, 1.0))))


_probability = Function("probability", on_numbers(lambda x: x), (_certain,))


def cross_entropy(x: Node, target: Node) -> Node:
    """−t·log x − (1 − t)·log(1 − x), with logarithms ≥ −100, as documented."""
    x = _probability(x)
    first = mul(target, maximum(log(x), -100.0))
    second = mul(sub(1.0, target), maximum(log1p(neg(x)), -100.0))
    return neg(add(first, second))


def cross_entropy_with_logits(x: Node, target: Node, positive: Node | None) -> Node:
    """(1 − t)·x + (1 + (p − 1)·t)·log(1 + e⁻ˣ)."""
    tail = softplus(neg(x))
    if positive is not None:
        tail = mul(add(1.0, mul(sub(positive, 1.0), target)), tail)
    return add(mul(sub(1.0, target), x), tail)


def weighted(terms: Node, weight: Node | None) -> Node:
    return terms if weight is None else mul(terms, weight)


def hinge_power(z: Node, p: Any) -> Node:
    """max(0, z)ᵖ for p = 1 or 2; its slope at 0 is 0."""
    raised = square(z) if p == 2 else z
    return where(less(0.0, z), raised, mul(Detached(z), 0.0))
