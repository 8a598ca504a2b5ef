"""LU factors with partial pivoting, where balls decide each pivot, and solutions by given
factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import acb_mat

from . import complex_numbers as c
from .balls import Unsure
from .complex_numbers import Tensor
from .matrices import MatrixFunction, MatrixResult, adjoint, lower, upper

Shape = tuple[int, int]


def lu(a: Any, pivot: bool) -> Sequence[Any]:
    """P, L, U with A = P·L·U; the row (counted from 1) exchanged in each step; both factors in one
    matrix; 0 if U is certainly regular.

    The pivot is the largest remaining number of its column. For complex numbers LAPACK compares
    |re| + |im|, which torch does not document: where that matters, the pivot is unsure.
    """
    rows, columns = a.nrows(), a.ncols()
    work = a.tolist()
    size = min(rows, columns)
    order, pivots = list(range(rows)), []
    for k in range(size):
        chosen = (
            _pivot_index([row[k] for row in work[k:]], isinstance(a, acb_mat)) + k if pivot else k
        )
        pivots.append(chosen + 1)
        work[k], work[chosen], order[k], order[chosen] = (
            work[chosen],
            work[k],
            order[chosen],
            order[k],
        )
        top = work[k]
        for i in range(k + 1, rows):
            row = work[i]
            if row[k].contains(0) and row[k] == 0:
                continue
            factor = row[k] / top[k]
            if not factor.is_finite():
                raise Unsure("a pivot that balls cannot tell from 0")
            work[i] = [
                *row[:k],
                factor,
                *(x - factor * y for x, y in zip(row[k + 1 :], top[k + 1 :], strict=True)),
            ]
    permutation = [[int(order[j] == i) for j in range(rows)] for i in range(rows)]
    left = [[work[i][j] if j < i else int(i == j) for j in range(size)] for i in range(rows)]
    right: list[list[Any]] = [
        [work[i][j] if j >= i else 0 for j in range(columns)] for i in range(size)
    ]
    kind = type(a)
    success = None if any(right[k][k].contains(0) for k in range(size)) else 0
    return (
        kind(permutation),
        kind(left),
        kind(right),
        [[p] for p in pivots],
        kind(work),
        [[success]],
    )


def _pivot_index(column: list[Any], is_complex: bool) -> int:
    sizes = [abs(x) for x in column]
    best = max(range(len(sizes)), key=lambda i: float(sizes[i].mid()))
    other_sizes = [size for i, size in enumerate(sizes) if i != best]
    if not all(size < sizes[best] for size in other_sizes):
        raise Unsure("which pivot is the largest")
    if is_complex and not all(x.real.is_zero() or x.imag.is_zero() for x in column):
        raise Unsure("which of complex pivots is the largest")
    return best


def _results(a: Shape) -> Sequence[MatrixResult]:
    size = min(a)
    return (
        MatrixResult(a[0], a[0]),
        MatrixResult(a[0], size),
        MatrixResult(size, a[1]),
        MatrixResult(size, 1, "int"),
        MatrixResult(*a),
        MatrixResult(1, 1, "int"),
    )


def _pull_left(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dL = L·tril(L⁻¹·Pᵀ·dA·U⁻¹, −1) of square matrices."""
    return (_input_gradient(outputs, lower(c.matmul(adjoint(outputs[1]), lower(g, -1)), -1)),)


def _pull_right(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dU = triu(L⁻¹·Pᵀ·dA·U⁻¹)·U of square matrices."""
    return (_input_gradient(outputs, upper(c.matmul(upper(g), adjoint(outputs[2])))),)


def _pull_packed(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """L below the diagonal and U from the diagonal on, in one matrix."""
    (left,), (right,) = _pull_left(inputs, outputs, g), _pull_right(inputs, outputs, g)
    return (c.add(left, right),)


def _input_gradient(outputs: Sequence[Tensor], middle: Tensor) -> Any:
    from .matrix_functions import inverse

    if outputs[1].shape != outputs[2].shape:
        raise Unsure("the gradient of LU factors of matrices that are not square")
    left, right = (adjoint(inverse(x)[0]) for x in outputs[1:3])
    return c.matmul(outputs[0], c.matmul(c.matmul(left, middle), right))


def _factors(pivot: bool) -> MatrixFunction:
    pulls = (None, _pull_left, _pull_right, None, _pull_packed)
    return MatrixFunction("LU factors", _results, lambda a: lu(a, pivot), pulls)


pivoted, plain = _factors(True), _factors(False)
