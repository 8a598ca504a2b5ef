"""Rounding of exact values to number formats: nearest numbers, ties to even, and integers that wrap
around."""

from __future__ import annotations

import math
import sys

import torch
from flint import arb

from ...core import dtypes
from . import balls
from .balls import Element
from .elementwise import Function
from .functions import _truncated, nearest_even
from .nodes import Constant, Node

_WIDTHS = {torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}
_UNSIGNED = {torch.uint8: 8, torch.uint16: 16, torch.uint32: 32, torch.uint64: 64}


def rounded_to(node: Node, dtype: torch.dtype) -> Node:
    """The node rounded to a floating-point ``dtype``. float64, the reference's own dtype, stands
    for exact numbers and is not rounded."""
    if dtype == torch.float64:
        return node
    name = dtypes.name_of(dtype)
    if name not in dtypes.FORMATS:
        raise balls.Unsure(f"rounding to {name}")
    return _rounding(name)(node)


def _rounding(name: str) -> Function:
    form = dtypes.FORMATS[name]
    lowest = (
        math.frexp(form.smallest_normal)[1] - form.precision
    )  # exponent of the smallest subnormal number

    def of(x: Element) -> Element:
        if type(x) is float:
            return x
        if not x.is_finite():
            return x
        low, high = (
            nearest(end, form.precision, lowest, form.max_exponent + 1)
            for end in (x.lower(), x.upper())
        )
        if type(low) is float or type(high) is float:
            return low if type(low) is type(high) and low == high else balls.UNSURE
        return low if low == high else low.union(high)

    return Function(f"rounded to {name}", of, (lambda x, y: 1.0,))


def nearest(x: arb, precision: int, lowest: int, overflow: int) -> Element:
    """An exact ball rounded to ``precision`` significant bits, the last one 2**``lowest`` or more;
    infinite from 2**``overflow`` on."""
    if x.is_zero():
        return balls.ZERO
    mantissa, exponent = x.mid().man_exp()
    step = max(int(exponent) + int(abs(int(mantissa))).bit_length() - precision, lowest)
    unit = arb(2) ** step
    rounded = nearest_even(x / unit) * unit
    if abs(rounded) >= arb(2) ** overflow:
        return math.copysign(math.inf, 1.0 if x > 0 else -1.0)
    return math.copysign(0.0, 1.0 if x > 0 else -1.0) if rounded.is_zero() else rounded


def to_whole(node: Node, dtype: torch.dtype) -> Node:
    """Conversion to an integer or boolean dtype: truncated, wrapping around."""
    if dtype == torch.bool:
        if node.kind == "bool":
            return node
        from .elementwise import truth

        return truth(node)
    if isinstance(node, Constant) and node.kind == "int" and dtype == torch.int64:
        return node
    if dtype in _WIDTHS or dtype in _UNSIGNED:
        return _wrapping(dtype)(node)
    raise balls.Unsure(f"whole numbers of {dtype}")


def _wrapping(dtype: torch.dtype) -> Function:
    bits = _WIDTHS.get(dtype) or _UNSIGNED[dtype]
    span, low = 1 << bits, -(1 << bits - 1) if dtype in _WIDTHS else 0

    def of(x: Element) -> int | None:
        value = whole(x)
        return None if value is None else (value - low) % span + low

    return Function(f"whole numbers of {bits} bits", of, kind="int")


def whole(x: Element) -> int | None:
    """An element without its fraction; None where it is undefined or undecided."""
    if x is None or isinstance(x, (bool, int)):
        return None if x is None else int(x)
    if type(x) is float:
        return 0 if x == 0.0 else None
    integer = _truncated(x).unique_fmpz()
    return None if integer is None else int(integer)


def nearest_double(x: Element) -> tuple[float, float] | None:
    """An element as the nearest float64 and the remainder; None if the ball is wider than 2⁻²⁰ ulp.

    The remainder is 0 where the number is infinite or below 2⁻⁹⁶⁰, where it would be subnormal.
    Below 2¹⁰²⁴ a number is not infinite: what rounds to infinity there is the largest float64 and
    a remainder, so that a result which rounds to the other side can be measured.
    """
    if type(x) is float:
        return x, 0.0
    if x is None or not x.is_finite():
        return None
    radius, size = x.rad(), x.abs_upper()
    if size > arb(2) ** 1025 and abs(x) > arb(2) ** 1025:
        return math.copysign(math.inf, 1.0 if x > 0 else -1.0), 0.0
    exponent = max(_exponent(size) - 53, -1074) if not size.is_zero() else -1074
    if size > arb(2) ** 1026 or not radius <= arb(2) ** (exponent - WANTED):
        return None
    middle = x.mid()
    high = float(middle)  # correctly rounded, but for subnormal numbers and beyond the largest
    if not 2.0**-1021 < abs(high) < 2.0**1023:
        nearest_value = nearest(middle, 53, -1074, 1024)
        high = nearest_value if type(nearest_value) is float else float(nearest_value.mid())
        if math.isinf(high) and abs(middle) < arb(2) ** 1024:
            high = math.copysign(sys.float_info.max, high)
    if not math.isfinite(high) or abs(high) < 2.0**-960:
        return high, 0.0
    return high, float((middle - arb(high)).mid())


WANTED = 20  # a ball's radius is at most 2⁻²⁰ ulp of float64


def _exponent(x: arb) -> int:
    mantissa, exponent = x.mid().man_exp()
    return int(exponent) + int(abs(int(mantissa))).bit_length()
