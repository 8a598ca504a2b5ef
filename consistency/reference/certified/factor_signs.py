"""Factors of which only the signs and phases are free: one choice stands for all of them, where
nothing that is looked at depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import complex_numbers as c
from . import functions as f
from . import matrix_functions as m
from .complex_numbers import Tensor
from .matrices import adjoint, reshaped
from .movement import labeled

TRAIT = "any-signs"  # of operators of which that is true


class Signs:
    """Whether the operator that is traced is one of those."""

    are_free = False


@contextmanager
def free_signs(are_free: bool) -> Iterator[None]:
    """Within it, factors are known up to what does not matter."""
    before, Signs.are_free = Signs.are_free, are_free
    try:
        yield
    finally:
        Signs.are_free = before


def singular_vectors(a: Tensor) -> tuple[Any, Any, Any]:
    """U, the singular values and Vᴴ of a stack of matrices with as many rows as columns, or more:
    from the eigenvectors of Aᴴ·A."""
    values, vectors = (_descending(x) for x in m.eigenvectors(c.matmul(adjoint(a), a)))
    batch, n, _ = vectors.shape
    roots = c.each(f.sqrt, reshaped(values, (batch, 1, n)))
    return c.div(c.matmul(a, vectors), roots), reshaped(roots, (batch, n)), adjoint(vectors)


def _descending(x: Tensor) -> Any:
    if x.shape[-1] == 1:
        return c.each(lambda node: labeled(node, lambda labels: labels[:, ::-1]), x)
    return c.each(lambda node: labeled(node, lambda labels: labels[:, :, ::-1]), x)


def orthogonal_factors(a: Tensor) -> tuple[Any, Any]:
    """Q and R with a positive diagonal of a stack of such matrices: from Cholesky's factor of
    Aᴴ·A."""
    r = adjoint(m.cholesky(c.matmul(adjoint(a), a))[0])
    return c.matmul(a, m.inverse(r)[0]), r
