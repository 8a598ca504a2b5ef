"""Eigenvalues and singular values. Vectors are not unique; see :mod:`..factorizations` for what
is."""

from __future__ import annotations

from typing import Any

from .. import matrix_functions as m
from ..factor_signs import Signs, orthogonal_factors, singular_vectors
from ..matrices import adjoint, reshaped, stack
from . import entry
from .linear_systems import real, unfollowed


def _shaped(found: Any, result: Any) -> tuple[Any, ...]:
    """What was found for a stack, in the shapes of the results."""
    return tuple(reshaped(x, tuple(r.shape)) for x, r in zip(found, result, strict=True))


@entry("_linalg_eigh")
def eigh(A: Any, result: Any, UPLO: str = "L", compute_v: bool = True) -> Any:
    """The eigenvalues of the Hermitian matrix with this triangle; the gradient is Hermitian."""
    a = adjoint(real(A)) if UPLO.upper() == "U" else real(A)
    if Signs.are_free:
        found = m.eigenvectors(stack(a))
        return _shaped(found, result)
    values = m.eigen(stack(a))[0]
    return reshaped(values, tuple(result[0].shape)), unfollowed(
        result[1], "eigenvectors are not unique", A
    )


@entry("_linalg_svd")
def svd(
    A: Any, result: Any, full_matrices: bool = False, compute_uv: bool = True, driver: Any = None
) -> Any:
    if Signs.are_free and not full_matrices and A.shape[-2] >= A.shape[-1]:
        found = singular_vectors(stack(real(A)))
        return _shaped(found, result)
    values = m.singular_values(stack(real(A)))[0]
    why = "singular vectors are not unique"
    return (
        unfollowed(result[0], why, A),
        reshaped(values, tuple(result[1].shape)),
        unfollowed(result[2], why, A),
    )


@entry("linalg_qr")
def qr(A: Any, result: Any, mode: str = "reduced") -> Any:
    if Signs.are_free and mode == "reduced" and A.shape[-2] >= A.shape[-1]:
        found = orthogonal_factors(stack(real(A)))
        return _shaped(found, result)
    return tuple(unfollowed(r, "its factors are not unique", A) for r in result)
