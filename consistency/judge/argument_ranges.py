"""Which elements of an output belong to which range of an argument, as the operator declares them:
rules may have bounds of their own there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..core.views import written
from .elements import Elements, flat

Masks = list[tuple[tuple[int, float, float], Any]]  # range, the elements whose argument is in it


def ranges(elements: Elements) -> Masks:
    """The operator's declared argument ranges as masks over the elements (elementwise
    operators, same shape only)."""
    masks: Masks = []
    for interval in elements.reference.operator.ranges:
        position, low, high = interval
        values = _argument(elements, position + elements.reference.operator.leading)
        if values is not None:
            masks.append((interval, (values >= low) & (values <= high)))
    return masks


def outside(masks: Masks) -> Any:
    """The mask of the elements in none of the ranges; None if there are none."""
    return ~np.logical_or.reduce([mask for _, mask in masks]) if masks else None


def _argument(elements: Elements, position: int) -> Any:
    tensors = elements.reference.arguments.tensors
    argument = (
        tensors[position]
        if position < len(tensors) and not tensors[position].is_complex()
        else None
    )
    if argument is not None and elements.name.startswith("arg/"):
        argument = _values_at_destination(
            elements, argument, int(elements.name.removeprefix("arg/"))
        )
    if argument is None or tuple(argument.shape) != elements.shape:
        return None
    values = flat(argument, wide=True)
    return values[elements.keep] if elements.keep is not None else values


def _values_at_destination(
    elements: Elements, argument: torch.Tensor, destination: int
) -> torch.Tensor | None:
    """An argument's numbers at the positions of the mutated view in its storage, NaN
    elsewhere."""
    view, base = (
        elements.reference.arguments.tensors[destination],
        elements.reference.arguments.bases[destination],
    )
    if view.shape != argument.shape:
        return argument
    return written(torch.full_like(base, torch.nan, dtype=torch.float64), view, argument)
