"""Complex tensors as pairs of real ones, and arithmetic for real and complex tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import elementwise as real
from . import movement, sums
from .elementwise import Function, node_of, to_real
from .functions import abs_, atan2, hypot_value
from .nodes import Node


class Pair:
    """A complex tensor: the nodes of its real and imaginary parts, of one shape."""

    def __init__(self, re: Node, im: Node) -> None:
        self.re, self.im = movement.broadcast(to_real(re), to_real(im))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.re.shape

    @property
    def ndim(self) -> int:
        return self.re.ndim

    @property
    def size(self) -> int:
        return self.re.size


Tensor = Node | Pair


def pair(x: Any) -> Pair:
    """A node, a pair or a number as a complex tensor."""
    if isinstance(x, Pair):
        return x
    if isinstance(x, complex):
        return Pair(node_of(x.real), node_of(x.imag))
    node = to_real(node_of(x))
    return Pair(node, movement.expand(node_of(0.0), node.shape))


def is_complex(*xs: Any) -> bool:
    return any(isinstance(x, (Pair, complex)) for x in xs)


def each(of: Callable[..., Any], *xs: Any) -> Any:
    """A movement or linear function, applied to both parts if any argument is complex."""
    if not is_complex(*xs):
        return of(*(node_of(x) for x in xs))
    pairs = [pair(x) for x in xs]
    return Pair(of(*(p.re for p in pairs)), of(*(p.im for p in pairs)))


def add(a: Any, b: Any) -> Any:
    return each(real.add, a, b)


def sub(a: Any, b: Any) -> Any:
    return each(real.sub, a, b)


def neg(a: Any) -> Any:
    return each(real.neg, a)


def conj(a: Any) -> Any:
    return Pair(a.re, real.neg(a.im)) if isinstance(a, Pair) else a


def _bilinear(of: Callable[[Node, Node], Node], a: Any, b: Any) -> Any:
    if not is_complex(a, b):
        return of(node_of(a), node_of(b))
    if not is_complex(a):
        b = pair(b)
        return Pair(of(node_of(a), b.re), of(node_of(a), b.im))
    if not is_complex(b):
        a = pair(a)
        return Pair(of(a.re, node_of(b)), of(a.im, node_of(b)))
    a, b = pair(a), pair(b)
    return Pair(real.sub(of(a.re, b.re), of(a.im, b.im)), real.add(of(a.re, b.im), of(a.im, b.re)))


def mul(a: Any, b: Any) -> Any:
    return _bilinear(real.mul, a, b)


def matmul(a: Any, b: Any) -> Any:
    return _bilinear(sums.matmul, a, b)


def square_modulus(a: Any) -> Node:
    if not isinstance(a, Pair):
        return real.mul(node_of(a), node_of(a))
    return real.add(real.mul(a.re, a.re), real.mul(a.im, a.im))


def div(a: Any, b: Any) -> Any:
    if not is_complex(b):
        return each(lambda x: real.div(x, node_of(b)), a)
    b = pair(b)
    return div(mul(a, conj(b)), square_modulus(b))


def _share(part: Node, size: Node) -> Node:
    """A part divided by the modulus; 0 at zero."""
    zero = real.equal(size, 0.0)
    return real.where(zero, 0.0, real.div(part, real.where(zero, 1.0, size)))


modulus_of_parts = Function(
    "modulus", hypot_value, (lambda a, b, y: _share(a, y), lambda a, b, y: _share(b, y))
)


def modulus(a: Any) -> Node:
    return modulus_of_parts(a.re, a.im) if isinstance(a, Pair) else abs_(node_of(a))


def angle(a: Any) -> Node:
    a = pair(a)
    return atan2(a.im, a.re)


def sum_(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return each(lambda x: sums.sum_(x, dim, keepdim), a)


def mean(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return each(lambda x: sums.mean(x, dim, keepdim), a)


def where(test: Any, a: Any, b: Any) -> Any:
    test = node_of(test)
    return each(lambda x, y: real.where(test, x, y), a, b)


def real_or_complex(
    of_real: Callable[[Node], Node], of_complex: Callable[[Any], Pair]
) -> Callable[[Any], Any]:
    """A function with separate definitions for real and complex tensors."""
    return lambda x: of_complex(x) if is_complex(x) else of_real(to_real(node_of(x)))
