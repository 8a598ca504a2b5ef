"""Pseudo-inverses of matrices of any rank, and their gradient where the rank stays.

A of rank r is C·M⁻¹·R, with r independent columns C, r independent rows R, and M where both cross;
the pseudo-inverse of a product of a full column rank and a full row rank is the product of theirs
(Ben-Israel and Greville, *Generalized Inverses*, 1.6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from . import balls, spectra
from . import complex_numbers as c
from .balls import Unsure
from .complex_numbers import Tensor
from .matrices import MatrixFunction, MatrixResult, adjoint
from .matrix_rank import exact_rank
from .nodes import Constant

Matrix = Any  # arb_mat or acb_mat
# × the rows or columns: the tolerance that `pinv` has by default in float32, the narrowest format
# that it takes. A kernel in that format may be asked for the pseudo-inverse that is proved.
_ROUNDED = 0.99 * 2.0**-23


def pseudo_inverse(a: Tensor, absolute: float, relative: float, *, full: bool = False) -> Tensor:
    """A⁺ of each matrix of a stack, whose singular values are 0 or certainly exceed max(absolute,
    relative × the largest); with ``full``, none of them is 0."""
    return MatrixFunction(
        "pseudo-inverse",
        lambda shape: (MatrixResult(shape[1], shape[0]),),
        lambda matrix: (_certain(matrix, absolute, relative, full),),
        (_pull,),
    )(a)[0]


def _certain(a: Matrix, absolute: float, relative: float, full: bool) -> Matrix | list[list[arb]]:
    """From σ_min = 1/‖A⁺‖ and σ_max = ‖A‖ in the spectral norm, of which Frobenius' is no less."""
    rank = exact_rank(a)
    if full and rank < min(a.nrows(), a.ncols()):
        raise Unsure("a matrix that is not of full rank, whose solution depends on the driver")
    if rank < min(a.nrows(), a.ncols()) and relative < _ROUNDED * max(a.nrows(), a.ncols()):
        raise Unsure("a tolerance that what rounding leaves of a singular value of 0 may exceed")
    if not rank:
        return [[balls.ZERO] * a.nrows() for _ in range(a.ncols())]
    inverted = _inverse_of_rank(a, rank)
    smallest, largest = 1 / frobenius(inverted), frobenius(a)
    if not (smallest > relative * largest and smallest > absolute):
        raise Unsure("singular values near the tolerance below which they are taken as zero")
    return inverted


def _inverse_of_rank(a: Matrix, rank: int) -> Matrix:
    if rank == a.nrows():
        return _of_full_row_rank(a)
    if rank == a.ncols():
        return _of_full_column_rank(a)
    rows = _independent(a, rank)
    chosen = _part(a, rows, range(a.ncols()))
    columns = _independent(chosen.transpose(), rank)
    left = _part(a, range(a.nrows()), columns) * _part(a, rows, columns).inv()
    return _of_full_row_rank(chosen) * _of_full_column_rank(left)


def _of_full_row_rank(a: Matrix) -> Matrix:
    adjoint_matrix = spectra.conjugate_transposed(a)
    return adjoint_matrix * (a * adjoint_matrix).inv() if a.nrows() < a.ncols() else a.inv()


def _of_full_column_rank(a: Matrix) -> Matrix:
    adjoint_matrix = spectra.conjugate_transposed(a)
    return (adjoint_matrix * a).inv() * adjoint_matrix if a.ncols() < a.nrows() else a.inv()


def _independent(a: Matrix, rank: int) -> list[int]:
    """The first rows of which each is independent of those before it."""
    rows: list[int] = []
    for row in range(a.nrows()):
        if exact_rank(_part(a, [*rows, row], range(a.ncols()))) > len(rows):
            rows.append(row)
        if len(rows) == rank:
            break
    return rows


def _part(a: Matrix, rows: Sequence[int], columns: Sequence[int]) -> Matrix:
    make: Callable[..., Matrix] = type(a)
    return make([[a[row, column] for column in columns] for row in rows])


def frobenius(a: Matrix) -> arb:
    """The root of the sum of all squares."""
    total = balls.ZERO
    for row in a.tolist():
        for x in row:
            total += spectra.square_modulus(x)
    return total.sqrt()


def _pull(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dA⁺ = −A⁺·dA·A⁺ + A⁺·A⁺ᴴ·dAᴴ·(I − A·A⁺) + (I − A⁺·A)·dAᴴ·A⁺ᴴ·A⁺ (Golub and Pereyra 1973)"""
    a, inverted = inputs[0], outputs[0]
    turned, back = adjoint(inverted), adjoint(g)
    inside = c.neg(c.matmul(c.matmul(turned, g), turned))
    beside = c.matmul(c.matmul(_rest(a, inverted), back), c.matmul(inverted, turned))
    below = c.matmul(c.matmul(c.matmul(turned, inverted), back), _rest(inverted, a))
    total: Tensor = c.add(inside, c.add(beside, below))
    return (total,)


def _rest(a: Tensor, b: Tensor) -> Tensor:
    """I − A·B"""
    rest: Tensor = c.add(Constant(np.eye(a.shape[-2])), c.neg(c.matmul(a, b)))
    return rest
