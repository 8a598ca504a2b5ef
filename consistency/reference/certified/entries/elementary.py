"""Exponentials, logarithms, roots, circular and hyperbolic functions, of real and complex
numbers."""

from __future__ import annotations

from typing import Any

from flint import arb

from .. import complex_functions as cf
from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from ..complex_numbers import Pair
from ..elementwise import Scalar, to_real
from . import ENTRIES, entry
from .arithmetic import quotient

_NAMES = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
]
for _name in _NAMES:
    _real, _complex = getattr(f, _name), getattr(cf, _name)
    ENTRIES[_name] = (lambda of: lambda self: of(self))(c.real_or_complex(_real, _complex))


@entry("rsqrt")
def rsqrt(self: Any) -> Any:
    return quotient(1.0, ENTRIES["sqrt"](self))


@entry("sigmoid")
def sigmoid(self: Any) -> Any:
    if isinstance(self, Pair):
        return quotient(1.0, c.add(1.0, cf.exp(c.neg(self))))
    return f.sigmoid(to_real(self))


@entry("deg2rad")
def deg2rad(self: Any) -> Any:
    return e.mul(self, Scalar(lambda: arb.pi() / 180))


@entry("rad2deg")
def rad2deg(self: Any) -> Any:
    return e.mul(self, Scalar(lambda: 180 / arb.pi()))
