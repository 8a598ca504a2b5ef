"""Elementwise arithmetic and selection; exact integers, which wrap around when written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from .. import integers as w
from ..complex_numbers import Pair
from ..elementwise import doubted, node_of, not_, or_, to_real
from ..integers import whole
from ..nodes import Constant, Node
from . import entry


def nonfinite(*xs: Any) -> Node | None:
    """Where any part is infinite or NaN; None where none can be."""
    total: Node | None = None
    for x in xs:
        for part in (x.re, x.im) if isinstance(x, Pair) else (x,) if isinstance(x, Node) else ():
            test = not_(e.is_finite(part))
            total = test if total is None else or_(total, test)
    return total


def beyond_doubt(made: Any, *operands: Any) -> Any:
    """A complex result, unknown where an operand is infinite or NaN.

    C99 recovers infinities from products whose parts are NaN, torch's vectorized code does not, and
    nothing is documented.
    """
    doubt = nonfinite(*operands) if isinstance(made, Pair) else None
    return made if doubt is None else Pair(doubted(made.re, doubt), doubted(made.im, doubt))


@entry("add")
def add(self: Any, other: Any, alpha: Any = 1) -> Any:
    if whole(self, other, alpha):
        return w.add(self, other if alpha == 1 else w.mul(other, alpha))
    return c.add(self, other if alpha == 1 else mul(other, alpha))


@entry("sub")
def sub(self: Any, other: Any, alpha: Any = 1) -> Any:
    if whole(self, other, alpha):
        return w.sub(self, other if alpha == 1 else w.mul(other, alpha))
    return c.sub(self, other if alpha == 1 else mul(other, alpha))


@entry("rsub")
def rsub(self: Any, other: Any, alpha: Any = 1) -> Any:
    return sub(other, self, alpha)


@entry("mul")
def mul(self: Any, other: Any) -> Any:
    if whole(self, other):
        return w.mul(self, other)
    return beyond_doubt(c.mul(self, other), self, other)


@entry("neg")
def neg(self: Any) -> Any:
    return w.neg(self) if whole(self) else c.neg(self)


@entry("square")
def square(self: Any) -> Any:
    return mul(self, self)


@entry("abs")
def abs_(self: Any) -> Any:
    return w.abs_(self) if whole(self) else c.modulus(self)


def quotient(a: Any, b: Any) -> Any:
    """a ÷ b, unknown where a complex divisor is 0."""
    result = c.div(a, b)
    if not isinstance(result, Pair):
        return result
    doubt = nonfinite(a, b)
    by_zero = e.equal(c.square_modulus(b), 0.0)
    doubt = by_zero if doubt is None else or_(doubt, by_zero)
    return Pair(doubted(result.re, doubt), doubted(result.im, doubt))


@entry("div", "true_divide")
def div(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return quotient(self, other)
    if whole(self, other):
        return (w.floor_divide if rounding_mode == "floor" else w.truncate_divide)(self, other)
    return floor_divide(self, other) if rounding_mode == "floor" else f.trunc(c.div(self, other))


@entry("floor_divide")
def floor_divide(self: Any, other: Any) -> Any:
    """The rule of Python and NumPy, which torch documents (`torch.div`): an infinity divided by
    anything is NaN, and a number divided by an infinity of the other sign is -1. Division by zero,
    which Python refuses, is that without rounding, as in NumPy."""
    if whole(self, other):
        return w.floor_divide(self, other)
    a, b = node_of(self), node_of(other)
    against = or_(e.and_(e.less(a, 0.0), e.less(0.0, b)), e.and_(e.less(0.0, a), e.less(b, 0.0)))
    ratio = c.div(self, other)  # by an infinity: a zero with the sign of both
    finite = e.where(e.is_infinite(b), e.where(against, -1.0, ratio), f.floor(ratio))
    rounded = e.where(or_(e.is_infinite(a), e.is_nan(a)), math.nan, finite)
    by_zero = e.and_(e.less_equal(b, 0.0), e.less_equal(0.0, b))
    return e.where(by_zero, ratio, rounded)


@entry("remainder")
def remainder(self: Any, other: Any) -> Any:
    return (w if whole(self, other) else f).remainder(self, other)


@entry("fmod")
def fmod(self: Any, other: Any) -> Any:
    return (w if whole(self, other) else f).fmod(self, other)


@entry("reciprocal")
def reciprocal(self: Any) -> Any:
    return quotient(1.0, self)


@entry("pow")
def power(self: Any, exponent: Any) -> Any:
    if whole(self, exponent):
        return w.power(self, exponent)
    if not c.is_complex(self, exponent):
        return f.pow_(self, exponent)
    from ..complex_functions import power as complex_power

    return beyond_doubt(complex_power(self, exponent), self, exponent)


@entry("where")
def where(condition: Any, self: Any, other: Any) -> Any:
    return c.where(condition, self, other)


@entry("maximum")
def maximum(self: Any, other: Any) -> Any:
    return (w if whole(self, other) else e).maximum(self, other)


@entry("minimum")
def minimum(self: Any, other: Any) -> Any:
    return (w if whole(self, other) else e).minimum(self, other)


@entry("addcmul")
def addcmul(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    if whole(self, tensor1, tensor2, value):
        return w.add(self, w.mul(w.mul(tensor1, tensor2), value))
    return add(self, mul(mul(tensor1, tensor2), value))


@entry("addcdiv")
def addcdiv(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return add(self, mul(quotient(tensor1, tensor2), value))


@entry("lerp")
def lerp(self: Any, end: Any, weight: Any) -> Any:
    """start + weight·(end − start); unknown for infinite ends, where torch's two formulas
    differ."""
    result = c.add(self, c.mul(weight, c.sub(end, self)))
    if isinstance(result, Pair):
        return beyond_doubt(result, self, end, weight)
    return doubted(
        result, or_(e.is_infinite(to_real(node_of(self))), e.is_infinite(to_real(node_of(end))))
    )


@entry("hypot")
def hypot(self: Any, other: Any) -> Any:
    return f.hypot(self, other)


@entry("atan2", "arctan2")
def atan2(self: Any, other: Any) -> Any:
    return f.atan2(self, other)


@entry("copysign")
def copysign(self: Any, other: Any) -> Any:
    """The sign bit of a NaN that is given is known; of one that is computed it is not."""
    if isinstance(other, Constant) and other.kind == "real" and np.isnan(other.data).any():
        signs = np.copysign(1.0, other.data)
        other = Constant(np.where(np.isnan(other.data), signs, other.data))
    return f.copysign(self, other)
