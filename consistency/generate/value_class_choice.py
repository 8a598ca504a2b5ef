"""The value classes to draw from: those within an argument's domain and meaningful in its
format."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from ..core import dtypes
from ..operators.declare import Domain, Operator

# Rounded for floats, whole for whole numbers.
_EXACT_FOR_INTEGERS = frozenset(
    {
        "add",
        "sub",
        "rsub",
        "mul",
        "__radd__",
        "__rsub__",
        "__rmul__",
        "add_",
        "sub_",
        "mul_",
        "__iadd__",
        "__imul__",
    }
)
_AT_INFINITY = ("-0", "nan", "inf", "-inf")  # and on either side of a cut
MOST_CONVERTED = 1 << 40  # whole numbers of which fractions are made
# Beyond what float32, int32 and float64 hold exactly, and the ends of the dtype.
WIDE_INTEGERS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "int64": (
        ("integers", -(1 << 26), 1 << 26),
        ("integers", -(1 << 33), 1 << 33),
        ("integers", -(1 << 55), 1 << 55),
        ("powers", 64),
    ),
    "int32": (("integers", -(1 << 26), 1 << 26), ("powers", 32)),
    **{name: (("integers", *dtypes.INTEGER_RANGE[name]),) for name in ("int16", "int8", "uint8")},
    **{
        name: (("unsigned", int(name[4:])), ("unsigned-powers", int(name[4:])))
        for name in dtypes.WIDE_UNSIGNED
    },
}


def computes_exactly(operator: Operator | None) -> bool:
    """Whether the operator computes with integers as integers: where they become floats, large ones
    are rounded first."""
    return operator is not None and (
        operator.error.kind == "exact"
        or operator.error.integers_exact
        or operator.name in _EXACT_FOR_INTEGERS
    )


def converts_first(operator: Operator | None) -> bool:
    """Whether an element of whole numbers becomes a fraction before anything is computed of it:
    what large ones are rounded to decides the result, and is admitted."""
    return (
        operator is not None and "elementwise" in operator.traits and not computes_exactly(operator)
    )


def plane(operator: Operator | None, dtype: str, domain: Domain) -> Domain:
    """What either part of a complex number is drawn from: both sides of zero, as far as ``domain``
    reaches.

    NaN and infinities only where nothing is computed, and in functions of one number, of whose
    values at infinity the C standard (Annex G) leaves nothing open but some signs: libraries do not
    agree on what, say, a product makes of them. At the edges of the format moduli leave it that do
    not need to be formed.
    """
    moved = operator is not None and operator.error.of(dtype).kind == "exact"
    if not moved:
        known = ("0", "1", "-1", *(_AT_INFINITY if _is_function(operator) else ()))
        specials = tuple(token for token in domain.specials if token in known)
        domain = replace(domain, specials=specials, tiny=False, propagates=(), squares=False)
    reach = max(abs(domain.low), abs(domain.high))
    return replace(domain, low=-reach, high=reach)


def _is_function(operator: Operator | None) -> bool:
    return operator is not None and operator.family == "unary"


@functools.lru_cache(maxsize=512)
def value_classes_within(domain: Domain, form: dtypes.Format) -> st.SearchStrategy[tuple[Any, ...]]:
    """Value classes with parameters, simplest first."""
    low, high = (
        float(domain.low),
        float(domain.high),
    )  # a cached answer must not depend on who asked with 0 and who with 0.0
    narrow = form.max_exponent < 64
    bottom, top = max(low, -1.0), min(high, 1.0)
    if bottom >= top:  # the domain lies outside [-1, 1]
        bottom, top = max(low, -1024.0), min(high, 1024.0)
    options: list[tuple[Any, ...]] = [("uniform", bottom, top)]
    if math.isinf(low) and math.isinf(high):
        options += [("uniform", 0.0, 1.0), ("normal", 0.0, 1.0), ("integers", -4, 4)]
    elif math.isfinite(low) and math.isfinite(high):
        options.append(("uniform", low, high))
    if domain.sums:
        mean = 2.0 ** (form.precision // 2)
        options += [
            ("cancelling", 1.0),
            ("offset", mean, 1.0),
            ("sparse", 0.5),
            ("normal", 0.0, 4.0),
        ]
    if domain.wide is not None:
        a, b = domain.wide
        a, b = (max(a, -8), min(b, 7)) if narrow else (a, b)
        signed = low < 0.0 and high > 0.0
        if a <= b and (signed or low >= 0.0):
            options.append(("wide", a, b, int(signed)))
    if domain.tiny:
        options.append(("subnormal",))
    if domain.squares:
        options += [("beyond", 1), ("beyond", 0)]
    limit = float(2.0**form.max_exponent)
    points = tuple(float(p) for p in domain.points if abs(p) < limit)
    if points:
        options += [("near", max(low, -limit), min(high, limit), *points)] * 2
    if domain.specials and bottom <= 0.0 <= top:
        options += [("tokens", bottom, top, *domain.specials)] * (
            2 if "nan" in domain.specials else 1
        )
    return st.sampled_from(options)
