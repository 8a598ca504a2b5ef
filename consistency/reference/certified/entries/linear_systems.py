"""Inverses, solutions of linear systems, determinants, Cholesky factors, and functions composed of
them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .. import complex_numbers as c
from .. import functions as f
from .. import matrix_functions as m
from ..balls import Unsure
from ..elementwise import to_real
from ..matrices import (
    MOST_ENTRIES,
    adjoint,
    expanded,
    lower,
    masked,
    reshaped,
    stack,
    transposed,
    upper,
)
from ..movement import labeled
from ..nested_nodes import nodes_in, unknown
from ..nodes import Constant
from ..pseudo_inverses import pseudo_inverse
from . import entry

NOT_UNIQUE = "factors and pivots are not unique"


def unfollowed(result: torch.Tensor, why: str, *arguments: Any) -> Any:
    """An unknown result, which depends on these arguments, so that their gradients are unknown,
    too."""
    return unknown(result, why, nodes_in(list(arguments)))


def real(x: Any) -> Any:
    return x if c.is_complex(x) else to_real(x)


def _info(info: Any, result: Any) -> Any:
    return reshaped(info, tuple(result.shape))


@entry("_linalg_check_errors")
def check_errors(info: Any, api_name: Any, is_matrix: Any) -> Any:
    """Raises if a factorization failed; here none did."""
    return ()


@entry("linalg_inv_ex")
def inverse(A: Any, result: Any) -> Any:
    inverted, info = m.inverse(stack(real(A)))
    return reshaped(inverted, A.shape), _info(info, result[1])


def solved(a: Any, b: Any) -> tuple[Any, Any]:
    """The solution of A·X = B with broadcast batches, and the info that A is regular."""
    a, b = real(a), real(b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(b.shape[-2:]) > MOST_ENTRIES >= math.prod(a.shape[-2:]):
        return _column_by_column(a, expanded(b, (*batch, *b.shape[-2:])))
    solutions, info = m.solution(
        stack(expanded(a, (*batch, *a.shape[-2:]))), stack(expanded(b, (*batch, *b.shape[-2:])))
    )
    return reshaped(solutions, (*batch, *b.shape[-2:])), info


def _column_by_column(a: Any, b: Any) -> tuple[Any, Any]:
    """As ``solved``, with each right side as a system of its own: an element of so many solutions
    depends on one column only. A is regular if its inverse exists."""
    *batch, rows, columns = b.shape
    _, info = m.inverse(stack(expanded(a, (*batch, rows, rows))))
    systems = expanded(reshaped(a, (*a.shape[:-2], 1, rows, rows)), (*batch, columns, rows, rows))
    right = reshaped(transposed(b), (*batch, columns, rows, 1))
    solutions, _ = m.solution(stack(systems), stack(right))
    return transposed(reshaped(solutions, (*batch, columns, rows))), info


def on_either_side(a: Any, b: Any, left: bool) -> tuple[Any, Any]:
    """The solution of A·X = B or X·A = B."""
    if left:
        return solved(a, b)
    solutions, info = solved(transposed(a), transposed(b))
    return transposed(solutions), info


def is_vector(a: Any, b: Any) -> bool:
    """Whether the right side is one vector per matrix, as torch.linalg.solve documents it."""
    return bool(b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1]))


@entry("_linalg_solve_ex")
def solve(A: Any, B: Any, result: Any, left: bool = True) -> Any:
    vector = is_vector(A, B)
    b = reshaped(B, (*B.shape, 1)) if vector else B
    if vector and not left:
        raise Unsure("a vector on the left")
    solutions, info = on_either_side(A, b, left)
    shape = tuple(result[0].shape)
    return (
        reshaped(solutions, shape),
        *[unfollowed(r, NOT_UNIQUE, A) for r in result[1:3]],
        _info(info, result[3]),
    )


@entry("linalg_solve_triangular")
def solve_triangular(
    self: Any, B: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Only one triangle of A is read, with a diagonal of ones if unitriangular."""
    a = _triangle(real(self), upper, unitriangular)
    return on_either_side(a, B, left)[0]


def _triangle(a: Any, above: bool, unit: bool) -> Any:
    triangle = upper(a) if above else lower(a)
    if not unit:
        return triangle
    n = a.shape[-1]
    eye = np.eye(n, dtype=bool)
    return c.add(masked(triangle, ~eye), Constant(np.eye(n)))


@entry("_linalg_det")
def det(A: Any, result: Any) -> Any:
    determinants = reshaped(m.determinant(stack(real(A)))[0], A.shape[:-2])
    return determinants, *[unfollowed(r, NOT_UNIQUE, A) for r in result[1:]]


