"""Embedding lookups, and bags of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..balls import Unknowable
from ..computed_positions import Lookup, wrapped
from ..elementwise import div, mul
from ..movement import Gather, Labels, reshape, scatter
from ..nodes import Constant, Node, whole_numbers
from . import entry
from .pooling import Largest

SUM, MEAN, MAX = 0, 1, 2


class TableRows(Gather):
    """Rows of a table. The padding row gets no gradient; those of the others may be divided by
    their frequency."""

    def __init__(self, table: Node, rows: Labels, padding: int, by_frequency: bool) -> None:
        self.rows, self.padding, self.by_frequency, self.width = (
            rows,
            padding,
            by_frequency,
            table.shape[1],
        )
        super().__init__(
            table,
            (rows[:, None] * self.width + np.arange(self.width)).reshape(-1),
            (rows.size, self.width),
        )

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        if self.by_frequency:
            often = np.bincount(self.rows, minlength=self.inputs[0].shape[0])[self.rows]
            gradient = div(gradient, Constant(often.astype(np.float64).reshape(-1, 1)))
        labels = np.where(np.repeat(self.rows == self.padding, self.width), -1, self.labels)
        return (scatter(gradient, labels, self.inputs[0].shape),)


@entry("embedding")
def embedding(
    weight: Any,
    indices: Any,
    result: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    rows = wrapped(whole_numbers(indices).reshape(-1), weight.shape[0])
    return reshape(TableRows(weight, rows, padding_idx, scale_grad_by_freq), tuple(result.shape))


@entry("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Any, indices: Any, offsets: Any, result: Any, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """Reduced bags of rows, from the start of each bag; padding rows are skipped, and empty bags
    are 0. How often a row comes counts over all bags, as for single rows."""
    rows = wrapped(whole_numbers(indices).reshape(-1), weight.shape[0])
    starts = whole_numbers(offsets).reshape(-1)
    bags, width = int(result[0].shape[0]), weight.shape[1]
    if (
        (np.diff(starts) < 0).any()
        or (starts.size and starts[0] != 0)
        or (starts > rows.size).any()
    ):
        raise Unknowable("offsets that do not ascend from 0")
    if include_last_offset and int(starts[-1]) != rows.size:
        raise Unknowable("a last offset that is not the end")
    bag = np.searchsorted(starts[:bags], np.arange(rows.size), side="right") - 1
    used = rows != padding_idx
    if mode == MAX:
        return _largest(weight, rows[used], bag[used], bags)
    bag_rows: Node = TableRows(weight, rows, -1, scale_grad_by_freq)
    if per_sample_weights is not None:
        bag_rows = mul(bag_rows, reshape(per_sample_weights, (rows.size, 1)))
    places = np.where(used[:, None], bag[:, None] * width + np.arange(width), -1)
    summed = scatter(bag_rows, places.reshape(-1), (bags, width))
    if mode == SUM:
        return (summed,)
    counts = np.maximum(np.bincount(bag[used], minlength=bags), 1).astype(np.float64).reshape(-1, 1)
    return (div(summed, Constant(counts)),)


def _largest(weight: Node, rows: Labels, bag: Labels, bags: int) -> tuple[Node, ...]:
    """The maximum of each column; the first of several equal ones gets the gradient."""
    width = weight.shape[1]
    counts = np.bincount(bag, minlength=bags)
    table = np.full((bags, max(int(counts.max(initial=0)), 1)), -1, dtype=np.int64)
    for b in range(bags):
        table[b, : counts[b]] = rows[bag == b]
    labels = np.where(
        table[:, None, :] >= 0, table[:, None, :] * width + np.arange(width)[:, None], -1
    )
    filled = np.flatnonzero(counts)
    size = filled.size * width
    chosen = labels[filled].reshape(size, table.shape[1])
    zeros = np.zeros(size, dtype=np.int64)
    result = Lookup(
        weight, Largest(weight, chosen, False), zeros, unique=Largest(weight, chosen, True)
    )
    places = (filled[:, None] * width + np.arange(width)).reshape(-1)
    return (scatter(result, places, (bags, width)),)
