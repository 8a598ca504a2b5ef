"""Drawn matrices that solvers and decompositions take: well-conditioned, of any size and scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.dtypes import Format, form_of
from ..core.recipe import Step, TensorRecipe
from .declare import UNIT, Call, Domain, Drawing, Sample, call
from .parameter_sampling import PLAIN, optional_arguments

# LAPACK refuses NaN, or does not say what it does with them.
RIGHT = Domain(wide=(-6, 6), propagates=())
ENTRIES = replace(UNIT, propagates=())
FEW_ROWS = 5  # of matrices that may be many
UP, BOTH = (1,), (1, -1)  # directions of a scale: large, or large and small
# Exponents with which squares of a matrix's numbers leave the format, subnormal ones too.
_SCALES: dict[int, Callable[[Format], int]] = {
    1: lambda form: form.max_exponent // 2 + 3,
    -1: lambda form: (form.min_exponent - form.precision) // 2 - 6,
}


def matrices(
    d: Drawing,
    n: int,
    *,
    rows: int = 1,
    definite: bool = False,
    most: int = 3,
    signed: bool = False,
    large: bool = False,
    exchanged: bool = False,
    subnormal: bool = False,
    scaled: tuple[int, ...] = (),
) -> TensorRecipe:
    """Well-conditioned n × n matrices, or ``rows`` of them below each other; batched, transposed,
    or a slice of others. Small ones may be many, for which GPUs have kernels of their own.

    ``signed``: some have a negative diagonal, and with odd n a negative determinant. ``large``:
    some have a diagonal in the thousands, so that their singular values are close to each other.
    ``exchanged``: some have zeros on the diagonal, and cannot be eliminated without a pivot.
    ``subnormal``: some have subnormal numbers only, whose reciprocals are infinite. ``scaled``:
    some are so large (1) or so small (-1) that squares of their numbers leave the format.
    """
    usual = (n + 1.0, 2.0 * math.ceil(math.sqrt(n)))
    weight = d.choice(*usual, *[-(n + 1.0)] * signed, *[2.0**12 * (n + 1.0)] * large)
    values: tuple[Any, ...] = ("positive-definite", n) if definite else ("diagonal", n, weight)
    if exchanged and rows == 1 and d.choice(*[False] * 7, True):
        values = ("exchanged", n, abs(weight))
    form = form_of(d.dtype)
    if subnormal and values[0] == "diagonal" and form and d.integer(0, 15) == 15:
        values = (*values[:2], n + 1.0, form.min_exponent - 8)
    elif scaled and form and d.integer(0, 15) == 15:
        values = (*values, _SCALES[d.choice(*scaled)](form))
    many = n <= FEW_ROWS and d.integer(0, 7) == 7
    batch = (d.choice(9, 17, 33),) if many else d.shape(0, 1, most=most)
    shape = (*batch, rows * n, n)
    view: tuple[Any, ...] = ()
    match d.choice("plain", "plain", "transpose", "select", "slice"):
        case "transpose" if rows == 1:
            view = (("transpose", len(shape) - 2, len(shape) - 1),)
        case "select":
            shape, view = (2, *shape), (("select", 0, 1),)
        case "slice" if len(shape) > 2:
            shape, view = (2 * shape[0], *shape[1:]), (("slice", 0, 1, None, 2),)
    return replace(d.tensor(shape, PLAIN, values=values, layout=False), view=view)


def order(d: Drawing, most: int = 33) -> int:
    """How many rows and columns: mostly up to ``most``, one time in sixteen more than the blocks of
    LAPACK. Shrinks towards 1."""
    return d.choice(65, 64, 129) if d.integer(0, 15) == 15 else d.size(1, most)


def shape_of(matrix: TensorRecipe) -> tuple[int, ...]:
    """The batch and size of what :func:`matrices` drew."""
    taken = {"select": matrix.base[1:], "slice": (matrix.base[0] // 2, *matrix.base[1:])}
    return taken.get(matrix.view[0][0], matrix.base) if matrix.view else matrix.base


def square(
    most: int = 33,
    *,
    definite: bool = False,
    signed: bool = False,
    exchanged: bool = False,
    subnormal: bool = False,
    scaled: tuple[int, ...] = (),
    **options: tuple[Any, ...],
) -> Sample:
    def sample(d: Drawing) -> Call:
        return call(
            matrices(
                d,
                order(d, most) if most > 17 else d.size(1, most),
                definite=definite,
                signed=signed,
                large=True,
                exchanged=exchanged,
                subnormal=subnormal,
                scaled=scaled,
            ),
            **optional_arguments(d, **options),
        )

    return sample


def right_side(d: Drawing, matrix: TensorRecipe, *, vector: bool = False) -> TensorRecipe:
    shape = shape_of(matrix)
    return d.tensor(shape[:-1] if vector else (*shape[:-1], d.size(1, 9)), RIGHT)


def repeated_row(d: Drawing) -> TensorRecipe:
    """A matrix of rank 1, however its numbers are rounded: one row, again and again; or one
    column."""
    rows, columns = d.size(2, 17), d.size(1, 17)
    row = d.tensor((1, columns), ENTRIES, layout=False)
    view: tuple[Step, ...] = (("expand", rows, columns),)
    return replace(row, view=(*view, ("transpose", 0, 1)) if d.flag() else view)
