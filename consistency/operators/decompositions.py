"""Factorizations. Factors are not unique (signs, phases, bases of an eigenspace, pivots), so their
products are compared."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from .declare import (
    FLOAT,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
)
from .hooks import Args, Kwargs, Tensors, hook
from .matrices import BOTH, ENTRIES, matrices, order
from .parameter_sampling import optional_arguments
from .singular_vectors import of_singular_vectors

# Sizes beyond the blocks of LAPACK, wide and tall; more than 8192 numbers among them.
LARGE = ((65, 64), (64, 129), (129, 64), (3, 257), (257, 3))
# Magnitudes far apart, and whole numbers of which few are not 0: matrices of a lower rank.
WIDEST = ("float64", "complex128")
SCALED = Domain(wide=(-20, 20), propagates=())


def sides(d: Drawing) -> tuple[int, ...]:
    """Mostly up to 33 rows and columns, one time in sixteen more. Shrinks to the former."""
    large = d.choice(*LARGE) if d.integer(0, 15) == 15 else None
    return large or (*d.shape(0, 1, most=3), d.size(1, 33), d.size(1, 33))


def entries(d: Drawing, shape: tuple[int, ...]) -> TensorRecipe:
    """Numbers within [-1, 1], one time in eight of magnitudes far apart or of a lower rank."""
    match d.integer(0, 15):
        case 14:
            return d.tensor(shape, SCALED)
        case 15:
            return d.tensor(shape, ENTRIES, values=d.choice(("integers", -1, 1), ("sparse", 0.125)))
    return d.tensor(shape, ENTRIES)


def rectangle(*, degenerate: bool = True, **options: tuple[Any, ...]) -> Sample:
    """Any matrix, wide or tall; ``degenerate`` ones, too, unless singular values are
    differentiated, which needs distinct ones."""

    def sample(d: Drawing) -> Call:
        shape = sides(d)
        matrix = entries(d, shape) if degenerate else d.tensor(shape, ENTRIES)
        return call(matrix, **optional_arguments(d, **options))

    return sample


def singular(d: Drawing) -> Call:
    """With thin factors or full ones."""
    return call(entries(d, sides(d)), full_matrices=d.flag())


def symmetric(d: Drawing) -> Call:
    """Symmetric matrices, of which one triangle is read; now and then any matrix, whose triangle
    stands for both."""
    options = optional_arguments(d, UPLO=("U",))
    if d.integer(0, 3) == 3:
        n = d.size(1, 33)
        return call(d.tensor((*d.shape(0, 1, most=3), n, n), ENTRIES), **options)
    return call(matrices(d, order(d), definite=True, scaled=BOTH), **options)


def dominant(d: Drawing) -> Call:
    """With a large diagonal, or any square matrix of distinct rows; of any scale, where float64
    holds the cubes that are compared."""
    if d.integer(0, 3) == 3:
        n = d.size(1, 17)
        return call(d.tensor((*d.shape(0, 1, most=3), n, n), ENTRIES, overlap=False))
    return call(matrices(d, d.size(1, 17), scaled=() if d.dtype in WIDEST else BOTH))


def regular(d: Drawing) -> Call:
    """Square, tall or wide, with pivots other than zero."""
    matrix = matrices(d, d.size(1, 17), rows=d.integer(1, 2), scaled=BOTH)
    rank = len(matrix.base)
    if not matrix.view and d.choice(False, False, True):
        return call(replace(matrix, view=(("transpose", rank - 2, rank - 1),)))
    return call(matrix)


def gram(q: torch.Tensor) -> torch.Tensor:
    """QᴴQ, the identity for orthonormal columns."""
    return q.mH @ q


def of_svd(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """The singular values, the product, and that the vectors are orthonormal; the values alone
    where no vectors were asked for."""
    u, s, vh = outputs
    if not u.numel():
        return (s,)
    k = s.shape[-1]
    return s, (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], gram(u), gram(vh.mH)


def of_eigh(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """As :func:`of_svd`."""
    w, v = outputs
    if not v.numel():
        return (w,)
    return w, (v * w.unsqueeze(-2)) @ v.mH, gram(v)


def of_qr(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    q, r = outputs
    below = r.tril(-1)
    return (q @ r, gram(q), below) if q.numel() else (gram(r), below)


def of_eigenvalues(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """A set: Σλ, Σλ² and Σλ³ do not depend on its order."""
    return tuple(
        torch.view_as_real((outputs[0] ** power).sum(-1).resolve_conj()) for power in (1, 2, 3)
    )


@hook
def of_power_sums(outputs: Tensors, x: torch.Tensor, *_: Any, **__: Any) -> Any:
    """Computed eigenvalues are those of A + E, with ‖E‖ of a few u·‖A‖ (Golub and Van Loan, 7.5.6);
    the sum of their k-th powers is the trace of the matrix to that power, whose slope by E is
    k·Aᵏ⁻¹. Perturbations of all elements by the same size may miss a trace: their signs cancel."""
    size = torch.linalg.matrix_norm(x)
    slope, product, sums = torch.eye(x.shape[-1], dtype=x.dtype), x, []
    for power in (1, 2, 3):
        bound = product.diagonal(dim1=-2, dim2=-1).sum(-1).abs()
        bound = bound + power * torch.linalg.matrix_norm(slope) * size
        sums.append(bound.unsqueeze(-1).expand(*bound.shape, 2))
        slope, product = product, product @ x
    return tuple(sums)


@hook
def of_eigenvectors(outputs: Tensors, x: torch.Tensor, *_: Any, **__: Any) -> Any:
    """Those sums; the norm of the matrix, as no vector is longer than 1; and that length."""
    sums = of_power_sums((x,), {}, outputs)
    size = torch.linalg.matrix_norm(x)[..., None, None, None].expand(*x.shape, 2)
    return (*sums, size, torch.ones(x.shape[:-1], dtype=torch.float64))


def of_eig(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """The set of eigenvalues, A·V - V·diag(λ), and the length of each vector: order and phases are
    free."""
    w, v = outputs
    residual = args[0].to(v.dtype) @ v - v * w.unsqueeze(-2)
    return (
        *of_eigenvalues(args, kwargs, (w,)),
        torch.view_as_real(residual),
        v.abs().square().sum(-2),
    )


def of_lu(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """P·L·U, and the shape of each: one 1 in every row and column of P, a unit triangle with |L| ≤
    1, and an upper triangle.

    Of complex numbers LAPACK compares |re| + |im| to choose a pivot, which leaves |L| ≤ √2.
    """
    p, l, u = outputs
    product = (p @ l @ u) if p.numel() else l @ u
    unit = l.tril() - torch.eye(*l.shape[-2:], dtype=l.dtype)
    grown = (
        (unit.tril(-1).abs() - (1.0 if not l.is_complex() else 1.4143)).clamp_min(0.0)
        + unit.triu(0).abs()
        + l.triu(1).abs()
    )
    return product, u.tril(-1), grown, p * (p - 1.0), p.sum(-1), p.sum(-2)


@hook
def of_elimination(outputs: Tensors, x: torch.Tensor, *_: Any, **__: Any) -> Any:
    """P·|L|·|U| for the product, of which the error of an elimination is a part (Higham, *Accuracy
    and Stability*, theorem 9.3): where pivots grow, it exceeds |A|. Shapes are exact.

    L and U are those of the rounded elimination, which are not 0 where the exact ones are: each
    element has a share of the largest one, γ = k·u of float32 with k = 64.
    """
    if not bool(x.isfinite().all()) or not x.numel():
        return "normwise"
    p, l, u = torch.linalg.lu(x)
    size = p.abs() @ (l.abs() @ u.abs())
    size = size + 2.0**-18 * size.amax((-2, -1), keepdim=True)
    if x.is_complex():  # of either part
        size = size.unsqueeze(-1).expand(*size.shape, 2)
    return (size, 0.0, 0.0, 0.0, 1.0, 1.0)[: len(outputs)]


def of_lu_factor(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """P·L·U, the pivots applied row by row; NaN where a pivot names no row."""
    factors, pivots = outputs[0], outputs[1]
    rows, columns = factors.shape[-2:]
    k = min(rows, columns)
    product = (factors[..., :, :k].tril(-1) + torch.eye(rows, k, dtype=factors.dtype)) @ factors[
        ..., :k, :
    ].triu()
    flat, swaps = (
        product.reshape(-1, rows, columns).clone(),
        pivots.reshape(-1, pivots.shape[-1]).tolist(),
    )
    for matrix, swapped in zip(flat, swaps, strict=True):
        for i, pivot in reversed(list(enumerate(swapped))):
            if not 1 <= pivot <= rows:
                matrix.fill_(math.nan)
                break
            matrix[[i, pivot - 1]] = matrix[[pivot - 1, i]]
    return (flat.reshape(product.shape),)


def factors(
    name: str,
    sample: Sample,
    observe: Any = None,
    *,
    error: ErrorModel | None = None,
    differentiable: bool = False,
    **more: Any,
) -> Operator:
    """Gradients of factors depend on the choice made, so only unique results are differentiated."""
    return Operator(
        name=name,
        family="linalg",
        sample=sample,
        error=error or FACTORED,
        dtypes=FLOAT,
        differentiable=differentiable,
        observe=observe,
        **more,
    )


@hook
def of_longer_side(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """n: the rows or columns of a matrix, whichever are more: reflections have as many numbers."""
    return float(max(x.shape[-2:]))


FACTORED = accumulated("normwise", of_longer_side)
OPERATORS = [
    factors("linalg.svd", singular, of_svd, complex=True),
    factors(
        "linalg.svdvals",
        rectangle(degenerate=False),
        error=replace(FACTORED, backward=of_singular_vectors),
        differentiable=True,
        complex=True,
    ),
    factors("linalg.eigh", symmetric, of_eigh, complex=True),
    factors("linalg.eigvalsh", symmetric, differentiable=True, complex=True),
    factors(
        "linalg.eigvals",
        dominant,
        of_eigenvalues,
        error=replace(FACTORED, magnitude=of_power_sums),
        complex=True,
    ),
    factors(
        "linalg.eig",
        dominant,
        of_eig,
        error=replace(FACTORED, magnitude=of_eigenvectors),
        complex=True,
    ),
    factors("linalg.qr", rectangle(mode=("complete", "r")), of_qr, complex=True),
    factors(
        "linalg.lu",
        rectangle(),
        of_lu,
        error=replace(FACTORED, magnitude=of_elimination),
        complex=True,
    ),
    factors(
        "linalg.lu_factor",
        regular,
        of_lu_factor,
        error=replace(FACTORED, magnitude=of_elimination),
        complex=True,
    ),
]
