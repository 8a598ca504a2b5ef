"""Operators that write into their first argument. The result and the whole storage behind it are
compared.

Most are declared as the ``inplace`` field of their out-of-place form; the others are here.
Gradients are those of the function, taken through a copy of the destination.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..core.recipe import Index
from .declare import EVERY, EXACT, NUMERIC, Call, Drawing, call, family
from .indexing import key
from .sampling import scalar, written_scalar
from .variants import declared, in_place_form
from .write_destinations import FACTOR, ROUND, TERM, combined, copied, destination, filled, target

INPLACE = frozenset({"inplace"})
ELEMENTWISE = INPLACE | {"elementwise"}


op = family("inplace", traits=INPLACE, mutates=(0,))


def set_item(d: Drawing) -> Call:
    """``x[key] = value`` with slices, numbers, None and an ellipsis as the key, and a number or a
    tensor as the value."""
    shape = d.shape(1, 4, elements=1024)
    where = key(d, shape, positions=False)
    written = torch.empty(shape, device="meta")[
        tuple(slice(k.start, k.stop, k.step) if isinstance(k, Index) else k for k in where)
    ].shape
    return call(
        target(d, shape),
        where,
        written_scalar(d) if d.flag() else d.tensor(d.broadcastable(tuple(written))),
    )


def assign(x: torch.Tensor, where: Any, value: Any) -> torch.Tensor:
    x[where] = value
    return x


def diagonal(d: Drawing) -> Call:
    """``wrap`` only where it has no effect: torch 2.13 writes beyond the view when it wraps around
    a strided tall matrix."""
    rows, columns = d.size(1, 33), d.size(1, 33)
    return call(
        target(d, (rows, columns)),
        scalar(d),
        **({"wrap": True} if rows <= columns and d.flag() else {}),
    )


ADDED_TO = replace(ROUND, moves=True)
OPERATORS = [
    *(in_place_form(operator) for operator in declared() if operator.inplace),
    op(
        "__iadd__",
        combined(TERM),
        ADDED_TO,
        NUMERIC,
        traits=ELEMENTWISE,
        complex=True,
    ),
    op("__imul__", combined(FACTOR), ROUND, NUMERIC, traits=ELEMENTWISE, complex=True),
    op("copy_", copied, EXACT, EVERY, complex=True),
    op("fill_", filled, EXACT, EVERY, differentiable=False, complex=True),
    op(
        "zero_",
        destination(),
        EXACT,
        EVERY,
        traits=INPLACE | {"constant"},
        differentiable=False,
        complex=True,
    ),
    op("__setitem__", set_item, EXACT, EVERY, function=assign),
    op("fill_diagonal_", diagonal, EXACT, EVERY),
]
