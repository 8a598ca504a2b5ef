"""Exact integer arithmetic; results wrap around when they are written to a tensor.

Undefined results (division by zero, negative exponents, negative shifts, a least common multiple
that no number of the dtype is) are None: undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .elementwise import Function
from .nodes import Node

_SPAN = 1 << 64  # a multiple of every dtype's


def whole(*xs: Any) -> bool:
    """Whether all are integer or boolean tensors or numbers."""
    return all(x.kind in ("int", "bool") if isinstance(x, Node) else isinstance(x, int) for x in xs)


def whole_function(name: str, of: Callable[..., int | None]) -> Function:
    def call(*xs: Any) -> int | None:
        return None if any(x is None for x in xs) else of(*map(int, xs))

    return Function(f"{name} of whole numbers", call, kind="int")


def _floor_divide(a: int, b: int) -> int | None:
    return a // b if b else None


def _truncate_divide(a: int, b: int) -> int | None:
    if not b:
        return None
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def _remainder(a: int, b: int) -> int | None:
    return a % b if b else None


def _fmod(a: int, b: int) -> int | None:
    return int(math.copysign(1, a)) * (abs(a) % abs(b)) if b else None


def _power(a: int, b: int) -> int | None:
    return pow(a, b, _SPAN) if b >= 0 else None


def shifts(bits: int) -> tuple[Function, Function]:
    """Left and right shifts of numbers with ``bits`` bits: products with 2ᵇ and their inverse,
    rounded down, of any b, as torch's kernels on the CPU and in CUDA give them, and NumPy's. torch
    documents those by ``bits`` or more as undefined, but reports of other results were accepted
    (pytorch#70904, #118265). Those by negative numbers stay undecided."""

    def left(a: int, b: int) -> int | None:
        return None if b < 0 else a << b if b < bits else 0

    def right(a: int, b: int) -> int | None:
        return None if b < 0 else a >> min(b, bits)

    return whole_function("left shift", left), whole_function("right shift", right)


def lcm(largest: int) -> Function:
    """The least common multiple, which is at least 0; undecided beyond the ``largest`` number:
    torch's CPU takes the magnitude of what a quotient times the other number wraps to."""

    def of(a: int, b: int) -> int | None:
        multiple = math.lcm(a, b)
        return multiple if multiple <= largest else None

    return whole_function("lcm", of)


add = whole_function("add", lambda a, b: a + b)
sub = whole_function("sub", lambda a, b: a - b)
mul = whole_function("mul", lambda a, b: a * b)
neg = whole_function("neg", lambda a: -a)
abs_ = whole_function("abs", abs)
sign = whole_function("sign", lambda a: (a > 0) - (a < 0))
power = whole_function("power", _power)
floor_divide = whole_function("floor division", _floor_divide)
truncate_divide = whole_function("truncating division", _truncate_divide)
remainder = whole_function("remainder", _remainder)
fmod = whole_function("fmod", _fmod)
gcd = whole_function("gcd", math.gcd)
bit_and = whole_function("and", lambda a, b: a & b)
bit_or = whole_function("or", lambda a, b: a | b)
bit_xor = whole_function("xor", lambda a, b: a ^ b)
bit_not = whole_function("not", lambda a: ~a)
maximum = whole_function("maximum", max)
minimum = whole_function("minimum", min)
