"""Calls of public functions whose gradient is written beyond its memory, or where there is none.

Where a window of ``max_pool1d``, ``max_pool2d`` or ``max_pool3d`` holds padding only, torch names a
position outside of the image as that of the maximum, and the gradient is written there
(docs/findings-gradients.md). None is drawn so; sizes that are changed afterwards are looked at.
Up to torch 2.13 the kernel of ``group_norm`` for channels_last writes to the gradient of an input
that tracks none, which ends the process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..core.model import Case
from ..operators.call_forms import empty
from ..operators.declare import Operator
from .materialize import prepare

_CRASHES_IN_CHANNELS_LAST = frozenset({"nn.functional.group_norm"})
_RANKS = {f"nn.functional.max_pool{rank}d": rank for rank in (1, 2, 3)}


def writes_beyond(operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the gradient of this call is written outside of its memory. The call itself only
    reads what it has."""
    rank = _RANKS.get(operator.ruled_by[0])
    if rank is None or operator.leading or not args or not isinstance(args[0], torch.Tensor):
        return False
    function = getattr(torch.nn.functional, f"max_pool{rank}d")
    image = args[0].detach()
    try:
        _, places = function(image, *args[1:], **{**kwargs, "return_indices": True})
    except (RuntimeError, TypeError, ValueError):
        return False  # a call that is refused writes nothing
    size = math.prod(image.shape[-rank:])
    return bool(((places < 0) | (places >= size)).any())


def needs_every_gradient(operator: Operator, case: Case) -> bool:
    """Whether the case ends the process going back where one of its tensors tracks no gradient: the
    channels of an image lie nearer to each other than its pixels, whatever view makes them so."""
    if operator.ruled_by[0] not in _CRASHES_IN_CHANNELS_LAST or not case.tensors:
        return False
    strides = empty(case.tensors[0]).stride()
    return len(strides) > 3 and strides[1] < max(strides[2:])


def ends_the_process(operator: Operator, case: Case) -> bool:
    """Whether a tensor of such a case tracks no gradient."""
    return not all(t.leaf for t in case.tensors) and needs_every_gradient(operator, case)


def is_unsafe(operator: Operator, case: Case) -> bool:
    """As :func:`writes_beyond` or :func:`ends_the_process`, of a case."""
    if ends_the_process(operator, case):
        return True
    if operator.ruled_by[0] not in _RANKS:
        return False
    arguments = prepare(case).build()
    return writes_beyond(operator, arguments.args, arguments.kwargs)
