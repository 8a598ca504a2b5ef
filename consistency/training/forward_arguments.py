"""Whether a model takes its inputs, before anything runs: a list of batches in the place of one
batch would only be Python's TypeError."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from ..core.text import pluralize
from ..errors import UsageError


def check_inputs(model: Any, inputs: Sequence[Any], what: str) -> None:
    """Raises UsageError, which ``what`` begins, if the model's forward does not take so many
    inputs."""
    takes = _why_refused(model, inputs)
    if not takes:
        return
    if len(inputs) > 1 and _looks_like_batches(inputs):
        told = f"its inputs are {len(inputs)} batches"
        remedy = "give one batch to a step: consistency.Subject(model, batches=[…])"
    else:
        told = f"it has {pluralize(len(inputs), 'input')}"
        remedy = "give what one call takes as a tuple: (model, (x, y))"
    raise UsageError(f"{what}: {told}, but {takes}; {remedy}")


def check_batch(model: Any, batch: Sequence[Any], has_targets: bool, what: str) -> None:
    """Raises UsageError, which ``what`` begins, if the model's forward does not take the inputs of
    its first batch."""
    takes = _why_refused(model, batch)
    if not takes:
        return
    remedy = (
        "give each as a tuple of inputs"
        if has_targets or len(batch) < 2
        else "give inputs and targets as a pair of tuples, ((x,), (y,))"
    )
    raise UsageError(
        f"{what}: its first batch has {pluralize(len(batch), 'input')}, but {takes}; {remedy}"
    )


def _why_refused(model: Any, inputs: Sequence[Any]) -> str:
    """Why the model cannot be called with so many inputs: ``Net.forward takes (x)``; empty if it
    can, or if nobody knows."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # compiled, or written in C
        return ""
    try:
        signature.bind(*inputs)
    except TypeError:
        names = ", ".join(str(name) for name in signature.parameters)
        owner = f"{type(model).__name__}.forward" if function is not model else "the model"
        return f"{owner} takes ({names})"
    return ""


def _looks_like_batches(inputs: Sequence[Any]) -> bool:
    """Whether every input is a tuple or list that holds tensors, or all are tensors of one
    shape."""
    if all(isinstance(one, torch.Tensor) for one in inputs):
        return len({tuple(one.shape) for one in inputs}) == 1
    return all(
        isinstance(one, (tuple, list)) and any(isinstance(part, torch.Tensor) for part in one)
        for one in inputs
    )
