"""The summation order of a call, recovered and then replayed. Only orders that reproduce the
results bit for bit are reported.

Outputs at different positions may have different orders (:mod:`.equivalence_classes`). Outputs
whose order cannot be queried are assigned to a known order by replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from .equivalence_classes import trees_of
from .order_assignment import LEAST_OUTPUTS, MOST_WORK, Part, allotted, confirmed, split
from .replay import Manner, replay
from .sums_in_operators import Asking, NotAskedError, Question
from .trees import NotATreeError, Tree

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Order:
    """One tree that in its ``manner`` reproduces ``outputs`` outputs of a call bit for bit.

    ``where`` gives their slices of the result; empty if they are all outputs, or no regular block.
    ``confirmed``: False if they are few and replays with other data did not agree.
    """

    tree: Tree
    manner: Manner
    outputs: int
    where: str = ""
    confirmed: bool = True


@dataclass(frozen=True)
class Unexplained:
    """Number of ``outputs`` that no recovered order reproduces. At the first, ``index``, the
    backend gave ``came`` and the most frequent order (``tree``) gives ``given``."""

    outputs: int
    index: tuple[int, ...]
    came: float
    given: float
    tree: Tree


@dataclass(frozen=True)
class Orders:
    """All orders of a call, the most frequent first, and the outputs that none explains
    (``apart``); or the reason why none was established.

    ``outputs`` counts all outputs of the call, ``untested`` those that were not replayed.
    """

    orders: tuple[Order, ...] = ()
    inconclusive: str = ""
    calls: int = 0
    outputs: int = 0
    untested: int = 0
    apart: Unexplained | None = None
    actual: torch.Tensor | None = field(default=None, repr=False)

    @property
    def exact(self) -> bool:
        """Whether every replayed output was reproduced bit for bit."""
        return (
            bool(self.orders)
            and self.apart is None
            and all(order.confirmed for order in self.orders)
        )

    @property
    def equal(self) -> int:
        """Number of outputs reproduced bit for bit."""
        return sum(order.outputs for order in self.orders)


def orders_of(question: Question) -> Orders:
    """The summation orders of this call. Never raises because of the backend's behavior."""
    layout = question.layout
    rows, columns = np.arange(len(layout.left)), np.arange(layout.columns)
    queries: list[Asking] = []
    try:
        output = question.call()
        actual = layout.back(output)
        if not torch.equal(torch.nan_to_num(actual), torch.nan_to_num(question.run())):
            return Orders(
                inconclusive="the same call does not give the same bits twice",
                calls=2,
                actual=actual,
            )
        trees = trees_of(question, queries)
        rows = rows[: max(MOST_WORK // (layout.terms * layout.columns), 1)]
        parts: list[Part] = []
        unassigned = ~np.logical_or.reduce([member[rows] for _, member in trees])
        for tree, full_mask in trees:
            member = full_mask[rows]
            of_tree, rest_of_class = split(
                tree, replay(question, tree, actual, rows, columns, member), member
            )
            parts += of_tree
            unassigned |= rest_of_class
        assigned, unexplained, beyond = allotted(
            question, _merged(parts), actual, rows, columns, unassigned
        )
        index = _Index(
            layout.back(torch.arange(output.numel()).reshape(output.shape)).numpy(),
            tuple(output.shape),
        )
        orders = [
            _order(question, part, rows, columns, index)
            for part in _merged(assigned)
            if part.where.any()
        ]
    except (NotAskedError, NotATreeError) as error:
        return Orders(inconclusive=str(error), calls=sum(a.calls for a in queries) + 2)
    untested = (len(layout.left) - len(rows)) * layout.columns + int(beyond.sum())
    orders.sort(key=lambda order: -order.outputs)
    calls = sum(a.calls for a in queries) + 2
    return Orders(
        tuple(orders),
        "",
        calls,
        actual.numel(),
        untested,
        _first_unexplained(unexplained, assigned[0], actual, index),
        actual,
    )


def _merged(parts: Sequence[Part]) -> list[Part]:
    """Merge parts with the same tree and manner."""
    merged: dict[tuple[str, Manner], Part] = {}
    for part in parts:
        existing = merged.get((part.tree.hash, part.manner))
        merged[part.tree.hash, part.manner] = (
            part if existing is None else replace(existing, where=existing.where | part.where)
        )
    return list(merged.values())


def _order(question: Question, part: Part, rows: Array, columns: Array, index: _Index) -> Order:
    """The order of one part; a small part is confirmed with other data."""
    outputs, manner, is_confirmed = int(part.where.sum()), part.manner, True
    if outputs < LEAST_OUTPUTS:
        confirmed_manner = confirmed(question, part, rows, columns)
        manner, is_confirmed = confirmed_manner or manner, confirmed_manner is not None
    return Order(part.tree, manner, outputs, index.box(part.where), is_confirmed)


def _first_unexplained(
    unexplained: Array, largest_part: Part, actual: torch.Tensor, index: _Index
) -> Unexplained | None:
    places = np.argwhere(unexplained)
    if not len(places):
        return None
    r, c = places[
        np.argmin(largest_part.one.same[unexplained])
    ]  # the first that differs, if one does
    return Unexplained(
        len(places),
        index.of(r, c),
        float(actual[r, c]),
        float(largest_part.one.given[r, c]),
        largest_part.tree,
    )


@dataclass(frozen=True)
class _Index:
    """``places`` [rows, columns] of the outputs in the flattened result, and its shape."""

    places: Array
    shape: tuple[int, ...]

    def of(self, row: Any, column: Any) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(self.places[row, column], self.shape))

    def box(self, where: Array) -> str:
        """``[:, :, 3:]``, ``[1::4, :8]`` where the outputs are a block of the result, possibly with
        strides; otherwise empty."""
        if where.sum() in (self.places.size, 0):
            return ""
        inside = [
            np.unique(along)
            for along in np.unravel_index(self.places[: len(where)][where], self.shape)
        ]
        steps = [np.unique(np.diff(along)) for along in inside]
        if np.prod([len(along) for along in inside]) != where.sum() or any(
            len(step) > 1 for step in steps
        ):
            return ""
        slices = []
        for along, step, n in zip(inside, steps, self.shape, strict=True):
            stride, start, stop = (
                int(step[0]) if len(step) else 1,
                int(along[0]),
                int(along[-1]) + 1,
            )
            end = "" if stop + stride > n else stop
            slices.append(f"{start or ''}:{end}{f':{stride}' if stride > 1 else ''}")
        return f"[{', '.join(slices)}]"
