"""Copies of a case whose tensors are given by their bits: the same numbers in other places of
memory, fewer of them, or more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ..core.recipe import Literal
from .materialize import KEPT_BEFORE_VIEW, Materials, literal, prepare

Change = Callable[[torch.Tensor, int], torch.Tensor]  # of a tensor among the arguments, by position


def literal_copy(
    materials: Materials, change: Change = lambda tensor, _: tensor, *, strided: bool = False
) -> Materials:
    """The case with ``change`` applied to each tensor: contiguous, with memory of its own, with
    lazy conjugates and negatives resolved. Drawn cotangents keep their numbers and are contiguous,
    too. ``strided``: the tensors keep their strides, and numbers before and behind them in their
    memory.

    Raises RecipeError for a tensor that no recipe holds.
    """
    case = materials.case
    copied = _strided if strided else _contiguous
    tensors = materials.build().tensors
    copies = [
        replace(copied(change(tensor, position)), leaf=drawn.leaf)
        for position, (tensor, drawn) in enumerate(zip(tensors, case.tensors, strict=True))
    ]
    layout = "constant" if case.cotangent_layout in ("expanded", "constant") else ""
    return prepare(replace(case.with_tensors(copies), cotangent_layout=layout))


def _contiguous(tensor: torch.Tensor) -> Literal:
    resolved = tensor.detach().resolve_conj().resolve_neg()
    return literal(resolved.clone(memory_format=torch.contiguous_format))


def _strided(tensor: torch.Tensor) -> Literal:
    return literal(tensor, before=KEPT_BEFORE_VIEW, behind=tensor.numel())
