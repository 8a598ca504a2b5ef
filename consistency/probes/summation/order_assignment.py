"""Which of the orders and manners that were found hold at which outputs of a call: by replaying,
with other numbers where one replay could be chance.

Edges of tiles are not always computed with FMA where the rest is, and outputs that read padding, or
share all of their numbers with others, cannot be asked for their order at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .replay import Manner, Replayed, replay
from .sums_in_operators import Question
from .trees import Tree

Array = np.ndarray[Any, Any]
LEAST_OUTPUTS = 16  # agree before a claim is made of an order
MOST_WORK = 1 << 28  # terms × outputs that are replayed


@dataclass(frozen=True)
class Part:
    """One tree in one manner, at the outputs ``where`` [rows, columns]."""

    tree: Tree
    one: Replayed
    where: Array

    @property
    def manner(self) -> Manner:
        return self.one.manner


def split(tree: Tree, tried: Sequence[Replayed], member: Array) -> tuple[list[Part], Array]:
    """Which manner holds for which outputs of a class: one for all, or one for each column, or for
    each row. Where that leaves some unexplained, the best manner comes back with none, and a mask
    of all of the class: what is left to :func:`allotted`.
    """
    best = max(tried, key=lambda one: int((one.same & member).sum()))
    if best.same[member].all():
        return [Part(tree, best, member)], np.zeros_like(member)
    fits = np.stack([one.same | ~member for one in tried])
    for axis in (1, 2):  # over the rows of each column, over the columns of each row
        whole = fits.all(axis)
        if not whole.any(0).all():
            continue
        chosen = whole.argmax(0)  # the first manner that holds throughout
        masks = [member & (np.expand_dims(chosen, axis - 1) == k) for k in range(len(tried))]
        parts = [
            Part(tree, one, mask) for one, mask in zip(tried, masks, strict=True) if mask.any()
        ]
        if all(part.where.sum() >= LEAST_OUTPUTS for part in parts):
            return parts, np.zeros_like(member)
    return [Part(tree, best, np.zeros_like(member))], member


def allotted(
    question: Question,
    parts: Sequence[Part],
    actual: torch.Tensor,
    rows: Array,
    columns: Array,
    left: Array,
) -> tuple[list[Part], Array, Array]:
    """``parts`` with the outputs ``left`` given to those that replay them with all of 17 sets of
    numbers, in other manners, too.

    Also masks of what none of them gives, and of what is too much to be replayed so often.
    """
    nobody, untested = np.zeros_like(left), np.zeros_like(left)
    if not left.any() or (
        len(parts) == 1 and parts[0].where.any() and parts[0].one.same[left].all()
    ):
        return [replace(part, where=part.where | left) for part in parts], nobody, untested
    found = sorted(parts, key=lambda part: -int(part.where.sum()))
    at = np.flatnonzero(left.any(1))
    for tree in {part.tree.hash: part.tree for part in parts}.values():
        known = {part.manner for part in parts if part.tree.hash == tree.hash}
        for one in replay(question, tree, actual, rows[at], columns, left[at]):
            if one.manner not in known and (one.same & left[at]).any():
                found.append(Part(tree, _spread(one, at, left.shape), np.zeros_like(left)))
    work = len(columns) * question.layout.terms * (LEAST_OUTPUTS + 1) * len(found)  # of a row
    at, beyond = np.split(at, [max(MOST_WORK // work, 1)])
    untested[beyond] = left[beyond]
    fits = np.stack([part.one.same & left & ~untested for part in found])
    for shift in range(1, LEAST_OUTPUTS + 1):
        again = moved(question, shift)
        came = again.run()
        for k, part in enumerate(found):
            fits[k][at] &= replay(
                again, part.tree, came, rows[at], columns, left[at], only=part.manner
            )[0].same
    nobody = left & ~untested & ~fits.any(0)
    chosen = fits.argmax(0)  # the first that always fits
    return (
        [
            replace(part, where=part.where | (fits[k] & (chosen == k)))
            for k, part in enumerate(found)
        ],
        nobody,
        untested,
    )


def confirmed(question: Question, part: Part, rows: Array, columns: Array) -> Manner | None:
    """A few outputs may agree by chance: so the arguments' numbers are moved round, until enough
    outputs were replayed. The manner that gives them all is the one; None where none does.
    """
    fitting: list[Manner] | None = None
    for shift in range(-(-LEAST_OUTPUTS // int(part.where.sum())) + 1):
        again = moved(question, shift)
        tried = replay(again, part.tree, again.run(), rows, columns, part.where, every=True)
        fit = [one.manner for one in tried if one.same[part.where].all()]
        fitting = [manner for manner in fit if fitting is None or manner in fitting]
    return fitting[0] if fitting else None


def moved(question: Question, shift: int) -> Question:
    """The same call with its numbers at other places, with the same strides."""

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        found = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        found.copy_(torch.roll(tensor.reshape(-1), 3 * shift).view(tensor.shape))
        return found

    return replace(
        question,
        args=tuple(turned(arg) if isinstance(arg, torch.Tensor) else arg for arg in question.args),
    )


def _spread(one: Replayed, at: Array, shape: tuple[int, ...]) -> Replayed:
    """A replay of the rows ``at`` as one of all rows."""
    same, given = np.zeros(shape, dtype=bool), np.zeros(shape)
    same[at], given[at] = one.same, one.given
    return Replayed(one.manner, same, given)
