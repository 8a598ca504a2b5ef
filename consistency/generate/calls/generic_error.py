"""The error model of an undeclared call: its sensitivity to its inputs, and an estimate of how many
numbers are summed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ...core.trees import flatten
from ...errors import Untestable
from ...operators.declare import NORMWISE, Operator

# The family of undeclared operators, as tables of results name it.
GENERIC = "opinfo: generic model"


def longest_dimension(
    args: tuple[Any, ...], kwargs: dict[str, Any], outputs: tuple[torch.Tensor, ...]
) -> float:
    """n of an unknown operator: the longest dimension of an argument."""
    return float(max((max(t.shape, default=1) for t in _tensors(args, kwargs)), default=1))


def longest_reduction(
    args: tuple[Any, ...], kwargs: dict[str, Any], outputs: tuple[torch.Tensor, ...]
) -> float:
    """n of an unknown kernel: its longest dimension, or the number of inputs per output.

    The gradient of a bias sums over everything but the channels.
    """
    inputs = max((t.numel() for t in _tensors(args, kwargs)), default=1)
    fewest = min((o.numel() for o in outputs if o.numel()), default=1)
    return max(longest_dimension(args, kwargs, outputs), inputs / fewest)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    return [value for value in flatten((args, kwargs)) if isinstance(value, torch.Tensor)]


# Whether intermediates are rounded to the half format is not known either.
BY_SENSITIVITY = replace(NORMWISE, terms=longest_dimension, wide_accumulation=False)


def generically(operator: Operator) -> Operator:
    """The operator judged by its sensitivity to its inputs, for calls that its declaration does not
    cover.

    Raises Untestable for operators whose results are meaningless unless observed through their
    arguments.
    """
    if (
        operator.observe is not None
        or operator.observe_gradients is not None
        or operator.alternatives is not None
    ):
        raise Untestable("its declaration does not know arguments that are written like this")
    return replace(operator, error=BY_SENSITIVITY, ranges=())
