"""The compared quantities of factorizations, known by definition.

Factors are not unique, but what :mod:`consistency.operators.decompositions` compares is, and is
known exactly: the product of the factors is the matrix, and their columns are orthonormal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...core.model import Output
from ...generate.materialize import Arguments
from ...operators import decompositions
from ...operators.declare import Operator
from . import complex_numbers as c
from . import matrix_functions as m
from .balls import Unsure
from .complex_numbers import Pair, Tensor
from .entries.linear_systems import real
from .matrices import adjoint, expanded, lower, reshaped, stack
from .movement import cat, unsqueeze
from .nodes import Constant
from .tracing import CallTrace

Kwargs = dict[str, Any]
Build = Callable[[], Arguments]
CallOf = Callable[[Arguments], Sequence[Output]]
Observed = Callable[[tuple[Any, ...], Kwargs, Sequence[Any]], Sequence[Tensor]]


def _identity(x: Any) -> Tensor:
    """A stack of identity matrices in the shape of the observed one."""
    return expanded(Constant(np.eye(x.shape[-1])), tuple(x.shape))  # type: ignore[no-any-return]


def _zeros(x: Any) -> Tensor:
    return Constant(np.zeros(tuple(x.shape)))


def _ones(x: Any) -> Tensor:
    return Constant(np.ones(tuple(x.shape)))


def _hermitian(a: Any, triangle: str = "L") -> Tensor:
    """The Hermitian matrix with this triangle."""
    a = adjoint(a) if triangle.upper() == "U" else a
    diagonal = c.sub(lower(a), lower(a, -1))
    diagonal = diagonal.re if isinstance(diagonal, Pair) else diagonal
    return c.add(c.add(lower(a, -1), adjoint(lower(a, -1))), diagonal)  # type: ignore[no-any-return]


def _svd(args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]) -> Sequence[Tensor]:
    """Σ, U·Σ·Vᴴ, and the orthonormal columns of U and V."""
    values = reshaped(m.singular_values(stack(args[0]))[0], tuple(observed[0].shape))
    return (
        (values,)
        if len(observed) == 1
        else (values, args[0], _identity(observed[2]), _identity(observed[3]))
    )


def _eigh(args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]) -> Sequence[Tensor]:
    """λ, V·Λ·Vᴴ, and the orthonormal columns of V."""
    a = _hermitian(*args[:2], *(kwargs[name] for name in ("UPLO",) if name in kwargs))
    values = reshaped(m.eigen(stack(a))[0], tuple(observed[0].shape))
    return (values,) if len(observed) == 1 else (values, a, _identity(observed[2]))


def _qr(args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]) -> Sequence[Tensor]:
    """Q·R and the orthonormal columns of Q, or Rᴴ·R without Q; and zeros below the diagonal of
    R."""
    a = args[0]
    if len(observed) == 2:
        return c.matmul(adjoint(a), a), _zeros(observed[1])
    return a, _identity(observed[1]), _zeros(observed[2])


def _eigenvalues(
    args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]
) -> Sequence[Tensor]:
    """Σλ, Σλ² and Σλ³ are the traces of A, A² and A³."""
    values, power = [], args[0]
    for sums in observed[:3]:
        trace = c.pair(c.sum_(c.mul(power, Constant(np.eye(power.shape[-1]))), (-2, -1)))
        values.append(reshaped(_as_numbers(trace), tuple(sums.shape)))
        power = c.matmul(power, args[0])
    return values


def _as_numbers(x: Pair) -> Tensor:
    return cat([unsqueeze(x.re, -1), unsqueeze(x.im, -1)], -1)


def _eig(args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]) -> Sequence[Tensor]:
    """The power sums, A·V − V·Λ = 0, and vectors of length 1."""
    return *_eigenvalues(args, kwargs, observed), _zeros(observed[3]), _ones(observed[4])


def _lu(args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]) -> Sequence[Tensor]:
    """P·L·U, and no deviation from the shapes and sizes of factors by partial pivoting."""
    if not kwargs.get("pivot", True):
        raise Unsure("factors without pivots")
    return (
        args[0],
        _zeros(observed[1]),
        _zeros(observed[2]),
        _zeros(observed[3]),
        _ones(observed[4]),
        _ones(observed[5]),
    )


def _lu_factor(args: tuple[Any, ...], kwargs: Kwargs, observed: Sequence[Any]) -> Sequence[Tensor]:
    return (args[0],)


_OBSERVED: dict[Any, Observed] = {
    decompositions.of_svd: _svd,
    decompositions.of_eigh: _eigh,
    decompositions.of_qr: _qr,
    decompositions.of_eigenvalues: _eigenvalues,
    decompositions.of_eig: _eig,
    decompositions.of_lu: _lu,
    decompositions.of_lu_factor: _lu_factor,
}


def known(operator: Operator, build: Build, call: CallOf) -> list[Tensor] | None:
    """The unique quantities that the operator's hook computes from the outputs, or None if they are
    not known. Only the shapes of ``call``'s outputs are used."""
    observe = _OBSERVED.get(operator.observe)
    if observe is None:
        return None
    trace = CallTrace()
    arguments = build()
    with torch.no_grad():
        outputs = tuple(o.tensor for o in call(arguments))
        fresh = build()
        observed = operator.observe(tuple(fresh.args), fresh.kwargs, outputs)  # type: ignore[misc]
    args = [trace.node(x) if isinstance(x, torch.Tensor) else x for x in fresh.args]
    tensors = list(observe((real(args[0]), *args[1:]), fresh.kwargs, observed))
    if len(tensors) != len(observed) or any(
        x.shape != tuple(y.shape) for x, y in zip(tensors, observed, strict=True)
    ):
        raise Unsure("observed quantities of other shapes")
    return tensors
