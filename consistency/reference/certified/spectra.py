"""Enclosures of Cholesky factors, eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

from typing import Any

import flint
from flint import acb, acb_mat, arb, arb_mat

from .balls import UNSURE, Unsure

Matrix = Any  # arb_mat | acb_mat


def hermitian(a: Matrix) -> Matrix:
    """The Hermitian matrix with this lower triangle; the diagonal is taken as real."""
    n = a.nrows()
    matrix = type(a)(n, n)
    for i in range(n):
        matrix[i, i] = a[i, i].real if isinstance(a, acb_mat) else a[i, i]
        for j in range(i):
            matrix[i, j] = a[i, j]
            matrix[j, i] = _conj(a[i, j])
    return matrix


def _conj(x: Any) -> Any:
    return x.conjugate() if isinstance(x, acb) else x


def square_modulus(x: Any) -> arb:
    """By products, because python-flint's ``**`` returns NaN for a ball around 0."""
    return x.real * x.real + x.imag * x.imag if isinstance(x, acb) else x * x


def conjugate_transposed(a: Matrix) -> Matrix:
    return a.transpose().conjugate() if isinstance(a, acb_mat) else a.transpose()


def cholesky(a: Matrix) -> list[list[Any]]:
    """L with L·Lᴴ = A, as rows; A is given by its lower triangle. Raises Unsure unless A is
    certainly positive definite."""
    n = a.nrows()
    factor: list[list[Any]] = []
    zero = acb(0) if isinstance(a, acb_mat) else arb(0)
    rows = a.tolist()
    for i in range(n):
        row: list[Any] = []
        for j in range(i):
            earlier, total = factor[j], rows[i][j]
            for x, y in zip(row, earlier[:j], strict=True):
                total -= x * _conj(y)
            row.append(total / earlier[j])
        diagonal = rows[i][i].real if isinstance(a, acb_mat) else rows[i][i]
        for x in row:
            diagonal -= square_modulus(x)
        if not diagonal > 0:
            raise Unsure("balls cannot tell whether a matrix is positive definite")
        root = diagonal.sqrt()
        factor.append([*row, acb(root) if isinstance(a, acb_mat) else root, *[zero] * (n - 1 - i)])
    return factor


def eigenvalues(a: Matrix) -> tuple[list[arb], list[list[Any]]]:
    """The eigenvalues of a Hermitian matrix in ascending order, and normalized eigenvectors as
    columns; eigenvectors of eigenvalues that are multiple or not separated in this precision are
    unsure.

    If the columns of X are near eigenvectors, X⁻¹·A·X is near a diagonal matrix, and Gershgorin's
    discs enclose its eigenvalues.
    """
    n = a.nrows()
    if n == 1:
        return [a[0, 0].real if isinstance(a, acb_mat) else a[0, 0]], [[arb(1)]]
    tiny = arb(2) ** (-flint.ctx.prec // 2)
    wide = acb_mat(a)
    _, columns = acb_mat(wide.mid()).eig(right=True, algorithm="approx")
    x = columns.mid() if isinstance(a, acb_mat) else arb_mat(columns.real.mid())
    try:
        near = x.solve(a * x).tolist()
    except ZeroDivisionError:
        return _multiple_eigenvalues(wide)
    discs = []
    for i, row in enumerate(near):
        radius = sum((abs(value).abs_upper() for j, value in enumerate(row) if j != i), arb(0))
        middle = row[i].real if isinstance(a, acb_mat) else row[i]
        discs.append(middle + arb(0, radius.abs_upper()))
    size = max((abs(d).abs_upper() for d in discs), key=_MidpointKey)
    if not all(d.is_finite() and d.rad() <= size * tiny for d in discs):
        return _multiple_eigenvalues(wide)
    order = sorted(range(n), key=lambda i: _MidpointKey(discs[i]))
    vectors = [_eigenvector(x, near, discs, i) for i in order]
    return _ascending(_merge_overlapping([discs[i] for i in order])), [
        list(row) for row in zip(*vectors, strict=True)
    ]


class _MidpointKey:
    """A sort key that orders balls by their midpoints."""

    def __init__(self, ball: arb) -> None:
        self.middle = ball.mid()

    def __lt__(self, other: _MidpointKey) -> bool:
        return bool(self.middle < other.middle)


def _merge_overlapping(discs: list[arb]) -> list[arb]:
    """Overlapping discs replaced by their union: it contains as many eigenvalues as there are
    discs."""
    groups: list[tuple[arb, int]] = []
    for disc in sorted(discs, key=lambda d: _MidpointKey(d.lower())):
        if groups and groups[-1][0].overlaps(disc):
            groups[-1] = groups[-1][0].union(disc), groups[-1][1] + 1
        else:
            groups.append((disc, 1))
    return [ball for ball, count in groups for _ in range(count)]


def _ascending(values: list[arb]) -> list[arb]:
    """Enclosures in ascending order: the k-th smallest number lies between the k-th smallest lower
    and the k-th smallest upper bound."""
    lows = sorted((x.lower() for x in values), key=_MidpointKey)
    highs = sorted((x.upper() for x in values), key=_MidpointKey)
    return [low.union(high) for low, high in zip(lows, highs, strict=True)]


def _multiple_eigenvalues(a: acb_mat) -> tuple[list[arb], list[list[Any]]]:
    """Eigenvalues that need not be simple, with unsure eigenvectors."""
    try:
        values = a.eig(multiple=True)
    except ValueError as error:
        raise Unsure("eigenvalues that these bits do not enclose") from error
    if not all(value.is_finite() for value in values):
        raise Unsure("eigenvalues that these bits do not enclose")
    n = a.nrows()
    return _ascending([value.real for value in values]), [[UNSURE] * n for _ in range(n)]


def _eigenvector(x: Matrix, near: list[list[Any]], discs: list[arb], i: int) -> list[Any]:
    """The normalized eigenvector of the eigenvalue in disc ``i``.

    With W = X⁻¹·A·X, W·y = λ·y and y_i = 1, a row j ≠ i reads (λ − W_jj)·y_j = W_ji + Σ_{k≠i,j}
    W_jk·y_k. Where e bounds all elements off the diagonal and g all |λ − W_jj| from below, |y_j| ≤
    e/(g − (n − 2)·e); and y_i = 0 is impossible, for then g·max|y_j| ≤ (n − 2)·e·max|y_j|.
    """
    n = len(discs)
    unsure = [UNSURE] * n
    off = max(
        (
            abs(value).abs_upper()
            for j, row in enumerate(near)
            for k, value in enumerate(row)
            if j != k
        ),
        key=_MidpointKey,
    )
    gaps = [abs(discs[i] - near[j][j]).abs_lower() for j in range(n) if j != i]
    gap = min(gaps, key=_MidpointKey)
    margin = gap - (n - 2) * off
    if any(discs[i].overlaps(d) for j, d in enumerate(discs) if j != i) or not margin > 0:
        return unsure
    bound = (off / margin).abs_upper()
    if not bound < 1:
        return unsure
    wide = arb(0, bound)
    complex_too = isinstance(x, acb_mat)
    off_entry = acb(wide, wide) if complex_too else wide
    unit = acb(1) if complex_too else arb(1)
    vector = [
        row[0]
        for row in (x * type(x)(n, 1, [unit if j == i else off_entry for j in range(n)])).tolist()
    ]
    length = sum((square_modulus(v) for v in vector), arb(0)).sqrt()
    return [v / length for v in vector]
