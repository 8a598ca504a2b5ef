"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from .. import complex_numbers as c
from ..movement import unsqueeze
from . import entry


def _plus(self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    product = product if alpha == 1 else c.mul(product, alpha)
    if beta == 0:  # then the summand is not read, and NaN in it are ignored
        return product
    return c.add(self if beta == 1 else c.mul(self, beta), product)


@entry("mm")
def mm(self: Any, mat2: Any) -> Any:
    return c.matmul(self, mat2)


@entry("bmm")
def bmm(self: Any, mat2: Any) -> Any:
    return c.matmul(self, mat2)


@entry("mv")
def mv(self: Any, vec: Any) -> Any:
    return c.matmul(self, vec)


@entry("dot")
def dot(self: Any, tensor: Any) -> Any:
    return c.matmul(self, tensor)


@entry("vdot")
def vdot(self: Any, other: Any) -> Any:
    return c.matmul(c.conj(self), other)


@entry("addmm")
def addmm(self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _plus(self, c.matmul(mat1, mat2), beta, alpha)


@entry("addmv")
def addmv(self: Any, mat: Any, vec: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _plus(self, c.matmul(mat, vec), beta, alpha)


@entry("baddbmm")
def baddbmm(self: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _plus(self, c.matmul(batch1, batch2), beta, alpha)


@entry("addbmm")
def addbmm(self: Any, batch1: Any, batch2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _plus(self, c.sum_(c.matmul(batch1, batch2), 0), beta, alpha)


@entry("addr")
def addr(self: Any, vec1: Any, vec2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    outer = c.mul(c.each(lambda x: unsqueeze(x, 1), vec1), c.each(lambda x: unsqueeze(x, 0), vec2))
    return _plus(self, outer, beta, alpha)


@entry("_trilinear")
def trilinear(
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Any,
    expand2: Any,
    expand3: Any,
    sumdim: Any,
    unroll_dim: int = 1,
) -> Any:
    """Σ i1·i2·i3 over ``sumdim``, after inserting dimensions of size 1 into each at its
    ``expand``."""
    factors = []
    for x, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(dims):
            x = c.each(lambda node, d=dim: unsqueeze(node, d), x)
        factors.append(x)
    product = c.mul(c.mul(factors[0], factors[1]), factors[2])
    return c.sum_(product, list(sumdim)) if sumdim else product
