"""Linear algebra. S is the largest response to perturbed inputs; factors that are not unique are compared by what they multiply to."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..recipe import TensorRecipe
from ._shared import Args, Kwargs, Outputs, extent, some
from .declare import FLOAT, NORMWISE, UNIT, Call, Domain, Drawing, ErrorModel, Operator, Sample, accumulated, call, one

RIGHT = Domain(wide=(-6, 6))


def matrices(d: Drawing, n: int, *, rows: int = 1, definite: bool = False, most: int = 3) -> TensorRecipe:
    """Well-conditioned n × n matrices, or ``rows`` of them below each other; batched, transposed, or a slice of others."""
    weight = d.choice(float(n), 2.0 * math.ceil(math.sqrt(n)))
    values: tuple[Any, ...] = ("positive-definite", n) if definite else ("diagonal", n, weight)
    shape = (*d.shape(0, 1, most=most), rows * n, n)
    view: tuple[Any, ...] = ()
    match d.choice("plain", "plain", "transpose", "select", "slice"):
        case "transpose" if rows == 1:
            view = (("transpose", len(shape) - 2, len(shape) - 1),)
        case "select":
            shape, view = (2, *shape), (("select", 0, 1),)
        case "slice" if len(shape) > 2:
            shape, view = (2 * shape[0], *shape[1:]), (("slice", 0, 1, None, 2),)
    return replace(d.tensor(shape, values=values, layout=False), view=view)


def shape_of(matrix: TensorRecipe) -> tuple[int, ...]:
    """The batch and size of what :func:`matrices` drew."""
    taken = {"select": matrix.base[1:], "slice": (matrix.base[0] // 2, *matrix.base[1:])}
    return taken.get(matrix.view[0][0], matrix.base) if matrix.view else matrix.base


def square(most: int = 33, *, definite: bool = False, **options: tuple[Any, ...]) -> Sample:
    def sample(d: Drawing) -> Call:
        return call(matrices(d, d.size(1, most), definite=definite), **some(d, **options))

    return sample


def rectangle(*, matrix: Domain = UNIT, **options: tuple[Any, ...]) -> Sample:
    """Any matrix, wide or tall."""

    def sample(d: Drawing) -> Call:
        shape = (*d.shape(0, 1, most=3), d.size(1, 33), d.size(1, 33))
        return call(d.tensor(shape, matrix), **some(d, **options))

    return sample


def right_side(d: Drawing, matrix: TensorRecipe, *, vector: bool = False) -> TensorRecipe:
    shape = shape_of(matrix)
    return d.tensor(shape[:-1] if vector else (*shape[:-1], d.size(1, 9)), RIGHT)


def solve(d: Drawing) -> Call:
    """A X = B, or X A = B; a vector on the right where A is a single matrix."""
    a = matrices(d, d.size(1, 33))
    if d.flag() and len(shape_of(a)) == 2:
        return call(a, right_side(d, a, vector=True))
    if d.choice(False, False, True):
        shape = shape_of(a)
        return call(a, d.tensor((*shape[:-2], d.size(1, 9), shape[-1]), RIGHT), left=False)
    return call(a, right_side(d, a))


def triangular(d: Drawing) -> Call:
    """Unit triangles stay small: their inverses grow exponentially."""
    unit = d.choice(False, False, True)
    a = matrices(d, d.size(1, 6 if unit else 33))
    shape, left = shape_of(a), not d.choice(False, False, True)
    b = d.tensor((*shape[:-1], d.size(1, 9)) if left else (*shape[:-2], d.size(1, 9), shape[-1]), RIGHT)
    kwargs: dict[str, Any] = ({} if left else {"left": False}) | ({"unitriangular": True} if unit else {})
    return call(a, b, upper=d.flag(), **kwargs)


def least_squares(d: Drawing) -> Call:
    """Full rank, as many equations as unknowns or a multiple."""
    a = matrices(d, d.size(1, 17), rows=d.integer(1, 3))
    return call(a, right_side(d, a))


def cholesky_solve(d: Drawing) -> Call:
    a = matrices(d, d.size(1, 33))
    return call(right_side(d, a), a, **some(d, upper=(True,)))


def powers(d: Drawing) -> Call:
    return call(matrices(d, d.size(1, 9)), d.choice(2, 3, 1, 0, 5, -1, -2))


def exponential(d: Drawing) -> Call:
    n = d.size(1, 9)
    return call(d.tensor((*d.shape(0, 1, most=3), n, n), d.choice(UNIT, Domain(-0.0625, 0.0625), Domain(-3.0, 3.0))))


def matrix_norm(d: Drawing) -> Call:
    """Any order; singular values only of well-conditioned matrices."""
    return call(matrices(d, d.size(1, 17), rows=d.integer(1, 2)), d.choice("fro", "nuc", 2, -2, 1, -1, math.inf, -math.inf), **some(d, keepdim=(True,)))


def norm(d: Drawing) -> Call:
    """Of everything, of a matrix, or of vectors along a dim."""
    x = matrices(d, d.size(1, 17))
    dim = {"dim": d.choice(0, -1)} if d.flag() else {}
    orders = (2, 1, 3, 0.5, math.inf) if dim or False else (None,)
    return call(x, d.choice(*orders), **dim)


def tensor_inverse(d: Drawing) -> Call:
    """A square matrix whose rows and columns are spread over several dimensions."""
    a, b = d.size(1, 4), d.size(1, 4)
    x = d.tensor((a, b, a * b), values=("diagonal", a * b, float(a * b)), layout=False)
    return call(x, ind=2)


def tensor_solve(d: Drawing) -> Call:
    a, b = d.size(1, 4), d.size(1, 4)
    x = d.tensor((a, b, a, b), values=("diagonal", a * b, float(a * b)), layout=False)
    return call(x, d.tensor((a, b), RIGHT))


def reflectors(d: Drawing) -> Call:
    n = d.size(1, 9)
    shape = (*d.shape(0, 1, most=3), n + d.integer(0, 9), n)
    return call(d.tensor(shape, UNIT), d.tensor((*shape[:-2], n), Domain(0.0, 2.0)))


def vandermonde(d: Drawing) -> Call:
    return call(d.tensor(d.shape(1, 2, most=33, elements=256), Domain(-2.0, 2.0)), **some(d, N=(1, 3, 9)))
