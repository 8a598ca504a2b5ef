"""Decompositions and solutions through np.linalg (LAPACK), in the dtype of the input: double at
most, so never WIDE."""

from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import axes
from consistency.backends.numpy.dtypes import Array, Dims, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.matmul import matmul
from consistency.backends.numpy.reductions import vector_norm


@implements("linalg.inv", complex=True)
def inv(A: Array) -> Array:
    return np.asarray(np.linalg.inv(A))


@implements("linalg.det", complex=True)
def det(A: Array) -> Array:
    return np.asarray(np.linalg.det(A))


@implements("linalg.slogdet", complex=True)
def slogdet(A: Array) -> tuple[Array, Array]:
    sign, logarithm = np.linalg.slogdet(A)
    return np.asarray(sign), np.asarray(logarithm)


@implements("logdet")
def logdet(input: Array) -> Array:
    sign, logarithm = slogdet(input)
    return np.where(sign < 0, constant(np.nan, input), logarithm)


@implements("linalg.solve", complex=True)
def solve(A: Array, B: Array, *, left: bool = True) -> Array:
    """B is a batch of vectors if it has the shape of A without the last dimension, else one of
    matrices."""
    if not left:
        return solve(A.swapaxes(-1, -2), B.swapaxes(-1, -2)).swapaxes(-1, -2)
    if B.ndim == 1 or B.shape == A.shape[:-1]:
        return np.linalg.solve(A, B[..., None])[..., 0]
    return np.linalg.solve(A, B)


