"""Comparisons, classifications, logic and bits: results are right or wrong, so nothing here has a
tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..core import dtypes
from ..core.dtypes import INTEGER_RANGE, UNSIGNED
from ..core.recipe import TensorRecipe
from .declare import (
    EVERY,
    EVERYWHERE,
    EXACT,
    INTEGERS,
    Call,
    Domain,
    Drawing,
    InPlaceVariant,
    call,
    family,
)
from .sampling import filled_shape, of_other_dtype, scalar, shape_of, unary
from .write_destinations import destination

TRAITS = frozenset({"elementwise", "constant"})  # nothing but False is an answer like any other
SIMPLE = Domain(specials=("nan", "inf", "-inf", "0", "-0"))
SPECIAL = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)
CLASSES = Domain(specials=("nan", "inf", "-inf", *EVERYWHERE), wide=(-24, 24), tiny=True)
EXACTLY = Domain(propagates=())
MILLION = 1 << 20
COLLIDING = {"int32": 1 << 26, "int64": 1 << 55}  # neighbors here are one number as floats
ENDS = {"int32": (("powers", 32),), "int64": (("powers", 64),)}
INTEGRAL = (*INTEGERS, "bool")


def comparable(d: Drawing) -> Call:
    """Two tensors, or a tensor and a number, that are often equal: both hold few distinct
    numbers, some of them integers that float32 or float64 does not tell apart. The number may be
    a fraction, NaN, an infinity, -0.0, or beyond the dtype; the second tensor of another dtype.

    Shrinks towards two tensors of few numbers."""
    shape = shape_of(d)
    low, high = -1, 1
    if d.dtype in COLLIDING and d.choice(False, False, True):
        low, high = COLLIDING[d.dtype] - 2, COLLIDING[d.dtype] + 2
    few: dict[str, Any] = (
        {"values": ("integers", low, high)}
        if d.dtype != "bool" and d.choice(True, True, False)
        else {}
    )
    left = d.tensor(shape, SPECIAL, **few)
    if d.choice(False, False, True):
        number = d.integer(low, high) if few or d.dtype == "bool" else scalar(d)
        if not d.complex and (few or not d.floating) and d.choice(False, False, True):
            beyond = INTEGER_RANGE[d.dtype][1] + 1 if d.dtype in INTEGER_RANGE else 2**40
            ends = (beyond, -beyond) if d.dtype not in ("int64", "uint64") else ()
            number = d.choice(0.5, -0.0, math.inf, -math.inf, math.nan, 0.1, *ends)
        return call(left, number)
    if few and low == -1 and d.choice(False, False, False, True):
        return call(left, of_other_dtype(d, d.broadcastable(shape), EXACTLY))
    return call(d.tensor(d.broadcastable(shape), SPECIAL, **few), left)


def as_numbers(name: str) -> Callable[..., torch.Tensor]:
    """A comparison of whole numbers by what they are: torch makes a number that is beyond the
    dtype, such as a negative one beside uint8, another one of that dtype (docs/findings.md)."""
    function: Callable[..., torch.Tensor] = getattr(torch, name)

    def whole(x: Any) -> bool:
        integral = isinstance(x, torch.Tensor) and str(x.dtype)[6:] in INTEGER_RANGE
        return integral or isinstance(x, int)

    def compared(x: Any, y: Any, **options: Any) -> torch.Tensor:
        if whole(x) and whole(y):
            x, y = (t.long() if isinstance(t, torch.Tensor) else t for t in (x, y))
        return function(x, y, **options)

    return compared


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
    """Two tensors of any numbers or of few, one of them perhaps of another dtype. Shrinks towards
    few numbers of one dtype."""
    shape = shape_of(d)
    few: dict[str, Any] = {} if d.dtype == "bool" or d.flag() else {"values": ("integers", -1, 1)}
    first = d.tensor(d.broadcastable(shape), SPECIAL, **few)
    if d.choice(False, False, False, True):
        other = of_other_dtype(d, d.choice(d.broadcastable(shape), ()), EXACTLY)
        return call(other, first) if d.flag() else call(first, other)
    return call(first, d.tensor(d.broadcastable(shape), SPECIAL, **few))


def reflected_bits(d: Drawing) -> Call:
    """As :func:`bits`, called on a tensor: the operand on the right."""
    one, other = bits(d).args
    return call(one, other) if isinstance(one, TensorRecipe) else call(other, one)


def bits(d: Drawing) -> Call:
    """Two integer tensors, perhaps of two dtypes, or a tensor and a number on either side.
    Shrinks towards two tensors of one dtype."""
    shape = shape_of(d)
    low, high = (0, 1) if d.dtype == "bool" else (-MILLION, MILLION)
    first = d.choice(("integers", low, high), *ENDS.get(d.dtype, ()))
    left = d.tensor(d.broadcastable(shape), values=first)
    kind = "tensors" if d.dtype == "bool" else d.choice("tensors", "tensors", "left", "right")
    if kind != "tensors":
        number = d.integer(-9, 9)
        return call(left, number) if kind == "right" else call(number, left)
    if d.choice(False, False, False, True):
        other = d.choice("int64", "uint8", "bool", "int8", "int32")
        few = ("integers", 0, 1 if other == "bool" else 9)
        right = d.tensor(d.choice(d.broadcastable(shape), ()), dtype=other, values=few)
        return call(left, right)
    return call(left, d.tensor(d.broadcastable(shape), values=("integers", low, high)))


def shifted(d: Drawing) -> Call:
    """Integers and by how many bits they are shifted, now and then by as many as they have, or
    more: then nothing is left but the sign of a shift to the right."""
    shape, width = shape_of(d), dtypes.INTEGER_RANGE[d.dtype][1].bit_length()
    low, high = d.choice((0, 4), (0, width - 1), (width, width + 9))
    left = d.tensor(d.broadcastable(shape), values=("integers", -MILLION, MILLION))
    match d.choice("tensors", "tensors", "tensors", "left", "right"):
        case "right":
            return call(left, d.integer(low, high))
        case "left":
            return call(d.integer(0, 9), d.tensor(shape, values=("integers", low, high)))
    return call(left, d.tensor(d.broadcastable(shape), values=("integers", low, high)))


def membership(d: Drawing) -> Call:
    """Which elements occur among others, few (each is compared) or many (both are sorted); or a
    number among these, or elements that are one number; or numbers of two dtypes.

    Shrinks towards few small numbers of one dtype.
    """
    kind = d.choice("tensors", "tensors", "tensors", "element", "one", "dtypes", "unique")
    options = {"invert": d.flag()}
    if kind == "unique":
        # torch may take any two for different ones.
        both = (d.tensor((d.size(1, 100),), values=("permutation",), layout=False, dtype=whole)
                for whole in ("int64", "int64"))  # fmt: skip
        return call(*both, **options, assume_unique=True)
    if kind == "dtypes":
        return call(*of_two_dtypes(d), **options)
    reach = d.choice(4, 4, 30, 120)
    values: tuple[Any, ...] = ("integers", 0 if d.dtype in UNSIGNED else -reach, reach)
    if d.floating and d.choice(False, False, True):
        values = ("tokens", -2.0, 2.0, "nan", "inf", "-inf", "0", "-0", "1", "subnormal")
    elif d.dtype in ENDS and d.choice(False, False, True):
        values = ENDS[d.dtype][0]
    elements = d.tensor(shape_of(d), EXACTLY, values=values)
    count = d.choice((d.size(1, 16),), d.shape(1, 3, most=4), d.shape(1, 2), ())
    among = d.tensor(count, EXACTLY, values=values)
    number = d.integer(0 if d.dtype in UNSIGNED else -4, 4)
    if d.floating:
        number = d.choice(number, number, -0.0, math.inf, math.nan)
    match kind:
        case "element":
            return call(number, among, **options)
        case "one":
            return call(elements, number, **options)
    return call(elements, among, **options)


def of_two_dtypes(d: Drawing) -> tuple[TensorRecipe, TensorRecipe]:
    """Whole numbers beside half precision, in which large ones are rounded to each other but to
    none that is looked for; or small ones of any two dtypes, which all of them hold."""
    if d.dtype in ("int16", "int32", "int64") and d.flag():
        start = d.choice(4090, 2040, 260)
        elements = d.tensor(shape_of(d), values=("integers", start, start + 20))
        half = "bfloat16" if start == 260 else "float16"
        return elements, d.tensor((d.size(1, 65),), dtype=half, values=("integers", -40, 40))
    other = d.choice("int64", "float32", "float64", "uint8", "int8", "float16")
    few = ("integers", 0, 9)
    return d.tensor(shape_of(d), values=few), d.tensor((d.size(1, 33),), dtype=other, values=few)


def isin_of_copies(elements: Any, among: Any, **options: Any) -> torch.Tensor:
    """torch's ``isin`` raises for some strides (docs/findings.md)."""
    first, second = (
        x.contiguous() if isinstance(x, torch.Tensor) else x for x in (elements, among)
    )
    return torch.isin(first, second, **options)


