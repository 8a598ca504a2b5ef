"""Solvers, inverses, determinants, norms and functions of matrices. S is the largest response to
perturbed inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from .declare import (
    FLOAT,
    FLOATS,
    HALF,
    INTEGERS,
    NORMWISE,
    Call,
    ComplexVariant,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
)
from .hooks import Tensors, hook
from .matrices import (
    BOTH,
    ENTRIES,
    RIGHT,
    UP,
    matrices,
    order,
    repeated_row,
    right_side,
    shape_of,
    square,
)
from .parameter_sampling import PLAIN, optional_arguments
from .singular_vectors import of_condition, of_matrix_norm

WEAK = Domain(0.0, 2.0**-5, propagates=())  # scales of reflectors


def pseudoinverse(d: Drawing) -> Call:
    """Every singular value lies above each tolerance, or all but one are 0, of which rounding
    leaves less than any tolerance."""
    if d.integer(0, 4) == 4:
        return call(repeated_row(d))
    if d.choice(False, False, True):
        return call(matrices(d, d.size(1, 17), definite=True), hermitian=True)
    (matrix,) = square(17)(d).args
    return call(matrix, **optional_arguments(d, rtol=(2.0**-12,), atol=(2.0**-12,)))


def solve(d: Drawing) -> Call:
    """A X = B, or X A = B; a vector on the right where A is a single matrix, and now and then one
    right side for a batch of matrices."""
    a = matrices(d, order(d), large=True, exchanged=True, scaled=UP)
    if len(shape_of(a)) > 2 and d.choice(False, False, True):
        *batch, n, _ = shape_of(a)
        return call(a, d.tensor((*(1 for _ in batch), n, d.size(1, 9)), RIGHT))
    if d.flag() and len(shape_of(a)) == 2:
        return call(a, right_side(d, a, vector=True))
    if d.choice(False, False, True):
        shape = shape_of(a)
        return call(a, d.tensor((*shape[:-2], d.size(1, 9), shape[-1]), RIGHT), left=False)
    return call(a, right_side(d, a))


def triangle(d: Drawing) -> tuple[TensorRecipe, dict[str, Any]]:
    """A matrix, and whether its diagonal is taken for ones. Unit triangles stay small: their
    inverses grow exponentially."""
    unit = d.choice(False, False, True)
    n, scaled = (d.size(1, 6), ()) if unit else (order(d), UP)
    a = matrices(d, n, large=not unit, scaled=scaled)
    return a, {"unitriangular": True} if unit else {}


def triangular(d: Drawing) -> Call:
    a, diagonal = triangle(d)
    shape, left = shape_of(a), not d.choice(False, False, True)
    b = d.tensor(
        (*shape[:-1], d.size(1, 9)) if left else (*shape[:-2], d.size(1, 9), shape[-1]), RIGHT
    )
    side = {} if left else {"left": False}
    return call(a, b, upper=d.flag(), **side, **diagonal)


def least_squares(d: Drawing) -> Call:
    """Full rank, as many equations as unknowns, a multiple, or a part: then the shortest of all
    solutions."""
    a = matrices(
        d,
        d.choice(64, 65) if d.integer(0, 15) == 15 else d.size(1, 17),
        rows=d.integer(1, 3),
        scaled=UP,
    )
    shape = shape_of(a)
    if not a.view and d.choice(False, False, True):
        *batch, _, equations = shape
        wide = replace(a, view=(("transpose", len(batch), len(batch) + 1),))
        return call(wide, d.tensor((*batch, equations, d.size(1, 9)), RIGHT))
    return call(a, right_side(d, a))


def cholesky_solve(d: Drawing) -> Call:
    """Now and then one right side for a batch of matrices."""
    a = matrices(d, order(d))
    *batch, n, _ = shape_of(a)
    one_for_all = bool(batch) and d.choice(False, False, True)
    b = d.tensor((*(1 for _ in batch), n, d.size(1, 9)), RIGHT) if one_for_all else right_side(d, a)
    return call(b, a, **optional_arguments(d, upper=(True,)))


def powers(d: Drawing) -> Call:
    return call(
        matrices(d, d.size(1, 9)), d.choice(2, 3, 1, 5, -1, -2, 4, 3, 5, -1, -2, 2, 8, -3, 0)
    )


def exponential(d: Drawing) -> Call:
    """Also single matrices of every small norm: the degree of the polynomial depends on it."""
    n = d.size(1, 9)
    if d.choice(False, False, True):
        exponent = d.integer(-12, -1)
        return call(d.tensor((n, n), ENTRIES, values=("wide", exponent - 3, exponent, 1)))
    return call(
        d.tensor(
            (*d.shape(0, 1, most=3), n, n),
            d.choice(ENTRIES, Domain(-0.0625, 0.0625), Domain(-3.0, 3.0)),
        )
    )


def matrix_norm(d: Drawing) -> Call:
    """Any order; singular values only of well-conditioned matrices, and not in half precision,
    which torch refuses. Where rows or columns are added up, of several matrices also along any two
    of their dimensions; half-precision numbers are whole then: of which row rounding makes the sum
    the largest, nothing promises."""
    half = d.dtype in HALF
    by_values = () if half else ("nuc", 2, -2)
    order = d.choice("fro", *by_values, 1, -1, math.inf, -math.inf)
    x = matrices(d, d.size(1, 17), rows=d.integer(1, 2), scaled=() if half else BOTH)
    if half and order != "fro":
        x = replace(x, values=("integers", -4, 4))
    options = optional_arguments(d, keepdim=(True,), dim=([-1, -2],))
    if order not in ("nuc", 2, -2) and len(shape_of(x)) > 2 and d.flag():
        options["dim"] = two_dims(d, x)
    return call(x, order, **options)


def two_dims(d: Drawing, x: TensorRecipe) -> list[Any]:
    """Any two dimensions of what :func:`matrices` drew, counted from either end."""
    rank = len(shape_of(x))
    places = range(-rank, rank)
    return list(d.choice(*((a, b) for a in places for b in places if (a - b) % rank)))


def norm(d: Drawing) -> Call:
    """Of a whole matrix, of vectors along a dim, or of matrices along two, where half-precision
    numbers are whole as in :func:`matrix_norm`."""
    x = matrices(d, d.size(1, 17))
    kept = optional_arguments(d, keepdim=(True,))
    if d.dtype in FLOAT and d.choice(*[False] * 5, True):
        # Squares that leave the format, of matrices and of vectors.
        x = d.tensor(shape_of(x), values=("beyond", d.integer(0, 1)))
        return call(x, *d.choice((), (2,)), dim=d.choice(0, -1)) if d.flag() else call(x)
    if d.flag():
        return call(x, d.choice(2, 1, 3, math.inf), dim=d.choice(0, -1), **kept)
    if len(shape_of(x)) > 2 and d.flag():
        x = replace(x, values=("integers", -4, 4)) if d.dtype in HALF else x
        return call(x, d.choice(1, -1, math.inf, "fro"), dim=two_dims(d, x), **kept)
    return call(x, **kept)


def tensor_inverse(d: Drawing) -> Call:
    """A square matrix whose rows and columns are spread over several dimensions."""
    a, b = d.size(1, 4), d.size(1, 4)
    ind = d.choice(2, 2, 1)
    shape = (a, b, a * b) if ind == 2 else (a * b, a, b)
    x = d.tensor(shape, PLAIN, values=("diagonal", a * b, a * b + 1.0), layout=False)
    return call(x, **({"ind": ind} if ind != 2 or d.flag() else {}))


def tensor_solve(d: Drawing) -> Call:
    a, b = d.size(1, 4), d.size(1, 4)
    x = d.tensor((a, b, a, b), PLAIN, values=("diagonal", a * b, a * b + 1.0), layout=False)
    if d.choice(False, False, True):  # rows (j, i′) and columns (j′, i): the diagonal stays one
        return call(x, d.tensor((b, a), RIGHT), dims=(0,))
    return call(x, d.tensor((a, b), RIGHT))


def reflectors(d: Drawing) -> Call:
    """Weak ones: the gradient applies their inverses, which are large about tau = 1/‖v‖²."""
    n = d.size(1, 9)
    shape = (*d.shape(0, 1, most=3), n + d.integer(0, 9), n)
    return call(d.tensor(shape, ENTRIES), d.tensor((*shape[:-2], n), WEAK))


def vandermonde(d: Drawing) -> Call:
    return call(
        d.tensor((*d.shape(0, 1, most=9), d.size(2, 17)), Domain(-2.0, 2.0)),
        **optional_arguments(d, N=(2, 3, 9)),
    )


def condition(d: Drawing) -> Call:
    """From singular values: with other norms torch cannot differentiate it. Of 1 × 1 matrices it is
    constant."""
    return call(matrices(d, d.size(2, 17), scaled=BOTH), **optional_arguments(d, p=(2, -2)))


def solution(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The least-squares solution alone: the device's driver decides which other results are
    filled."""
    return torch.linalg.lstsq(a, b).solution  # type: ignore[no-any-return]


