"""What is made of factors: solutions of systems and products with reflectors; ranks, and factors as
LAPACK packs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from .declare import EXACT, Call, Drawing, Operator, Sample, call
from .linear_algebra import WEAK, op, triangle
from .matrices import BOTH, ENTRIES, RIGHT, matrices, repeated_row, right_side, shape_of
from .parameter_sampling import PLAIN, optional_arguments


def triangular(d: Drawing) -> Call:
    """Now and then one right side for a batch of triangles."""
    a, diagonal = triangle(d)
    *batch, n, _ = shape_of(a)
    one_for_all = bool(batch) and d.choice(False, False, True)
    b = d.tensor((*(1 for _ in batch), n, d.size(1, 9)), RIGHT) if one_for_all else right_side(d, a)
    options = optional_arguments(d, upper=(False,), transpose=(True,))
    return call(b, a, **options, **diagonal)


def exchanges(d: Drawing, shape: tuple[int, ...], rows: int) -> TensorRecipe:
    """Pivots: the row, counted from 1, that each step exchanges its own with."""
    return d.tensor(shape, PLAIN, dtype="int32", values=("integers", 1, rows), layout=False)


def packed(d: Drawing) -> tuple[TensorRecipe, TensorRecipe]:
    """Two triangles in one matrix, and pivots. Small ones: inverses of unit triangles grow
    exponentially."""
    factors = matrices(d, d.choice(16, 17) if d.integer(0, 7) == 7 else d.integer(1, 9))
    return factors, exchanges(d, shape_of(factors)[:-1], shape_of(factors)[-1])


def by_factors(d: Drawing) -> Call:
    """A solution, from the left or from the right, of the system or of its adjoint."""
    factors, pivots = packed(d)
    *batch, n, _ = shape_of(factors)
    options = optional_arguments(d, left=(False,), adjoint=(True,))
    sizes = (d.size(1, 9), n) if options.get("left") is False else (n, d.size(1, 9))
    return call(factors, pivots, d.tensor((*batch, *sizes), RIGHT), **options)


def right_side_first(d: Drawing) -> Call:
    factors, pivots = packed(d)
    return call(right_side(d, factors), factors, pivots)


def symmetric(d: Drawing) -> Call:
    """Of a symmetric matrix, whose diagonal is made of single pivots. Of a real one Hermitian says
    the same."""
    factors, pivots = packed(d)
    said = {} if d.complex else optional_arguments(d, hermitian=(True,))
    return call(factors, pivots, right_side(d, factors), **said)


def any_shape(d: Drawing) -> Call:
    return call(matrices(d, d.size(1, 17), rows=d.integer(1, 3), scaled=BOTH))


def reflected(d: Drawing) -> Call:
    """A product with all reflectors of a matrix, from the left or the right."""
    batch, n, m = d.shape(0, 1, most=3), d.size(1, 9), d.integer(0, 9)
    vectors, scales = d.tensor((*batch, n + m, n), ENTRIES), d.tensor((*batch, n), WEAK)
    options = optional_arguments(d, left=(False,), transpose=(True,))
    sizes = (d.size(1, 9), n + m) if options.get("left") is False else (n + m, d.size(1, 9))
    return call(vectors, scales, d.tensor((*batch, *sizes), ENTRIES), **options)


def ranked(d: Drawing) -> Call:
    """A rank that no rounding decides: all singular values lie far above each tolerance, or far
    below it, or but for one they are 0, of which rounding leaves less than any tolerance. Shrinks
    towards a full rank."""
    match d.integer(0, 5):
        case 5:
            return call(repeated_row(d))
        case 4:
            return call(matrices(d, d.size(1, 17), definite=True, scaled=BOTH), hermitian=True)
        case 3:
            return call(matrices(d, d.size(1, 17)), d.choice(2.0**-12, 2.0**24))
    matrix = matrices(d, d.size(1, 17), rows=d.integer(1, 3), large=True)
    return call(matrix, **optional_arguments(d, rtol=(2.0**-12, 2.0), atol=(2.0**-12, 2.0**24)))


def with_pivots(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that gives LAPACK's pivots their dtype back: integers are made wide for it."""

    def call_with(*args: Any, **kwargs: Any) -> Any:
        narrow = (x.to(torch.int32) if is_wide(x) else x for x in args)
        return function(*narrow, **kwargs)

    return call_with


def is_wide(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype == torch.int64


def solved(name: str, sample: Sample, function: Callable[..., Any], **more: Any) -> Operator:
    more = {"complex": True, "out": True} | more
    return op(name, sample, reference=with_pivots(function), **more)


OPERATORS = [
    op("triangular_solve", triangular, complex=True),
    solved("linalg.lu_solve", by_factors, torch.linalg.lu_solve),
    solved("lu_solve", right_side_first, torch.lu_solve),
    solved("linalg.ldl_solve", symmetric, torch.linalg.ldl_solve, differentiable=False),
    op("geqrf", any_shape, complex=True, differentiable=False),
    op("ormqr", reflected, complex=True, out=True),
    op(
        "linalg.matrix_rank",
        ranked,
        EXACT,
        complex=True,
        differentiable=False,
        traits=frozenset({"constant"}),  # a single matrix has a single rank
    ),
]
