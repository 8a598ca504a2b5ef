"""Twins of views: the same arguments, a tensor of their own in place of a view. And the old or
second names of operators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from . import (
    binary,
    comparisons,
    decompositions,
    interpolation,
    joining,
    linear_algebra,
    matrices,
    movement,
    special,
    unary,
)
from .declare import EVERY, EXACT, NUMERIC, Call, Drawing, Operator, call
from .movement import LINEAR, moved, two_dims
from .parameter_sampling import optional_arguments

KNOWN: dict[str, Operator] = {
    operator.name: operator
    for module in (
        binary,
        decompositions,
        interpolation,
        joining,
        linear_algebra,
        movement,
        comparisons,
        special,
        unary,
    )
    for operator in module.OPERATORS
}


def twin(name: str, of: str, **changes: Any) -> Operator:
    """The operator ``of`` under another name, with the same arguments and the same errors."""
    settings = {"function": None, "reference": None, "inplace": "", "out": False, "method": False}
    return replace(KNOWN[of], name=name, **(settings | changes))


def copied(name: str, of: str, **changes: Any) -> Operator:
    return twin(name, of, **{"traits": LINEAR} | changes)


def whole(name: str, **more: Any) -> Operator:
    """Of real numbers the thing itself."""
    return Operator(
        name=name,
        family="movement",
        sample=moved(),
        error=EXACT,
        dtypes=EVERY,
        traits=LINEAR,
        complex=True,
        **more,
    )


def along_two(d: Drawing) -> Call:
    """A diagonal of any two dimensions, given by name."""
    shape = d.shape(2, 4)
    first, second = two_dims(d, shape)
    options: dict[str, Any] = {"offset": d.integer(-2, 2)} if d.flag() else {}
    if d.flag():
        options |= {"dim1": first, "dim2": second}
    return call(d.tensor(shape), **options)


def truncated(d: Drawing) -> Call:
    if d.integer(0, 4) == 4:
        return call(matrices.repeated_row(d), rcond=2.0**-12)  # more than is left of a 0
    (matrix,) = matrices.square(17)(d).args
    return call(matrix, **optional_arguments(d, rcond=(2.0**-12,)))


def strided_into(d: Drawing) -> Call:
    """A tensor, and another one that takes the place of some of its elements, each at most once."""
    rows, columns = d.size(1, 9), d.size(1, 9)
    height, width = d.integer(1, rows), d.integer(1, columns)
    offset = d.integer(0, (rows - height) * columns + columns - width)
    return call(
        d.tensor((rows, columns), layout=False),
        d.tensor((height, width)),
        [height, width],
        [columns, 1],
        *([offset] if offset or d.flag() else []),
    )


OPERATORS = [
    copied("as_strided_copy", "as_strided", out=True),
    copied("diagonal_copy", "diagonal", out=True),
    copied("expand_copy", "expand", out=True),
    copied("permute_copy", "permute", out=True),
    copied("select_copy", "select", out=True),
    copied("split_with_sizes_copy", "split_with_sizes"),
    copied("squeeze_copy", "squeeze", sample=moved(lambda d, s: [d.dim(s)], 1), out=True),
    copied("t_copy", "t", out=True),
    copied("transpose_copy", "transpose", out=True),
    copied("unbind_copy", "unbind"),
    copied("unfold_copy", "unfold", out=True),
    copied("unsqueeze_copy", "unsqueeze", out=True),
    copied("view_copy", "view", out=True),
    whole("alias_copy", out=True),
    whole("detach_copy", differentiable=False, out=True),
    whole("real"),
    whole("conj"),
    whole("conj_physical"),
    whole("resolve_conj"),
    whole("resolve_neg"),
    copied("linalg.diagonal", "diagonal", sample=along_two, traits=movement.VIEW),
    twin("mH", "mT", function=lambda x: x.mH),
    twin("H", "T", function=lambda x: x.H),
    twin("adjoint", "mT"),
    Operator(
        name="as_strided_scatter",
        family="movement",
        sample=strided_into,
        error=EXACT,
        dtypes=NUMERIC,
        traits=frozenset({"linear"}),
        complex=True,
    ),
    # Older names.
    twin(
        "cholesky",
        "linalg.cholesky",
        function=lambda a, **options: torch.linalg.cholesky(a, **options),
    ),
    twin("matrix_exp", "linalg.matrix_exp", reference=KNOWN["linalg.matrix_exp"].reference),
    twin("pinverse", "linalg.pinv", sample=truncated),
    twin("linalg.solve_ex", "linalg.solve"),
    twin("linalg.lu_factor_ex", "linalg.lu_factor"),
]