@implements("linalg.solve_triangular", complex=True)
def solve_triangular(
    A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    triangle = np.triu(A) if upper else np.tril(A)
    if unitriangular:
        identity = np.eye(A.shape[-1], dtype=A.dtype)
        triangle = triangle * (1 - identity) + identity
    if left:
        return _substituted(triangle, B, upper)
    return _substituted(triangle.swapaxes(-1, -2), B.swapaxes(-1, -2), not upper).swapaxes(-1, -2)


def _substituted(triangle: Array, B: Array, upper: bool) -> Array:
    """The solution for a triangle, row by row. Zeros on its diagonal divide, as in BLAS's trsm;
    ``np.linalg.solve`` refuses such a matrix."""
    size = triangle.shape[-1]
    batch = np.broadcast_shapes(triangle.shape[:-2], B.shape[:-2])
    found = np.broadcast_to(B, (*batch, *B.shape[-2:])).astype(np.result_type(triangle, B))
    for row in range(size - 1, -1, -1) if upper else range(size):
        done = slice(row + 1, size) if upper else slice(0, row)
        known = np.matmul(triangle[..., row : row + 1, done], found[..., done, :])
        found[..., row, :] -= known[..., 0, :]
        found[..., row, :] /= triangle[..., row, row, None]
    return found


@implements("triangular_solve", complex=True)
def triangular_solve(
    b: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    """The solution, and the matrix as it was."""
    matrix = A.swapaxes(-1, -2) if transpose else A
    found = solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return found, np.broadcast_to(A, (*found.shape[:-2], *A.shape[-2:]))


@implements("linalg.cholesky", "cholesky", complex=True)
def cholesky(input: Array, upper: bool = False) -> Array:
    if not upper:
        return np.linalg.cholesky(input)
    # Of the other half of the matrix, which need not be the same.
    return np.conj(np.linalg.cholesky(np.conj(input.swapaxes(-1, -2))).swapaxes(-1, -2))


@implements("cholesky_inverse", complex=True)
def cholesky_inverse(L: Array, upper: bool = False) -> Array:
    lower = np.conj(np.triu(L).swapaxes(-1, -2)) if upper else np.tril(L)
    inverse = np.linalg.inv(lower)
    return matmul(np.conj(inverse.swapaxes(-1, -2)), inverse)


@implements("cholesky_solve", complex=True)
def cholesky_solve(B: Array, L: Array, upper: bool = False) -> Array:
    lower = np.conj(np.triu(L).swapaxes(-1, -2)) if upper else np.tril(L)
    half = _substituted(lower, B, upper=False)
    return _substituted(np.conj(lower.swapaxes(-1, -2)), half, upper=True)


@implements("linalg.svd", complex=True)
def svd(
    A: Array, full_matrices: bool = True, *, driver: str | None = None
) -> tuple[Array, Array, Array]:
    u, s, vh = np.linalg.svd(A, full_matrices)
    return u, s, vh


@implements("linalg.svdvals", complex=True)
def svdvals(A: Array, *, driver: str | None = None) -> Array:
    return np.linalg.svd(A, compute_uv=False)


@implements("svd", complex=True)
def torch_svd(
    input: Array, some: bool = True, compute_uv: bool = True
) -> tuple[Array, Array, Array]:
    """The old interface: V rather than its adjoint, reduced by default."""
    if not compute_uv:
        raise NotImplementedError("compute_uv=False")
    u, s, vh = np.linalg.svd(input, not some)
    return u, s, np.conj(vh.swapaxes(-1, -2))


@implements("linalg.qr", complex=True)
def qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:
    if mode not in ("reduced", "complete"):
        raise NotImplementedError(f"mode {mode!r}")
    q, r = np.linalg.qr(A, "complete" if mode == "complete" else "reduced")
    return q, r


@implements("qr", complex=True)
def torch_qr(input: Array, some: bool = True) -> tuple[Array, Array]:
    return qr(input, "reduced" if some else "complete")


@implements("linalg.eigh", complex=True)
def eigh(A: Array, UPLO: str = "L") -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(A, "U" if UPLO.upper() == "U" else "L")
    return values, vectors


@implements("linalg.eigvalsh", complex=True)
def eigvalsh(A: Array, UPLO: str = "L") -> Array:
    return np.linalg.eigvalsh(A, "U" if UPLO.upper() == "U" else "L")


@implements("linalg.eig", complex=True)
def eig(A: Array) -> tuple[Array, Array]:
    """Always complex, where NumPy gives real results when it can."""
    values, vectors = np.linalg.eig(A)
    kind = np.promote_types(A.dtype, np.complex64)
    return values.astype(kind), vectors.astype(kind)


@implements("linalg.eigvals", complex=True)
def eigvals(A: Array) -> Array:
    return np.linalg.eigvals(A).astype(np.promote_types(A.dtype, np.complex64))


@implements("linalg.matrix_power", complex=True)
def matrix_power(A: Array, n: int) -> Array:
    return np.linalg.matrix_power(A, n)


@implements("linalg.matrix_norm", complex=True)
def matrix_norm(
    A: Array,
    ord: float | str = "fro",
    dim: Dims = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    rows, columns = axes(dim, A.ndim)
    x = A if dtype is None else A.astype(dtype)
    if ord == "fro":
        return vector_norm(x, 2, (rows, columns), keepdim)
    order: Any = ord
    return np.asarray(np.linalg.norm(x, order, (rows, columns), keepdim))


@implements("linalg.norm", complex=True)
def norm(
    A: Array,
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: str | None = None,
) -> Array:
    """Of a vector, or of a matrix if two dimensions and an order are given."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    two = A.ndim == 2 if dim is None else not isinstance(dim, int) and len(dim) == 2
    if two:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, float(ord), dim, keepdim, dtype=dtype)


@implements("linalg.pinv", "pinverse", complex=True)
def pinv(
    input: Array,
    rcond: float | None = None,
    *,
    atol: Any = None,
    rtol: Any = None,
    hermitian: bool = False,
) -> Array:
    """Singular values below max(m, n) · ε · σ₁ count as zero."""
    if atol is not None or rtol is not None or hermitian or isinstance(rcond, np.ndarray):
        raise NotImplementedError("tolerances of its own, or hermitian=True")
    cut = max(input.shape[-2:]) * float(np.finfo(input.dtype).eps) if rcond is None else rcond
    return np.linalg.pinv(input, cut)


@implements("linalg.matrix_rank", complex=True)
def matrix_rank(
    A: Array, tol: None = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Array:
    if tol is not None or atol is not None or rtol is not None or hermitian:
        raise NotImplementedError("tolerances of its own, or hermitian=True")
    if not A.size:
        return np.zeros(A.shape[:-2], np.int64)
    return np.asarray(np.linalg.matrix_rank(A)).astype(np.int64)
