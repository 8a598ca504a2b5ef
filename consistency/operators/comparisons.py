"""Comparisons, classifications, logic and bits: results are right or wrong, so nothing here has a
tolerance."""

from __future__ import annotations

from typing import Any

from .declare import (
    EVERY,
    EVERYWHERE,
    EXACT,
    Call,
    Domain,
    Drawing,
    InPlaceVariant,
    Sample,
    call,
    family,
)
from .sampling import filled_shape, scalar, shape_of, unary
from .write_destinations import destination

TRAITS = frozenset({"elementwise", "constant"})  # nothing but False is an answer like any other
SIMPLE = Domain(specials=("nan", "inf", "-inf", "0", "-0"))
SPECIAL = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)
MILLION = 1 << 20
INTEGRAL = ("int32", "int64", "bool")


def comparable(d: Drawing) -> Call:
    """Two tensors, or a tensor and a number, that are often equal: both hold few distinct
    numbers."""
    shape = shape_of(d)
    few: dict[str, Any] = (
        {"values": ("integers", -1, 1)} if d.dtype != "bool" and d.choice(True, True, False) else {}
    )
    left = d.tensor(shape, SPECIAL, **few)
    if d.choice(False, False, True):
        return call(left, d.integer(-1, 1) if few or d.dtype == "bool" else scalar(d))
    return call(d.tensor(d.broadcastable(shape), SPECIAL, **few), left)


def close(d: Drawing) -> Call:
    """Whole numbers with tolerances that are powers of two: whether they are close is exact in
    every dtype."""
    shape = shape_of(d)
    values = ("integers", 0, 1) if d.dtype == "bool" else ("integers", -2, 2)
    left, right = (
        d.tensor(shape, SIMPLE, values=values),
        d.tensor(d.broadcastable(shape), SIMPLE, values=values),
    )
    if d.dtype == "bool" or d.choice(True, False):
        return call(left, right)
    return call(
        left,
        right,
        rtol=d.choice(0.0, 0.25, 0.5) if d.floating else 0.0,
        atol=d.choice(0.0, 1.0),
        equal_nan=d.flag(),
    )


def logical(d: Drawing) -> Call:
    shape = shape_of(d)
    few: dict[str, Any] = {} if d.dtype == "bool" or d.flag() else {"values": ("integers", -1, 1)}
    return call(*(d.tensor(d.broadcastable(shape), SPECIAL, **few) for _ in range(2)))


def bits(low: int = -MILLION, high: int = MILLION) -> Sample:
    """Two integer tensors; the second within [low, high]."""

    def sample(d: Drawing) -> Call:
        shape = shape_of(d)
        ranges = ((0, 1), (0, 1)) if d.dtype == "bool" else ((-MILLION, MILLION), (low, high))
        return call(
            *(d.tensor(d.broadcastable(shape), values=("integers", *ends)) for ends in ranges)
        )

    return sample


def membership(d: Drawing) -> Call:
    """Which elements occur among a few others."""
    values = ("integers", 0, 1) if d.dtype == "bool" else ("integers", -4, 4)
    return call(
        d.tensor(shape_of(d), values=values),
        d.tensor((d.size(1, 16),), values=values),
        invert=d.flag(),
    )


def sameness(d: Drawing) -> Call:
    """Two tensors that are equal half of the time; the answer is a Python bool."""
    shape = filled_shape(d, 0)
    left = d.tensor(shape, Domain(wide=(-24, 24)))
    return call(left, d.tensor(shape, Domain(wide=(-24, 24))) if d.flag() else left)


op = family("comparison", error=EXACT, dtypes=EVERY, traits=TRAITS, differentiable=False)


NO_BOOL = tuple(dtype for dtype in EVERY if dtype != "bool")
OPERATORS = [
    op("eq", comparable, complex=True, out=True, method=True),
    op("ne", comparable, complex=True, out=True, method=True),
    op("lt", comparable, out=True, method=True),
    op("le", comparable, out=True),
    op("gt", comparable, out=True),
    op("ge", comparable, out=True, method=True),
    op("isnan", unary(SPECIAL), complex=True, method=True),
    op("isinf", unary(SPECIAL), complex=True),
    op("isfinite", unary(SPECIAL), complex=True, method=True),
    op("isposinf", unary(SPECIAL), out=True),
    op("isneginf", unary(SPECIAL)),
    op("isreal", unary(SPECIAL), complex=True),
    op("signbit", unary(SPECIAL), out=True),
    op("isclose", close, complex=True),
    op("allclose", close, traits=frozenset({"constant"}), complex=True),
    op("equal", sameness, traits=frozenset({"constant"}), complex=True),
    op("isin", membership, dtypes=NO_BOOL),
    op("logical_and", logical, complex=True, out=True, method=True),
    op("logical_or", logical, complex=True, out=True),
    op("logical_xor", logical, complex=True),
    op(
        "logical_not",
        unary(SPECIAL),
        complex=True,
        out=True,
        method=True,
        inplace=InPlaceVariant("logical_not_", destination(), traits=TRAITS | {"inplace"}),
    ),
    *(op(name, bits(), dtypes=INTEGRAL) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(
        op(name, bits(0, 8), dtypes=("int32", "int64"))
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    ),
]
