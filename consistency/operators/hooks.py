"""Hooks: functions that a declaration hands to the judge, such as S, n, and what is observed.

The judge calls each of them as ``hook(args, kwargs, outputs)``, with the call's arguments as they
were given, in float64. Written with :func:`hook`, one names the arguments of its operator instead.
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
    and by name, as the operator itself does. ``*_`` and ``**__`` stand for those it does not need.
    """

    @wraps(function)
    def by_name(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        return function(outputs, *args, **kwargs)

    return by_name
