"""Ranks, and the older form of solutions by triangles."""

from __future__ import annotations

from .declare import EXACT, Call, Drawing, call
from .linear_algebra import RIGHT, matrices, op, repeated_row, right_side, shape_of, triangle
from .parameter_sampling import optional_arguments


def triangular(d: Drawing) -> Call:
    """Now and then one right side for a batch of triangles."""
    a, diagonal = triangle(d)
    *batch, n, _ = shape_of(a)
    one_for_all = bool(batch) and d.choice(False, False, True)
    b = d.tensor((*(1 for _ in batch), n, d.size(1, 9)), RIGHT) if one_for_all else right_side(d, a)
    options = optional_arguments(d, upper=(False,), transpose=(True,))
    return call(b, a, **options, **diagonal)


def ranked(d: Drawing) -> Call:
    """A rank that no rounding decides: all singular values lie far above each tolerance, or far
    below it, or but for one they are 0, of which rounding leaves less than any tolerance. Shrinks
    towards a full rank."""
    match d.integer(0, 5):
        case 5:
            return call(repeated_row(d))
        case 4:
            return call(matrices(d, d.size(1, 17), definite=True), hermitian=True)
        case 3:
            return call(matrices(d, d.size(1, 17)), d.choice(2.0**-12, 2.0**24))
    matrix = matrices(d, d.size(1, 17), rows=d.integer(1, 3), large=True)
    return call(matrix, **optional_arguments(d, rtol=(2.0**-12, 2.0), atol=(2.0**-12, 2.0**24)))


OPERATORS = [
    op("triangular_solve", triangular, complex=True),
    op(
        "linalg.matrix_rank",
        ranked,
        EXACT,
        complex=True,
        differentiable=False,
        traits=frozenset({"constant"}),  # a single matrix has a single rank
    ),
]
