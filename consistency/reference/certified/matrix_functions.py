"""Inverses, solutions, determinants, exponentials, factors and spectra as functions of matrices,
with their derivatives.

Gradients follow from Re⟨G, dY⟩ = Re⟨gradient, dA⟩ with the dY that is given at each function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from . import complex_numbers as c
from . import movement, spectra
from .complex_numbers import Pair, Tensor
from .matrices import MatrixFunction, MatrixResult, adjoint, expanded, lower, masked, reshaped
from .matrix_rank import exact_rank
from .nodes import Constant

Shape = tuple[int, int]


def _same_shape(a: Shape, *other_shapes: Shape) -> Sequence[MatrixResult]:
    return (MatrixResult(*a),)


def _pull_inverse(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """d(A⁻¹) = −A⁻¹·dA·A⁻¹"""
    inverse_adjoint = adjoint(outputs[0])
    return (c.neg(c.matmul(c.matmul(inverse_adjoint, g), inverse_adjoint)),)


_INFO = MatrixResult(1, 1, "int")  # LAPACK's info; 0 means that the matrix is certainly regular
_SUCCESS = [[0]]
inverse = MatrixFunction(
    "inverse", lambda a: (MatrixResult(*a), _INFO), lambda a: (a.inv(), _SUCCESS), (_pull_inverse,)
)


def _pull_solution(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """A·X = B: dX = A⁻¹·(dB − dA·X)"""
    of_b = solution(adjoint(inputs[0]), g)[0]
    return c.neg(c.matmul(of_b, adjoint(outputs[0]))), of_b


solution: MatrixFunction = MatrixFunction(
    "solution",
    lambda a, b: (MatrixResult(*b), _INFO),
    lambda a, b: (a.solve(b), _SUCCESS),
    (_pull_solution,),
)


def _pull_determinant(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """d det A = det A · tr(A⁻¹·dA)"""
    return (c.mul(c.mul(g, c.conj(outputs[0])), adjoint(inverse(inputs[0])[0])),)


determinant = MatrixFunction(
    "determinant", lambda a: (MatrixResult(1, 1),), lambda a: ([[a.det()]],), (_pull_determinant,)
)


def _pull_exponential(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """The derivative in direction E is the upper right block of exp [[A, E], [0, A]]; its adjoint
    is the one at Aᴴ."""
    n = inputs[0].shape[-1]
    a = adjoint(inputs[0])
    top = c.each(lambda x, y: movement.cat([x, y], -1), a, g)
    below = c.each(
        lambda x: movement.cat([movement.gather(x, np.full(x.size, -1), x.shape), x], -1), a
    )
    block_exponential = exponential(c.each(lambda x, y: movement.cat([x, y], -2), top, below))[0]
    return (
        c.each(lambda x: movement.labeled(x, lambda labels: labels[:, :n, n:]), block_exponential),
    )


exponential: MatrixFunction = MatrixFunction(
    "exponential", _same_shape, lambda a: (a.exp(),), (_pull_exponential,)
)


def _pull_cholesky(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dL = L·Φ(L⁻¹·dA·L⁻ᴴ), Φ the lower triangle with half the diagonal (Murray 2016).

    Only its action on Hermitian matrices is determined. This is torch's choice, which is Hermitian
    unless G has imaginary parts where L is real.
    """
    inverse_adjoint = inverse(adjoint(outputs[0]))[0]
    inner = c.mul(0.5, c.matmul(adjoint(outputs[0]), g))
    below, diagonal = lower(inner, -1), masked(inner, np.eye(inner.shape[-1], dtype=bool))
    middle = c.add(c.add(below, adjoint(below)), diagonal)
    return (c.matmul(c.matmul(inverse_adjoint, middle), adjoint(inverse_adjoint)),)


