"""Arguments of powers: bases and exponents, and exponents of two."""

from __future__ import annotations

from typing import Any

import torch

from ..core.dtypes import form_of
from .declare import HALF, POSITIVE, REAL, Call, Domain, Drawing, call
from .domains import EITHER_SIGN
from .sampling import fitting, shape_of

SIMPLE = Domain(specials=EITHER_SIGN)
BOUND = Domain(-4.0, 4.0)
MOST_POWER = 100  # more than there are bits in a whole number


def raised(d: Drawing) -> Call:
    """A positive number to the power of a tensor; a whole one to that of whole numbers, whose
    powers may wrap."""
    if not d.floating and d.flag():
        most = d.choice(5, MOST_POWER)
        return call(d.tensor(shape_of(d), values=("integers", 0, most)), d.choice(2, 3, -3))
    return call(
        d.tensor(shape_of(d), Domain(-4.0, 4.0)), d.choice(2.0, 0.5, 10.0, d.number(0.25, 4))
    )


def power(d: Drawing) -> Call:
    """Positive bases with any exponent, any base with the exponents that have code of their own, or
    a number as the base."""
    shape = shape_of(d)
    if not d.floating:  # beyond the width of the format powers wrap, as products do
        most = d.choice(5, 5, MOST_POWER)
        exponents = (
            d.integer(0, most)
            if d.flag()
            else d.tensor(d.broadcastable(shape), values=("integers", 0, most))
        )
        return call(d.tensor(shape), exponents)
    positive, reach = (Domain(0.25, 4.0), 1.0) if d.dtype == "float16" else (POSITIVE, 3.0)
    match d.choice("whole", "root", "tensors", "base", "corners"):
        case "whole":
            return call(
                d.tensor(shape, fitting(d, Domain(specials=EITHER_SIGN, wide=(-8, 7)), positive)),
                d.choice(2, 3, -1, -2, 0, 1, 2.0),
            )
        case "root":
            return call(d.tensor(shape, positive), d.choice(0.5, -0.5, 2.5))
        case "base":
            return call(d.choice(2.0, 0.5, 10.0, 1.0), d.tensor(shape, Domain(-4.0, 4.0)))
        case "corners":
            integer_exponents = d.tensor(d.broadcastable(shape), SIMPLE, values=("integers", -3, 3))
            return call(d.tensor(shape, fitting(d, SIMPLE, positive)), integer_exponents)
    return call(d.tensor(shape, positive), d.tensor(d.broadcastable(shape), Domain(-reach, reach)))


def float_power(d: Drawing) -> Call:
    shape = shape_of(d)
    base = d.tensor(shape, POSITIVE) if d.floating else d.tensor(shape, values=("integers", 1, 9))
    return call(
        base,
        d.choice(2, 0.5, -1.5) if d.flag() else d.tensor(d.broadcastable(shape), Domain(-4.0, 4.0)),
    )


def scaled_by_exponent(d: Drawing) -> Call:
    """Usual exponents, or so large ones that the power leaves the format and the result does not;
    whole numbers of any dtype, or floats, whole or fractional, of the same dtype or another.

    Shrinks towards small ones of int32.
    """
    shape = shape_of(d)
    form = form_of(d.dtype)
    reach = form.max_exponent if form is not None else 12
    tiny: dict[str, Any] = {}
    ends = (-12, 12)
    if d.choice(False, False, False, True):
        tiny = {"values": ("wide", 1 - reach, 4 - reach, 1)}
        ends = (reach + 1, reach + 4)
    x = d.tensor(shape, REAL, **tiny)
    other_shape = d.broadcastable(shape)
    kinds = ("int32", "int32", "int32", "int64", "int16", "whole", "fractional")
    match d.choice(*kinds, *["float32", "float64", *HALF] * (d.dtype != "bool")):
        case "whole" if d.floating:
            return call(x, d.tensor(other_shape, Domain(propagates=()), values=("integers", *ends)))
        case "fractional" if d.floating:
            return call(x, d.tensor(other_shape, Domain(float(ends[0]), float(ends[1]))))
        case "whole" | "fractional":
            values: tuple[Any, ...] = ("uniform", -8.0, 8.0)
            return call(x, d.tensor(other_shape, Domain(), dtype="float32", values=values))
        case "int32" | "int64" | "int16" as dtype:
            return call(x, d.tensor(other_shape, dtype=dtype, values=("integers", *ends)))
        case dtype:
            # Fractions of float64 would be judged by a reference that is no more precise.
            fractions = dtype != "float64" or d.dtype == "float64"
            values = d.choice(("integers", *ends), *[("uniform", *map(float, ends))] * fractions)
            return call(x, d.tensor(other_shape, Domain(propagates=()), dtype=dtype, values=values))


def times_a_power_of_two(x: torch.Tensor, exponent: torch.Tensor) -> torch.Tensor:
    """``ldexp`` with powers that are floats (those of torch 2.13's own gradient are whole numbers,
    and so 0 below 1), in two steps: the power alone may leave the format."""
    exponent = exponent.to(x.dtype if x.is_floating_point() else torch.float64)
    half = torch.trunc(exponent.detach() / 2)
    return x * torch.exp2(half) * torch.exp2(exponent - half)


def complex_power(d: Drawing) -> Call:
    """Any base with a whole exponent, a root or a square; or both tensors. No powers of zero."""
    shape = shape_of(d)
    base = Domain(wide=(-3, 2))
    match d.choice("whole", "root", "tensors", "base"):
        case "whole":
            return call(d.tensor(shape, base), d.choice(2, 3, -1, -2, 0, 1, 2.0))
        case "root":
            return call(d.tensor(shape, base), d.choice(0.5, -0.5, 2.5, complex(1.0, 0.5)))
        case "base":
            return call(d.choice(2.0, 0.5, complex(0.5, 1.0)), d.tensor(shape, BOUND))
    return call(d.tensor(shape, base), d.tensor(d.broadcastable(shape), BOUND))
