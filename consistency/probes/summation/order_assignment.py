"""Assign recovered orders and manners to the outputs of a call by replay, repeated with other data
where one agreement could be chance.

Tile edges may be computed without FMA although the interior uses it. The order of outputs that read
padding, or share all their inputs with other outputs, cannot be queried at all.
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
LEAST_OUTPUTS = 16  # that must agree before an order is reported
MOST_WORK = 1 << 28  # limit of terms × outputs in a replay


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
    """Parts of a class by manner (one for all outputs, or one per column, or one per row), and a
    mask of the outputs that are left to :func:`allotted`. If no such partition explains all
    outputs, that mask is the class, and the only part is the best manner without outputs.
    """
    best_replay = max(tried, key=lambda one: int((one.same & member).sum()))
    if best_replay.same[member].all():
        return [Part(tree, best_replay, member)], np.zeros_like(member)
    fits = np.stack([one.same | ~member for one in tried])
    for axis in (1, 2):  # over the rows of each column, over the columns of each row
        holds = fits.all(axis)
        if not holds.any(0).all():
            continue
        chosen = holds.argmax(0)  # the first manner that holds throughout
        masks = [member & (np.expand_dims(chosen, axis - 1) == k) for k in range(len(tried))]
        parts = [
            Part(tree, one, mask) for one, mask in zip(tried, masks, strict=True) if mask.any()
        ]
        if all(part.where.sum() >= LEAST_OUTPUTS for part in parts):
            return parts, np.zeros_like(member)
    return [Part(tree, best_replay, np.zeros_like(member))], member


def allotted(
    question: Question,
    parts: Sequence[Part],
    actual: torch.Tensor,
    rows: Array,
    columns: Array,
    left: Array,
) -> tuple[list[Part], Array, Array]:
    """``parts`` extended by those outputs of ``left`` that they, in any manner, reproduce with all
    17 data sets.

    Also masks of the outputs that no part reproduces, and of those not replayed to limit the work.
    """
    unexplained, untested = np.zeros_like(left), np.zeros_like(left)
    if not left.any() or (
        len(parts) == 1 and parts[0].where.any() and parts[0].one.same[left].all()
    ):
        return [replace(part, where=part.where | left) for part in parts], unexplained, untested
    candidates = sorted(parts, key=lambda part: -int(part.where.sum()))
    at = np.flatnonzero(left.any(1))
    for tree in {part.tree.hash: part.tree for part in parts}.values():
        tested_manners = {part.manner for part in parts if part.tree.hash == tree.hash}
        for replayed in replay(question, tree, actual, rows[at], columns, left[at]):
            if replayed.manner not in tested_manners and (replayed.same & left[at]).any():
                candidates.append(
                    Part(tree, _spread(replayed, at, left.shape), np.zeros_like(left))
                )
    work = len(columns) * question.layout.terms * (LEAST_OUTPUTS + 1) * len(candidates)  # of a row
    at, skipped = np.split(at, [max(MOST_WORK // work, 1)])
    untested[skipped] = left[skipped]
    fits = np.stack([part.one.same & left & ~untested for part in candidates])
    for shift in range(1, LEAST_OUTPUTS + 1):
        rotated = moved(question, shift)
        output = rotated.run()
        for k, part in enumerate(candidates):
            fits[k][at] &= replay(
                rotated, part.tree, output, rows[at], columns, left[at], only=part.manner
            )[0].same
    unexplained = left & ~untested & ~fits.any(0)
    chosen = fits.argmax(0)  # the first that always fits
    return (
        [
            replace(part, where=part.where | (fits[k] & (chosen == k)))
            for k, part in enumerate(candidates)
        ],
        unexplained,
        untested,
    )


def confirmed(question: Question, part: Part, rows: Array, columns: Array) -> Manner | None:
    """The manner that also reproduces a small part with rotated data, or None: a few outputs may
    agree by chance."""
    fitting: list[Manner] | None = None
    for shift in range(-(-LEAST_OUTPUTS // int(part.where.sum())) + 1):
        rotated = moved(question, shift)
        replays = replay(rotated, part.tree, rotated.run(), rows, columns, part.where, every=True)
        fit = [one.manner for one in replays if one.same[part.where].all()]
        fitting = [manner for manner in fit if fitting is None or manner in fitting]
    return fitting[0] if fitting else None


def moved(question: Question, shift: int) -> Question:
    """The same call with its data rotated and its strides unchanged."""

    def rotate(tensor: torch.Tensor) -> torch.Tensor:
        result = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        result.copy_(torch.roll(tensor.reshape(-1), 3 * shift).view(tensor.shape))
        return result

    return replace(
        question,
        args=tuple(rotate(arg) if isinstance(arg, torch.Tensor) else arg for arg in question.args),
    )


def _spread(replayed: Replayed, at: Array, shape: tuple[int, ...]) -> Replayed:
    """A replay of the rows ``at`` extended to all rows."""
    same, given = np.zeros(shape, dtype=bool), np.zeros(shape)
    same[at], given[at] = replayed.same, replayed.given
    return Replayed(replayed.manner, same, given)
