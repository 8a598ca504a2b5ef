"""Operators that write at slices and on the diagonal of their first argument, and have no form that
returns a new tensor."""

from __future__ import annotations

from typing import Any

import torch

from ..core.recipe import Index
from .declare import EVERY, EXACT, Call, Drawing, call
from .destinations import target
from .indexing import key
from .inplace import op
from .sampling import scalar


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
        scalar(d) if d.flag() else d.tensor(d.broadcastable(tuple(written))),
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


OPERATORS = [
    op("__setitem__", set_item, EXACT, EVERY, function=assign),
    op("fill_diagonal_", diagonal, EXACT, EVERY),
]