def sameness(d: Drawing) -> Call:
    """Two tensors that are equal half of the time; the answer is a Python bool."""
    shape = filled_shape(d, 0)
    left = d.tensor(shape, Domain(wide=(-24, 24)))
    return call(left, d.tensor(shape, Domain(wide=(-24, 24))) if d.flag() else left)


op = family("comparison", error=EXACT, dtypes=EVERY, traits=TRAITS, differentiable=False)


NO_BOOL = tuple(dtype for dtype in EVERY if dtype != "bool")
OPERATORS = [
    op("eq", comparable, reference=as_numbers("eq"), complex=True, out=True, method=True),
    op("ne", comparable, reference=as_numbers("ne"), complex=True, out=True, method=True),
    op("lt", comparable, reference=as_numbers("lt"), out=True, method=True),
    op("le", comparable, reference=as_numbers("le"), out=True),
    op("gt", comparable, reference=as_numbers("gt"), out=True),
    op("ge", comparable, reference=as_numbers("ge"), out=True, method=True),
    op("isnan", unary(CLASSES), complex=True, method=True),
    op("isinf", unary(CLASSES), complex=True),
    op("isfinite", unary(CLASSES), complex=True, method=True),
    op("isposinf", unary(CLASSES), out=True),
    op("isneginf", unary(CLASSES)),
    op("isreal", unary(SPECIAL), complex=True),
    op("signbit", unary(SPECIAL), out=True),
    op("isclose", close, complex=True),
    op("allclose", close, traits=frozenset({"constant"}), complex=True),
    op("equal", sameness, traits=frozenset({"constant"}), complex=True),
    # An element is looked for among all others: no elementwise operator.
    op(
        "isin", membership, dtypes=NO_BOOL, reference=isin_of_copies, traits=frozenset({"constant"})
    ),
    op("logical_and", logical, complex=True, out=True, method=True),
    op("logical_or", logical, complex=True, out=True),
    op("logical_xor", logical, complex=True, out=True),
    op(
        "logical_not",
        unary(SPECIAL),
        complex=True,
        out=True,
        method=True,
        inplace=InPlaceVariant("logical_not_", destination(), traits=TRAITS | {"inplace"}),
    ),
    *(op(name, bits, dtypes=INTEGRAL) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(op(name, reflected_bits, dtypes=INTEGRAL) for name in ("__rand__", "__ror__", "__rxor__")),
    *(op(name, shifted, dtypes=INTEGERS) for name in ("bitwise_left_shift", "bitwise_right_shift")),
]
