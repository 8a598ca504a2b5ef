"""Hooks: functions of a declaration that the judge calls, such as S, n, and observed quantities.

The judge calls each as ``hook(args, kwargs, outputs)`` with the call's arguments in float64. With
:func:`hook`, a function names its operator's arguments instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Tensors = tuple[torch.Tensor, ...]
Magnitude = Callable[[Args, Kwargs, Tensors], Any]
Terms = Callable[[Args, Kwargs, Tensors], float]


def hook(function: Callable[..., Any]) -> Magnitude:
    """A hook from a function ``(outputs, …)`` that takes the operator's own arguments, by position
    and by name. ``*_`` and ``**__`` stand for those it does not use."""

    @wraps(function)
    def by_name(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        return function(outputs, *args, **kwargs)

    return by_name