@entry("_linalg_slogdet")
def slogdet(A: Any, result: Any) -> Any:
    """det/|det| and log|det|."""
    determinants = det(A, result[:1])[0]
    size = c.modulus(determinants)
    sign = c.div(determinants, size) if c.is_complex(determinants) else f.sign(determinants)
    return sign, f.log(size), *[unfollowed(r, NOT_UNIQUE, A) for r in result[2:]]


@entry("linalg_cholesky_ex")
def cholesky(self: Any, result: Any, upper: bool = False) -> Any:
    """The factor of the Hermitian matrix with this triangle; the gradient is Hermitian."""
    factor, info = (m.cholesky_of_upper if upper else m.cholesky)(stack(real(self)))
    factor = reshaped(factor, self.shape)
    return adjoint(factor) if upper else factor, _info(info, result[1])


def _from_factor(factor: Any, above: bool) -> Any:
    """L·Lᴴ, or Rᴴ·R."""
    factor = _triangle(real(factor), above, False)
    return c.matmul(adjoint(factor), factor) if above else c.matmul(factor, adjoint(factor))


@entry("cholesky_inverse")
def cholesky_inverse(self: Any, upper: bool = False) -> Any:
    return reshaped(m.inverse(stack(_from_factor(self, upper)))[0], self.shape)


@entry("cholesky_solve")
def cholesky_solve(self: Any, input2: Any, upper: bool = False) -> Any:
    return solved(_from_factor(input2, upper), self)[0]


@entry("linalg_matrix_exp")
def matrix_exp(self: Any) -> Any:
    return reshaped(m.exponential(stack(real(self)))[0], self.shape)


def _exact(x: Any) -> float | None:
    """A tolerance given as a number or as a one-element tensor."""
    if x is None or isinstance(x, (int, float)):
        return x
    if not isinstance(x, Constant) or x.size != 1:
        raise Unsure("a tolerance that is not one given number")
    return float(x.data.reshape(-1)[0])


@entry("linalg_pinv")
def pinv(
    self: Any,
    result: Any,
    atol: Any = None,
    rtol: Any = None,
    rcond: Any = None,
    hermitian: bool = False,
) -> Any:
    if hermitian:
        raise Unsure("a pseudo-inverse of Hermitian matrices")
    absolute = _exact(atol)
    relative = _exact(rcond if rtol is None else rtol)
    if relative is None:
        relative = 0.0 if absolute else max(self.shape[-2:]) * torch.finfo(result.dtype).eps
    return reshaped(
        pseudo_inverse(stack(real(self)), absolute or 0.0, relative), tuple(result.shape)
    )


@entry("linalg_lstsq")
def lstsq(self: Any, b: Any, result: Any, rcond: Any = None, driver: Any = None) -> Any:
    """For full rank: the least-squares or the minimum-norm solution."""
    if is_vector(self, b):
        b = reshaped(b, (*b.shape, 1))
    relative = (
        max(self.shape[-2:]) * torch.finfo(result[0].dtype).eps if rcond is None else float(rcond)
    )
    a, b = real(self), real(b)
    inverted = pseudo_inverse(stack(a), 0.0, max(relative, 0.0), full=True)
    solutions = c.matmul(reshaped(inverted, (*a.shape[:-2], *reversed(a.shape[-2:]))), b)
    return reshaped(solutions, tuple(result[0].shape)), *[
        unfollowed(r, "they are not unique, or not looked at", self, b) for r in result[1:]
    ]


@entry("linalg_cross")
def cross(self: Any, other: Any, dim: int = -1) -> Any:
    shape = np.broadcast_shapes(self.shape, other.shape)
    a, b = expanded(real(self), shape), expanded(real(other), shape)

    def rolled(x: Any, by: int) -> Any:
        return c.each(lambda node: labeled(node, lambda labels: np.roll(labels, -by, dim)), x)

    return c.sub(c.mul(rolled(a, 1), rolled(b, 2)), c.mul(rolled(a, 2), rolled(b, 1)))


@entry("linalg_householder_product")
def householder_product(input: Any, tau: Any) -> Any:
    """The first columns of H₁·H₂·…·Hₖ, with Hᵢ = I − τᵢ·vᵢ·vᵢᴴ and vᵢ = (0, …, 0, 1, what is below
    the diagonal in column i)."""
    a = stack(real(input))
    batch, rows, columns = a.shape
    t = reshaped(real(tau), (batch, 1, tau.shape[-1]))
    product: Any = expanded(Constant(np.eye(rows, columns)), (batch, rows, columns))
    unit = c.add(lower(a, -1), Constant(np.eye(rows, columns)))
    for i in reversed(range(tau.shape[-1])):
        v = _column(unit, i)
        product = c.sub(product, c.matmul(c.mul(v, _column(t, i)), c.matmul(adjoint(v), product)))
    return reshaped(product, input.shape)


def _column(x: Any, i: int) -> Any:
    return c.each(lambda node: labeled(node, lambda labels: labels[:, :, i : i + 1]), x)
