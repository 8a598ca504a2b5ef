"""Arguments of divisions: tensors, numbers, whole ones, infinities and zeros. No whole divisor is
0, and no smallest whole number is divided by -1, which ends the process."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import INTEGER_RANGE
from .declare import Call, Domain, Drawing, call
from .domains import EITHER_SIGN
from .sampling import fitting, operands, scalar, shape_of

DIVISOR = Domain(specials=EITHER_SIGN, wide=(-10, 10))
NUMERATOR = Domain(-1000.0, 1000.0, points=(3.0, -3.0, 1.5), wide=(-10, 10))
COUNTABLE = Domain(2.0**-3, 64.0, points=(0.5, 3.0))
COMPLEX_PLANE = Domain(wide=(-10, 10))
BOUNDLESS = ("inf", "-inf", "0", "-0")


def quotient(d: Drawing, *, modest: bool) -> tuple[Any, Any]:
    """Dividend and divisor: any floats, or ``modest`` ones whose quotients are countable, and half
    of the time zeros and infinities of either sign. Integer divisors are never 0.

    Shrinks towards ordinary numbers.
    """
    if d.floating and modest and d.flag():
        return infinite_quotient(d)
    if d.floating:
        return (
            operands(d, NUMERATOR, COUNTABLE)
            if modest or d.dtype == "float16"
            else operands(d, DIVISOR, DIVISOR)
        )
    if d.dtype in ("int32", "int64"):
        return integer_quotient(d)
    shape = shape_of(d)
    if d.dtype == "bool":
        return d.tensor(shape), d.tensor(d.broadcastable(shape)) if d.flag() else d.integer(1, 9)
    low, high = INTEGER_RANGE[d.dtype]
    dividend = d.tensor(shape, values=("integers", *d.choice((-100, 100), (low, high))))
    if d.flag():
        return dividend, d.integer(1, 9)
    ends = d.choice((1, 9), *[(-9, -2), (low, low + 1)] * (low < 0), (high - 1, high))
    return dividend, d.tensor(d.broadcastable(shape), values=("integers", *ends))


def infinite_quotient(d: Drawing) -> tuple[Any, Any]:
    """Numbers of either sign, a quarter of them infinite, 0 or NaN; no divisor is near 0."""
    shape = shape_of(d)
    low, high = d.choice((0.25, 8.0), (-8.0, -0.25))
    right = d.tensor(d.broadcastable(shape), values=("tokens", low, high, *BOUNDLESS, "1"))
    return d.tensor(shape, values=("tokens", -8.0, 8.0, *BOUNDLESS, "nan", "1")), right


def integer_quotient(d: Drawing) -> tuple[Any, Any]:
    """Small numbers, or powers of two and the ends of the dtype divided by small, large and the
    smallest ones; small numbers may be Python's, fractions, too. Shrinks towards small ones."""
    shape, bits = shape_of(d), 31 if d.dtype == "int32" else 62
    match d.choice("small", "far", "large", "huge"):
        case "small":
            ends = d.choice((1, 9), (-9, -1))
            divisor = (
                d.choice(d.integer(1, 9), d.integer(1, 9), 2.5, -0.75)
                if d.flag()
                else d.tensor(d.broadcastable(shape), values=("integers", *ends))
            )
            return d.tensor(shape, values=("integers", -100, 100)), divisor
        case "far":
            ends = (1 << 20, 1 << bits - 1)
        case "large":  # the smallest integer divided by -1 ends the process
            ends = d.choice((1, 9), (-9, -2))
        case _:
            ends = d.choice((-(1 << bits), -(1 << bits) + 1), (1 << 20, 1 << 24))
    least = INTEGER_RANGE[d.dtype][0]
    dividends = ("powers", bits + 1 if bits == 31 else 64), ("integers", least, least + 2)
    dividend = d.tensor(shape, values=d.choice(*dividends))
    if max(ends) < 10 and d.choice(False, False, True):
        return dividend, d.choice(-3, 3, 7, 32, 1000) if min(ends) < 0 else d.integer(*ends)
    return dividend, d.tensor(d.broadcastable(shape), values=("integers", *ends))


def divided(d: Drawing) -> Call:
    mode = d.choice(None, None, "floor", "trunc") if d.dtype != "bool" else None
    if mode is None:
        return truly_divided(d)
    return call(*quotient(d, modest=True), rounding_mode=mode)


def truly_divided(d: Drawing) -> Call:
    return call(*quotient(d, modest=False))


def wholly_divided(d: Drawing) -> Call:
    return call(*quotient(d, modest=True))


def reflected_quotient(d: Drawing) -> Call:
    """A number divided by a tensor; subnormal divisors beside a number that is as small."""
    if d.dtype in ("float32", "float64") and d.choice(*[False] * 7, True):
        smallest = -126 if d.dtype == "float32" else -1022
        return call(
            d.tensor(shape_of(d), values=("subnormal",)), d.number(0.5, 1.0) * 2.0 ** (smallest + 1)
        )
    return call(d.tensor(shape_of(d), fitting(d, DIVISOR, COUNTABLE)), scalar(d))


def complex_quotient(d: Drawing) -> Call:
    """Without rounding modes, which complex numbers do not have."""
    return call(*operands(d, COMPLEX_PLANE, COMPLEX_PLANE))
