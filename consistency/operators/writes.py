"""Operators that write at positions, masks and slices of their first argument: those of
:mod:`.scattering`, in place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..core.recipe import Index
from .declare import EVERY, EXACT, NUMERIC, Call, Drawing, Sample, call
from .indexing import key
from .inplace import op, target
from .sampling import scalar
from .scattering import (
    ADDED,
    index_added,
    index_copied,
    index_filled,
    index_put,
    masked_filled,
    scatter_summed,
    scattered,
)


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


def triangle(d: Drawing) -> Call:
    return call(target(d, d.shape(2, 4)), d.integer(-3, 3))


def apart(sample: Callable[..., Call]) -> Sample:
    """The same arguments, but no two elements of the destination share memory."""
    return functools.partial(sample, overlap=False)


OPERATORS = [
    op("masked_fill_", apart(masked_filled), EXACT, EVERY),
    op("__setitem__", set_item, EXACT, EVERY, function=assign),
    op("fill_diagonal_", diagonal, EXACT, EVERY),
    op("tril_", triangle, EXACT, EVERY),
    op("triu_", triangle, EXACT, EVERY),
    op("scatter_", apart(scattered), EXACT, EVERY),
    op("index_copy_", apart(index_copied), EXACT, EVERY),
    op("index_fill_", apart(index_filled), EXACT, EVERY),
    op("scatter_add_", apart(scatter_summed), ADDED, NUMERIC),
    op("index_add_", apart(index_added), ADDED, NUMERIC),
    op("index_put_", apart(index_put), ADDED, NUMERIC),
]  # fmt: skip
