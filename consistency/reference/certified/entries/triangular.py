"""LU factors, where they are unique, and solutions with them; products with Householder
reflections."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import complex_numbers as c
from .. import triangular as t
from ..balls import Unsure
from ..elementwise import div, node_of
from ..matrices import adjoint, expanded, lower, reshaped, stack, transposed, upper
from ..movement import labeled
from ..nodes import Constant, Detached, whole_numbers
from . import entry
from .linear_systems import on_either_side, real, solve_triangular


@entry("linalg_lu")
def lu(A: Any, result: Any, pivot: bool = True) -> Any:
    factors = (t.pivoted if pivot else t.plain)(stack(real(A)))
    left, right = (
        reshaped(x, tuple(r.shape)) for x, r in zip(factors[1:3], result[1:], strict=True)
    )
    if not result[0].numel():  # without pivots there is no permutation
        return Constant(np.zeros(tuple(result[0].shape))), left, right
    return c.each(Detached, reshaped(factors[0], tuple(result[0].shape))), left, right


@entry("linalg_lu_factor_ex")
def lu_factor(A: Any, result: Any, pivot: bool = True) -> Any:
    """Both factors in one matrix, the pivots counted from 1, and 0 for success."""
    factors = (t.pivoted if pivot else t.plain)(stack(real(A)))
    return tuple(
        reshaped(x, tuple(r.shape))
        for x, r in zip((factors[4], factors[3], factors[5]), result, strict=True)
    )


def _permuted(x: Any, pivots: Any, inverse: bool) -> Any:
    """Rows exchanged according to the pivots, in forward or reverse order."""
    swaps = whole_numbers(pivots)
    batch = x.shape[:-2]
    swaps = np.broadcast_to(swaps, (*batch, swaps.shape[-1])).reshape(-1, swaps.shape[-1])

    def move(labels: Any) -> Any:
        flat = labels.reshape(-1, *labels.shape[-2:]).copy()
        for matrix, exchanged in zip(flat, swaps.tolist(), strict=True):
            steps = list(enumerate(exchanged))
            for i, p in reversed(steps) if inverse else steps:
                matrix[[i, p - 1]] = matrix[[p - 1, i]]
        return flat.reshape(labels.shape)

    return c.each(lambda node: labeled(node, move), x)


@entry("linalg_lu_solve")
def lu_solve(LU: Any, pivots: Any, B: Any, left: bool = True, adjoint: bool = False) -> Any:
    """A·X = B, X·A = B, or with Aᴴ, where A = P·L·U is given by its factors."""
    if adjoint or not left:
        from ..matrices import adjoint as conjugated

        factors = _product(LU, pivots)
        return on_either_side(conjugated(factors) if adjoint else factors, B, left)[0]
    batch = np.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    b = _permuted(expanded(real(B), (*batch, *B.shape[-2:])), pivots, False)
    return solve_triangular(LU, solve_triangular(LU, b, False, True, True), True)


def _product(packed: Any, pivots: Any) -> Any:
    packed = real(packed)
    unit = c.add(lower(packed, -1), Constant(np.eye(packed.shape[-1])))
    return _permuted(c.matmul(unit, upper(packed)), pivots, True)


@entry("triangular_solve")
def triangular_solve(
    self: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """A·X = B or Aᵀ·X = B, and A itself."""
    if transpose:
        return solve_triangular(transposed(real(A)), self, not upper, True, unitriangular), A
    return solve_triangular(A, self, upper, True, unitriangular), A


@entry("ormqr")
def ormqr(self: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Any:
    """Q·B, Qᴴ·B, B·Q or B·Qᴴ with all of Q = H₁·H₂·…·Hₖ."""
    count = input2.shape[-1]
    batch, rows = self.shape[:-2], self.shape[-2]
    a, tau = stack(real(self)), reshaped(real(input2), (-1, 1, count)) if count else input2
    if not count:
        raise Unsure("no reflections")
    product = stack(real(input3))
    unit = c.add(lower(a, -1), Constant(np.eye(rows, a.shape[-1])))
    forwards = left == transpose  # H₁ comes first
    for i in range(count) if forwards else reversed(range(count)):
        v, t_i = (
            c.each(lambda node, i=i: labeled(node, lambda labels: labels[:, :, i : i + 1]), x)
            for x in (unit, tau)
        )
        weight = c.conj(t_i) if transpose else t_i
        if left:
            product = c.sub(product, c.matmul(c.mul(v, weight), c.matmul(adjoint(v), product)))
        else:
            product = c.sub(product, c.matmul(c.matmul(product, v), c.mul(weight, adjoint(v))))
    return reshaped(product, (*batch, *input3.shape[-2:]))


def _frequencies(result: Any, n: int, d: float, signed: bool) -> Any:
    """0, 1, 2 … over n·d; if signed, the upper half starts from −⌊n/2⌋."""
    count = np.arange(result.numel())
    integers = np.where(signed & (count >= (n + 1) // 2), count - n, count)
    return div(Constant(integers.astype(np.float64)), c.mul(node_of(float(n)), node_of(float(d))))


@entry("fft_fftfreq")
def fftfreq(n: int, result: Any, d: float = 1.0) -> Any:
    return _frequencies(result, n, d, True)


@entry("fft_rfftfreq")
def rfftfreq(n: int, result: Any, d: float = 1.0) -> Any:
    return _frequencies(result, n, d, False)
