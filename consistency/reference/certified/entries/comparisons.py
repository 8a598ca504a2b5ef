"""Comparisons, tests of numbers, logic, bits, divisors."""

from __future__ import annotations

from typing import Any

import torch
from flint import arb

from .. import balls
from .. import complex_numbers as c
from .. import elementwise as e
from .. import integers as w
from ..balls import Element, Unknowable
from ..complex_numbers import Pair
from ..elementwise import Function, and_, is_infinite, is_nan, node_of, not_, on_numbers, or_, truth
from ..movement import expand, reshape
from ..nodes import Node
from ..sums import reduce_rows
from . import ENTRIES, entry


def _parts(x: Any) -> tuple[Node, ...]:
    return (x.re, x.im) if isinstance(x, Pair) else (node_of(x),)


def _any(tests: list[Node]) -> Node:
    return tests[0] if len(tests) == 1 else or_(*tests)


@entry("eq")
def eq(self: Any, other: Any) -> Any:
    if c.is_complex(self, other):
        a, b = c.pair(self), c.pair(other)
        return and_(e.equal(a.re, b.re), e.equal(a.im, b.im))
    return e.equal(self, other)


@entry("ne")
def ne(self: Any, other: Any) -> Any:
    return not_(eq(self, other))


@entry("lt")
def lt(self: Any, other: Any) -> Any:
    return e.less(self, other)


@entry("gt")
def gt(self: Any, other: Any) -> Any:
    return e.less(other, self)


@entry("le")
def le(self: Any, other: Any) -> Any:
    return e.less_equal(self, other)


@entry("ge")
def ge(self: Any, other: Any) -> Any:
    return e.less_equal(other, self)


@entry("isnan")
def isnan(self: Any) -> Any:
    return _any([is_nan(x) for x in _parts(self)])


@entry("isinf")
def isinf(self: Any) -> Any:
    return _any([is_infinite(x) for x in _parts(self)])


@entry("isfinite")
def isfinite(self: Any) -> Any:
    return not_(_any([not_(e.is_finite(x)) for x in _parts(self)]))


@entry("isposinf")
def isposinf(self: Any) -> Any:
    return and_(is_infinite(self), e.less(0.0, self))


@entry("isneginf")
def isneginf(self: Any) -> Any:
    return and_(is_infinite(self), e.less(self, 0.0))


@entry("isreal")
def isreal(self: Any) -> Any:
    return e.equal(self.im, 0.0) if isinstance(self, Pair) else not_(e.less(self, self))


def _truths(x: Any) -> Node:
    return _any([truth(part) for part in _parts(x)])


@entry("logical_not")
def logical_not(self: Any) -> Any:
    return not_(_truths(self))


@entry("logical_and")
def logical_and(self: Any, other: Any) -> Any:
    return and_(_truths(self), _truths(other))


@entry("logical_or")
def logical_or(self: Any, other: Any) -> Any:
    return or_(_truths(self), _truths(other))


@entry("logical_xor")
def logical_xor(self: Any, other: Any) -> Any:
    a, b = _truths(self), _truths(other)
    return or_(and_(a, not_(b)), and_(not_(a), b))


# --- whole numbers

for _name, _of in {
    "bitwise_and": w.bit_and,
    "bitwise_or": w.bit_or,
    "bitwise_xor": w.bit_xor,
    "gcd": w.gcd,
}.items():
    ENTRIES[_name] = (lambda of: lambda self, other: of(self, other))(_of)
for _operator, _name in {
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
}.items():
    ENTRIES[_operator] = ENTRIES[_name]


@entry("bitwise_not")
def bitwise_not(self: Any) -> Any:
    return not_(self) if self.kind == "bool" else w.bit_not(self)


def _bits(result: Any) -> int:
    return int(torch.iinfo(result.dtype).bits)


@entry("lcm")
def lcm(self: Any, other: Any, result: Any) -> Any:
    return w.lcm(int(torch.iinfo(result.dtype).max))(self, other)


@entry("bitwise_left_shift", "__lshift__")
def left_shift(self: Any, other: Any, result: Any) -> Any:
    return w.shifts(_bits(result))[0](self, other)


@entry("bitwise_right_shift", "__rshift__")
def right_shift(self: Any, other: Any, result: Any) -> Any:
    return w.shifts(_bits(result))[1](self, other)


# --- several at once


def _all(tests: list[bool | None]) -> bool | None:
    return False if False in tests else None if None in tests else True


@entry("equal")
def equal(self: Any, other: Any) -> Any:
    """Whether shapes and all elements are equal, as a Python bool."""
    if self.shape != other.shape:
        return False
    return reduce_rows(_all, eq(self, other), kind="bool")


def _close(rtol: float, atol: float, equal_nan: bool) -> Function:
    """|a − b| ≤ atol + rtol·|b|; equal infinities are close."""

    def of(a: Element, b: Element) -> bool | None:
        nan = [type(x) is float and x != x for x in (a, b)]
        if any(nan):
            return equal_nan and all(nan)
        are_equal = balls.equal(a, b)
        if any(type(x) is float and x - x != 0.0 for x in (a, b)) or are_equal:
            return are_equal
        allowed = arb(atol) + arb(rtol) * abs(balls.ball(b))
        distance = abs(balls.ball(a) - balls.ball(b))
        return True if distance <= allowed else False if distance > allowed else None

    return Function("close", on_numbers(of), kind="bool")


@entry("isclose")
def isclose(
    self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    if c.is_complex(self, other):
        raise Unknowable("complex numbers that are close")
    return _close(rtol, atol, equal_nan)(self, other)


@entry("allclose")
def allclose(
    self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    return reduce_rows(_all, isclose(self, other, rtol, atol, equal_nan), kind="bool")


@entry("isin")
def isin(elements: Any = None, test_elements: Any = None, element: Any = None,
test_element: Any = None,
         assume_unique: bool = False, invert: bool = False) -> Any:  # fmt: skip
    """Whether an element occurs among the test elements; NaN does not."""
    x = node_of(elements if elements is not None else element)
    among = node_of(test_elements if test_elements is not None else test_element)
    among = reshape(among, (among.size,))
    shape = (*x.shape, among.size)
    rows = e.equal(expand(reshape(x, (*x.shape, 1)), shape), expand(among, shape))
    result = reduce_rows(_some, rows, -1, kind="bool")
    return not_(result) if invert else result


def _some(tests: list[bool | None]) -> bool | None:
    return True if True in tests else None if None in tests else False