def _cholesky(name: str, lower_triangle: Callable[[Any], Any]) -> MatrixFunction:
    """L of the Hermitian matrix whose lower triangle is ``lower_triangle`` of the argument."""
    return MatrixFunction(
        name,
        lambda a: (MatrixResult(*a), _INFO),
        lambda a: (spectra.cholesky(lower_triangle(a)), _SUCCESS),
        (_pull_cholesky,),
    )


cholesky = _cholesky("Cholesky's factor", lambda a: a)
cholesky_of_upper = _cholesky("Cholesky's factor", spectra.conjugate_transposed)


def _values_and_vectors(a: Any) -> Sequence[Any]:
    values, vectors = spectra.eigenvalues(spectra.hermitian(a))
    return [[value] for value in values], vectors


def _pull_eigenvalues(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dλ = vᴴ·dA·v for simple eigenvalues, with |v| = 1; the gradient is Hermitian."""
    product = _scaled_product(outputs[1], g, adjoint(outputs[1]))
    if not c.is_complex(product):
        return (product,)
    return (Pair(product.re, masked(product.im, ~np.eye(product.shape[-1], dtype=bool))),)


def _scaled_product(left: Tensor, factors: Tensor, right: Tensor) -> Any:
    """left · diag(factors) · right"""
    row = reshaped(factors, (factors.shape[0], 1, factors.shape[1]))
    return c.matmul(c.mul(left, row), right)


eigen = MatrixFunction(
    "eigenvalues",
    lambda a: (MatrixResult(a[0], 1, "real"), MatrixResult(*a)),
    _values_and_vectors,
    (_pull_eigenvalues, None),
)


def _pull_eigenvectors(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dvⱼ = Σ vᵢ·(vᵢᴴ·dA·vⱼ) / (λⱼ − λᵢ) over i ≠ j, for simple eigenvalues and up to a phase, of
    which nothing may depend."""
    values, vectors = outputs
    batch, n, _ = vectors.shape
    eye = np.eye(n)
    shape = (batch, n, n)
    higher = expanded(reshaped(values, (batch, 1, n)), shape)
    lower_ones = expanded(reshaped(values, (batch, n, 1)), shape)
    apart = c.add(c.sub(higher, lower_ones), Constant(eye))
    inner = masked(c.div(c.matmul(adjoint(vectors), g), apart), eye == 0.0)
    return (c.matmul(c.matmul(vectors, inner), adjoint(vectors)),)


eigenvectors = MatrixFunction(
    "eigenvectors", eigen.results, _values_and_vectors, (_pull_eigenvalues, _pull_eigenvectors)
)


def _singular(a: Any) -> Sequence[Any]:
    """Singular values from A·Aᴴ or Aᴴ·A, whichever is smaller, and its eigenvectors, which are the
    left or right singular vectors."""
    adjoint_matrix = spectra.conjugate_transposed(a)
    small = a * adjoint_matrix if a.nrows() <= a.ncols() else adjoint_matrix * a
    values, vectors = spectra.eigenvalues(spectra.hermitian(small))
    missing = len(values) - exact_rank(a)
    roots = [arb(0) if i < missing else _nonnegative_root(value) for i, value in enumerate(values)]
    return [[root] for root in reversed(roots)], [list(reversed(row)) for row in vectors]


def _nonnegative_root(x: arb) -> arb:
    return x.sqrt() if x >= 0 else x.abs_upper().sqrt().union(0)


def _pull_singular(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], g: Tensor
) -> Sequence[Tensor | None]:
    """dσ = Re(uᴴ·dA·v), with v = Aᴴ·u/σ or u = A·v/σ."""
    a = inputs[0]
    vectors = outputs[1]
    share = c.div(g, outputs[0])
    projector = _scaled_product(vectors, share, adjoint(vectors))
    return (c.matmul(projector, a) if a.shape[1] <= a.shape[2] else c.matmul(a, projector),)


singular_values = MatrixFunction(
    "singular values",
    lambda a: (MatrixResult(min(a), 1, "real"), MatrixResult(min(a), min(a))),
    _singular,
    (_pull_singular, None),
)
