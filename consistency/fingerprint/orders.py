"""The order in which a call adds its terms up: asked for, then replayed. Only what the replay gives bit for bit is claimed.

Outputs at different places may be added in different orders (edges of tiles), so a few pairs are asked for at all of them first;
places that answer alike are one class, and each class has a tree of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from .questions import Asking, NotAskedError, Question
from .replay import Manner, Replayed, replay
from .trees import NotATreeError, Tree, recover

Array = np.ndarray[Any, Any]
LEAST_OUTPUTS = 16  # of a class agree before a claim is made for all
MOST_CLASSES = 8
MOST_WORK = 1 << 28  # terms × outputs that are replayed; of more, some rows are


@dataclass(frozen=True)
class Order:
    """One tree, for ``outputs`` of a call: ``equal`` of them are what it gives, bit for bit, in its ``manner``.

    ``first`` is one that is not: row, column, what came, what the tree gives.
    """

    tree: Tree
    manner: Manner
    outputs: int
    equal: int
    place: tuple[int, int] = (0, 0)
    first: tuple[int, int, float, float] | None = None
    confirmed: bool = True

    @property
    def exact(self) -> bool:
        """All of them; and, where they are few, as many with other numbers (``confirmed``)."""
        return 0 < self.outputs == self.equal and self.confirmed


@dataclass(frozen=True)
class Orders:
    """All orders of a call, the most frequent first; or why nothing was established. ``untested`` outputs were not replayed."""

    orders: tuple[Order, ...] = ()
    inconclusive: str = ""
    calls: int = 0
    untested: int = 0
    actual: torch.Tensor | None = field(default=None, repr=False)

    @property
    def exact(self) -> bool:
        """Whether every output that was replayed came out bit for bit."""
        return not self.inconclusive and bool(self.orders) and all(order.exact for order in self.orders)

    @property
    def outputs(self) -> int:
        return sum(order.outputs for order in self.orders)

    @property
    def equal(self) -> int:
        return sum(order.equal for order in self.orders)


def orders_of(question: Question) -> Orders:
    """What can be established of the order in which this call sums. Never raises for what the backend does."""
    layout = question.layout
    rows, columns = np.arange(len(layout.left)), np.arange(layout.columns)
    asked: list[Asking] = []
    try:
        actual = question.run()
        if not torch.equal(torch.nan_to_num(actual), torch.nan_to_num(question.run())):
            return Orders(inconclusive="the same call does not give the same bits twice", calls=2, actual=actual)
        asked.append(question.at(rows, columns))
        found: list[Order] = []
        rows = rows[: max(MOST_WORK // (layout.terms * layout.columns), 1)]
        for member in _classes(asked[0], len(layout.left)):
            some = _rectangle(member, asked[0].rows)
            asked.append(question.at(*some))
            tree = recover(layout.terms + layout.added, asked[-1], added=layout.added)
            tried = replay(question, tree, actual, rows, columns, member[rows])
            for one, where in _split(tried, member[rows]):
                order = _order(tree, one, actual, where)
                few = order.exact and order.outputs < LEAST_OUTPUTS
                found.append(_confirmed(question, order, where, rows, columns) if few else order)
    except (NotAskedError, NotATreeError) as error:
        return Orders(inconclusive=str(error), calls=sum(a.calls for a in asked) + 2)
    untested = (len(layout.left) - len(rows)) * layout.columns
    merged = _merged(sorted(found, key=lambda order: -order.outputs))
    return Orders(tuple(merged), "", sum(a.calls for a in asked) + 2, untested, actual)


def _classes(asking: Asking, rows: int) -> list[Array]:
    """Masks [rows, columns] of outputs that answer alike. Rows that cannot be asked (they share numbers) join the largest class."""
    terms, added = asking.question.layout.terms, asking.question.layout.added
    last, half = terms - 1, terms // 2
    pairs = [
        (0, 1),
        (0, half),
        (0, last),
        (half - 1, half),
        (last - 1, last),
        (terms // 3, terms // 3 + 1),
        (0, terms // 5),
        (1, 2),
    ]
    pairs += [(0, terms)] if added else []
    pairs = [(i, j) for i, j in dict.fromkeys(pairs) if 0 <= i < j < terms + added]
    answers = np.stack([asking.everywhere(i, j) for i, j in pairs], axis=-1)
    answers = np.where(np.isfinite(answers), answers, -1.0)
    kinds, labels, counts = np.unique(answers.reshape(-1, len(pairs)), axis=0, return_inverse=True, return_counts=True)
    if len(kinds) > MOST_CLASSES:
        raise NotATreeError(
            f"outputs at different places answer in {len(kinds)} ways: the order is not the same each time, or no tree"
        )
    whole = np.full((rows, answers.shape[1]), int(counts.argmax()))
    whole[asking.rows] = labels.reshape(answers.shape[:2])
    return [whole == kind for kind in range(len(kinds))]


def _rectangle(member: Array, rows: Array) -> tuple[Array, Array]:
    """Rows and columns whose crossings all belong to a class: of that one of ``rows`` with the most columns, and of all like it."""
    row = int(rows[member[rows].sum(1).argmax()])
    columns = np.flatnonzero(member[row])
    return np.flatnonzero(member[:, columns].all(1)), columns


def _split(tried: Sequence[Replayed], member: Array) -> list[tuple[Replayed, Array]]:
    """Which manner holds for which of a class's outputs: one for all, or one for each column, or for each row (edges of tiles are
    not always computed with FMA where the rest is). Where that leaves some unexplained, the best manner stands for all.
    """
    best = max(tried, key=lambda one: int((one.same & member).sum()))
    if best.same[member].all():
        return [(best, member)]
    fits = np.stack([one.same | ~member for one in tried])
    for axis in (1, 2):  # over the rows of each column, over the columns of each row
        whole = fits.all(axis)
        if not whole.any(0).all():
            continue
        chosen = whole.argmax(0)  # the first manner that holds throughout
        masks = [member & (np.expand_dims(chosen, axis - 1) == k) for k in range(len(tried))]
        parts = [(one, mask) for one, mask in zip(tried, masks, strict=True) if mask.any()]
        if all(mask.sum() >= LEAST_OUTPUTS for _, mask in parts):
            return parts
    return [(best, member)]


def _confirmed(question: Question, order: Order, member: Array, rows: Array, columns: Array) -> Order:
    """A few outputs may agree by chance: so the arguments' numbers are moved round, until enough outputs were replayed. The manner
    that gives them all is the one.
    """
    left: list[Manner] | None = None
    for shift in range(-(-LEAST_OUTPUTS // order.outputs) + 1):
        moved = tuple(_moved(arg, shift) if isinstance(arg, torch.Tensor) else arg for arg in question.args)
        again = replace(question, args=moved)
        tried = replay(again, order.tree, again.run(), rows, columns, member, every=True)
        fit = [one.manner for one in tried if one.same[member].all()]
        left = [manner for manner in fit if left is None or manner in left]
    return replace(order, manner=left[0]) if left else replace(order, confirmed=False)


def _moved(tensor: torch.Tensor, shift: int) -> torch.Tensor:
    """The same numbers at other places, with the same strides."""
    found = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    found.copy_(torch.roll(tensor.reshape(-1), 3 * shift).view(tensor.shape))
    return found


def _order(tree: Tree, one: Replayed, actual: torch.Tensor, member: Array) -> Order:
    inside, apart = np.argwhere(member), np.argwhere(member & ~one.same)
    first = None
    if len(apart):
        r, c = int(apart[0][0]), int(apart[0][1])
        first = (r, c, float(actual[r, c]), float(one.given[r, c]))
    place = (int(inside[0][0]), int(inside[0][1])) if len(inside) else (0, 0)
    return Order(tree, one.manner, int(member.sum()), int((member & one.same).sum()), place, first)


def _merged(found: Sequence[Order]) -> list[Order]:
    """Classes that turned out to have one tree and manner are one."""
    kept: dict[tuple[str, Manner], Order] = {}
    for order in found:
        other = kept.get((order.tree.hash, order.manner))
        kept[order.tree.hash, order.manner] = order if other is None else replace(
            other, outputs=other.outputs + order.outputs, equal=other.equal + order.equal, first=other.first or order.first
        )  # fmt: skip
    return list(kept.values())
