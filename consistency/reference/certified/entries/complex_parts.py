"""Complex numbers from their parts, and their parts."""

from __future__ import annotations

from typing import Any

from flint import arb

from .. import balls
from .. import complex_numbers as c
from .. import functions as f
from ..balls import Element
from ..complex_numbers import Pair, pair
from ..elementwise import Function, mul, on_numbers
from . import entry


@entry("complex")
def complex_(real: Any, imag: Any) -> Any:
    return Pair(real, imag)


@entry("polar")
def polar(abs: Any, angle: Any) -> Any:
    return Pair(mul(abs, f.cos(angle)), mul(abs, f.sin(angle)))


@entry("conj_physical", "_conj_physical", "_conj", "conj")
def conj_physical(self: Any) -> Any:
    return c.conj(self)


@entry("resolve_conj", "resolve_neg")
def resolve(self: Any) -> Any:
    return self


@entry("imag")
def imag(self: Any) -> Any:
    return pair(self).im


@entry("real")
def real(self: Any) -> Any:
    return pair(self).re


def _half_turn(x: Element) -> Element:
    """0 or π; of −0 it is 0, which is not negative."""
    if type(x) is float:
        return x if x != x else 0.0 if x >= 0.0 else arb.pi()
    sign = balls.sign(x)
    return balls.UNSURE if sign is None else arb.pi() if sign < 0 else balls.ZERO


_angle_of_real = Function("angle", on_numbers(_half_turn))


@entry("angle")
def angle(self: Any) -> Any:
    return c.angle(self) if isinstance(self, Pair) else _angle_of_real(self)
