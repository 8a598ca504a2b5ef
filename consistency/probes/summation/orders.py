"""The order in which a call adds its terms up: asked for, then replayed. Only what the replay gives
bit for bit is claimed.

Outputs at different places may be added in different orders (:mod:`.equivalence_classes`); what
cannot be asked is allotted by replaying.
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
    """One tree, which in its ``manner`` gives ``outputs`` of a call, bit for bit.

    ``where`` says which these are, as slices of the result; empty if they are all, or no box.
    ``confirmed``: where they are few, it gives as many with other numbers.
    """

    tree: Tree
    manner: Manner
    outputs: int
    where: str = ""
    confirmed: bool = True


@dataclass(frozen=True)
class Unexplained:
    """``outputs`` that no order gives that was found. The first is at ``index``: what ``came``, and
    what the most frequent order (``tree``) gives.
    """

    outputs: int
    index: tuple[int, ...]
    came: float
    given: float
    tree: Tree


@dataclass(frozen=True)
class Orders:
    """All orders of a call, the most frequent first, and what is ``apart`` from them; or why
    nothing was established.

    ``outputs`` of the call are all, ``untested`` ones were not replayed.
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
        """Whether every output that was replayed came out bit for bit."""
        return (
            bool(self.orders)
            and self.apart is None
            and all(order.confirmed for order in self.orders)
        )

    @property
    def equal(self) -> int:
        """Outputs that came out bit for bit."""
        return sum(order.outputs for order in self.orders)


def orders_of(question: Question) -> Orders:
    """What can be established of the order in which this call sums. Never raises for what the
    backend does."""
    layout = question.layout
    rows, columns = np.arange(len(layout.left)), np.arange(layout.columns)
    asked: list[Asking] = []
    try:
        came = question.call()
        actual = layout.back(came)
        if not torch.equal(torch.nan_to_num(actual), torch.nan_to_num(question.run())):
            return Orders(
                inconclusive="the same call does not give the same bits twice",
                calls=2,
                actual=actual,
            )
        trees = trees_of(question, asked)
        rows = rows[: max(MOST_WORK // (layout.terms * layout.columns), 1)]
        parts: list[Part] = []
        left = ~np.logical_or.reduce([member[rows] for _, member in trees])
        for tree, whole in trees:
            member = whole[rows]
            of_tree, others = split(
                tree, replay(question, tree, actual, rows, columns, member), member
            )
            parts += of_tree
            left |= others
        found, nobody, beyond = allotted(question, _merged(parts), actual, rows, columns, left)
        index = _Index(
            layout.back(torch.arange(came.numel()).reshape(came.shape)).numpy(), tuple(came.shape)
        )
        orders = [
            _order(question, part, rows, columns, index)
            for part in _merged(found)
            if part.where.any()
        ]
    except (NotAskedError, NotATreeError) as error:
        return Orders(inconclusive=str(error), calls=sum(a.calls for a in asked) + 2)
    untested = (len(layout.left) - len(rows)) * layout.columns + int(beyond.sum())
    orders.sort(key=lambda order: -order.outputs)
    calls = sum(a.calls for a in asked) + 2
    return Orders(
        tuple(orders),
        "",
        calls,
        actual.numel(),
        untested,
        _apart(nobody, found[0], actual, index),
        actual,
    )


def _merged(parts: Sequence[Part]) -> list[Part]:
    """Classes that turned out to have one tree and manner are one."""
    kept: dict[tuple[str, Manner], Part] = {}
    for part in parts:
        other = kept.get((part.tree.hash, part.manner))
        kept[part.tree.hash, part.manner] = (
            part if other is None else replace(other, where=other.where | part.where)
        )
    return list(kept.values())


def _order(question: Question, part: Part, rows: Array, columns: Array, index: _Index) -> Order:
    """What was found of one part; where it is small, with other numbers, too."""
    outputs, manner, sure = int(part.where.sum()), part.manner, True
    if outputs < LEAST_OUTPUTS:
        found = confirmed(question, part, rows, columns)
        manner, sure = found or manner, found is not None
    return Order(part.tree, manner, outputs, index.box(part.where), sure)


def _apart(nobody: Array, most: Part, actual: torch.Tensor, index: _Index) -> Unexplained | None:
    places = np.argwhere(nobody)
    if not len(places):
        return None
    r, c = places[np.argmin(most.one.same[nobody])]  # the first that differs, if one does
    return Unexplained(
        len(places), index.of(r, c), float(actual[r, c]), float(most.one.given[r, c]), most.tree
    )


@dataclass(frozen=True)
class _Index:
    """``places`` [rows, columns] of the outputs in the flattened result, and its shape."""

    places: Array
    shape: tuple[int, ...]

    def of(self, row: Any, column: Any) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(self.places[row, column], self.shape))

    def box(self, where: Array) -> str:
        """``[:, :, 3:]``, ``[1::4, :8]`` where the outputs are a block of the result, or every so
        many of one; otherwise empty."""
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
        told = []
        for along, step, n in zip(inside, steps, self.shape, strict=True):
            by, start, stop = int(step[0]) if len(step) else 1, int(along[0]), int(along[-1]) + 1
            told.append(
                f"{start or ''}:{'' if stop + by > n else stop}{f':{by}' if by > 1 else ''}"
            )
        return f"[{', '.join(told)}]"
