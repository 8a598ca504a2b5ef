"""Functions of corresponding elements: arithmetic, elementary functions, comparisons."""

from __future__ import annotations

from typing import Any

from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from ..complex_numbers import Pair
from ..elementwise import to_real
from . import ENTRIES, entry

_UNARY = {
    "exp": (f.exp, c.exp), "log": (f.log, c.log), "sqrt": (f.sqrt, c.sqrt), "sin": (f.sin, c.sin), "cos": (f.cos, c.cos),
    "tan": (f.tan, c.tan), "sinh": (f.sinh, c.sinh), "cosh": (f.cosh, c.cosh), "tanh": (f.tanh, c.tanh), "asin": (f.asin, c.asin),
    "acos": (f.acos, c.acos), "atan": (f.atan, c.atan), "asinh": (f.asinh, c.asinh), "acosh": (f.acosh, c.acosh),
    "atanh": (f.atanh, c.atanh),
}  # fmt: skip
for _name, (_real, _complex) in _UNARY.items():
    ENTRIES[_name] = (lambda of: lambda self: of(self))(c.real_or_complex(_real, _complex))
for _name, _real in {"exp2": f.exp2, "expm1": f.expm1, "log2": f.log2, "log10": f.log10, "log1p": f.log1p}.items():
    ENTRIES[_name] = (lambda of: lambda self: of(to_real(self)))(_real)
for _name, _real in {"floor": f.floor, "ceil": f.ceil, "trunc": f.trunc}.items():
    ENTRIES[_name] = (lambda of: lambda self: of(self) if self.kind == "real" else self)(_real)


@entry("add")
def add(self: Any, other: Any, alpha: Any = 1) -> Any:
    return c.add(self, other if alpha == 1 else c.mul(other, alpha))


@entry("sub")
def sub(self: Any, other: Any, alpha: Any = 1) -> Any:
    return c.sub(self, other if alpha == 1 else c.mul(other, alpha))


@entry("rsub")
def rsub(self: Any, other: Any, alpha: Any = 1) -> Any:
    return sub(other, self, alpha)


@entry("mul")
def mul(self: Any, other: Any) -> Any:
    return c.mul(self, other)


@entry("div", "true_divide")
def div(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    found = c.div(self, other)
    return found if rounding_mode is None else f.floor(found) if rounding_mode == "floor" else f.trunc(found)


@entry("neg")
def neg(self: Any) -> Any:
    return c.neg(self)


@entry("reciprocal")
def reciprocal(self: Any) -> Any:
    return c.div(1.0, self)


@entry("rsqrt")
def rsqrt(self: Any) -> Any:
    return c.div(1.0, ENTRIES["sqrt"](self))


@entry("square")
def square(self: Any) -> Any:
    return c.mul(self, self)


@entry("abs")
def abs_(self: Any) -> Any:
    return c.modulus(self)


@entry("pow")
def power(self: Any, exponent: Any) -> Any:
    if c.is_complex(self, exponent):
        if isinstance(exponent, int) and 0 < exponent <= 64:
            found = self
            for _ in range(exponent - 1):
                found = c.mul(found, self)
            return found
        return c.exp(c.mul(exponent, c.log(self)))
    return f.pow_(self, exponent)


@entry("where")
def where(condition: Any, self: Any, other: Any) -> Any:
    return c.where(condition, self, other)


@entry("maximum")
def maximum(self: Any, other: Any) -> Any:
    return e.maximum(self, other)


@entry("minimum")
def minimum(self: Any, other: Any) -> Any:
    return e.minimum(self, other)


@entry("eq")
def eq(self: Any, other: Any) -> Any:
    if c.is_complex(self, other):
        a, b = c.pair(self), c.pair(other)
        return e.and_(e.equal(a.re, b.re), e.equal(a.im, b.im))
    return e.equal(self, other)


@entry("ne")
def ne(self: Any, other: Any) -> Any:
    return e.not_(eq(self, other))


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


@entry("conj_physical", "_conj_physical")
def conj_physical(self: Any) -> Any:
    return c.conj(self)


@entry("sigmoid")
def sigmoid(self: Any) -> Any:
    return c.div(1.0, c.add(1.0, ENTRIES["exp"](c.neg(self))))


@entry("relu")
def relu(self: Any) -> Any:
    return e.where(e.less(0.0, self), self, e.where(e.is_nan(to_real(self)), self, 0.0)) if not isinstance(self, Pair) else None


@entry("addcmul")
def addcmul(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return c.add(self, c.mul(c.mul(tensor1, tensor2), value))


@entry("addcdiv")
def addcdiv(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return c.add(self, c.mul(c.div(tensor1, tensor2), value))


@entry("lerp")
def lerp(self: Any, end: Any, weight: Any) -> Any:
    return c.add(self, c.mul(weight, c.sub(end, self)))