@hook
def of_size(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """n: the rows of a matrix."""
    return float(x.shape[-1])


@hook
def of_rows(outputs: Tensors, a: torch.Tensor, *_: Any, **__: Any) -> float:
    """n: the equations, whose products with a column are added up."""
    return float(a.shape[-2])


@hook
def of_degree(outputs: Tensors, *_: Any, **__: Any) -> float:
    """n: the factors of the highest power."""
    return float(outputs[0].shape[-1])


@hook
def of_exponential(outputs: Tensors, a: torch.Tensor) -> torch.Tensor:
    """The terms of the power series add up to at most the exponential of |A|, truncated to the
    precision of the whole.

    The gradient is a block of the exponential of [[A, G], [0, A]].
    """
    exponential_size = torch.linalg.matrix_exp(a.abs()).amax((-2, -1), keepdim=True)
    return (a.shape[-1] * exponential_size).expand(a.shape)  # type: ignore[no-any-return]


def exponential_beside_another(a: torch.Tensor) -> torch.Tensor:
    """exp of [[A, 0], [0, ½]]: its norm is too large for the polynomial of degree 8, which is wrong
    in torch (docs/findings.md)."""
    n = a.shape[-1]
    wider = torch.nn.functional.pad(a, (0, 1, 0, 1))
    corner = torch.zeros(n + 1, n + 1, dtype=a.dtype)
    corner[n, n] = 0.5
    return torch.linalg.matrix_exp(wider + corner)[..., :n, :n]  # type: ignore[no-any-return]


def op(
    name: str,
    sample: Sample,
    error: ErrorModel = NORMWISE,
    function: Callable[..., Any] | None = None,
    **more: Any,
) -> Operator:
    return Operator(
        name=name,
        family="linalg",
        sample=sample,
        error=error,
        function=function,
        dtypes=more.pop("dtypes", FLOAT),
        **more,
    )


# A factor of a positive definite matrix, whose diagonal is real.
REAL_DIAGONAL = ComplexVariant(sample=square(17, definite=True, upper=(True,)))
OF_ALL_NUMBERS = accumulated("normwise")  # n: the numbers that a norm is of
# Each element of an inverse is made in n steps of elimination and of substitution.
OF_INVERSE = accumulated("normwise", of_size)
OPERATORS = [
    op("linalg.inv", square(exchanged=True, scaled=UP), OF_INVERSE, complex=True, out=True),
    op("linalg.inv_ex", square(exchanged=True, scaled=UP), OF_INVERSE, complex=True),
    op("linalg.solve", solve, complex=True, out=True),
    op("linalg.solve_triangular", triangular, complex=True, out=True),
    op(
        "linalg.lstsq",
        least_squares,
        accumulated("normwise", of_rows),
        function=solution,
        complex=True,
    ),
    op(
        "linalg.det",
        square(17, signed=True, exchanged=True, subnormal=True),
        accumulated("normwise", of_size),  # the product of the pivots is rounded n times
        complex=True,
        out=True,
    ),
    op(
        "linalg.slogdet",
        square(signed=True, exchanged=True, subnormal=True, scaled=BOTH),
        # The sign is a product of n phases.
        complex=ComplexVariant(error=accumulated("normwise", of_size)),
    ),
    op("logdet", square(definite=True), complex=True),
    op(
        "linalg.cholesky", square(definite=True, scaled=BOTH, upper=(True,)), complex=True, out=True
    ),
    op("linalg.cholesky_ex", square(definite=True, scaled=BOTH, upper=(True,)), complex=True),
    op("cholesky_inverse", square(17, upper=(True,)), complex=REAL_DIAGONAL, out=True),
    op("cholesky_solve", cholesky_solve, complex=True, out=True),
    op("linalg.pinv", pseudoinverse, complex=True, out=True),
    op("linalg.matrix_power", powers, complex=True, out=True),
    op(
        "linalg.matrix_exp",
        exponential,
        accumulated(of_exponential, of_size, backward=of_exponential),
        reference=exponential_beside_another,
        complex=True,
    ),
    op(
        "linalg.matrix_norm",
        matrix_norm,
        replace(OF_ALL_NUMBERS, backward=of_matrix_norm),
        complex=True,
        dtypes=FLOATS,
    ),
    op("linalg.norm", norm, OF_ALL_NUMBERS, complex=True, dtypes=FLOATS),
    op("linalg.cond", condition, replace(NORMWISE, backward=of_condition), complex=True),
    op("linalg.tensorinv", tensor_inverse, complex=True, out=True),
    op("linalg.tensorsolve", tensor_solve, complex=True, out=True),
    op("linalg.householder_product", reflectors, complex=True, out=True),
    op(
        "linalg.vander",
        vandermonde,
        accumulated("output", of_degree, growth="linear"),
        dtypes=(*FLOAT, *INTEGERS),
        complex=True,
    ),
]
