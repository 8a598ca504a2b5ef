"""Calls of public functions whose gradient is written beyond its memory, or where there is none,
or that read beyond it.

Where a window of ``max_pool1d``, ``max_pool2d`` or ``max_pool3d`` holds padding only, torch names a
position outside of the image as that of the maximum, and the gradient is written there
(docs/findings-gradients.md). None is drawn so; sizes that are changed afterwards are looked at.
Up to torch 2.13 the kernel of ``group_norm`` for channels_last writes to the gradient of an input
that tracks none, which ends the process, as some transforms of several long dimensions do
(:mod:`.long_transforms`). A grouped attention divides the heads of its queries by those of its
keys, which ends the process where there are none. One of torch's kernels of attention takes keys
and values of different lengths, which have no meaning, and reads as many keys as there are values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..core.model import Case
from ..operators.call_forms import empty
from ..operators.declare import Operator
from .long_transforms import transforms_long_dims
from .materialize import prepare

_CRASHES_IN_CHANNELS_LAST = frozenset({"nn.functional.group_norm"})
_ATTENTION = frozenset({"nn.functional.scaled_dot_product_attention", "grouped_query_attention"})
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
    """Whether the case ends the process going back where one of its tensors tracks no gradient:
    torch takes the image for one in channels_last, whatever view makes it so."""
    if operator.ruled_by[0] not in _CRASHES_IN_CHANNELS_LAST or not case.tensors:
        return False
    image = empty(case.tensors[0])
    return image.ndim in (4, 5) and _taken_for_channels_last(image.shape, image.stride())


def _taken_for_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """By the strides alone, gaps or not, as torch's c10/core/MemoryFormat.h has it."""
    if strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * shape[dim]
    return True


def ends_the_process(operator: Operator, case: Case) -> bool:
    """Whether a tensor of such a case tracks no gradient, its transform overruns a buffer, or the
    heads of its queries are divided among none."""
    untracked = not all(t.leaf for t in case.tensors)
    return (
        (untracked and needs_every_gradient(operator, case))
        or transforms_long_dims(operator, case)
        or _divides_by_no_heads(operator, case)
    )


def _divides_by_no_heads(operator: Operator, case: Case) -> bool:
    """Whether an attention has keys of no head, by which torch divides (docs/findings.md)."""
    return any(len(shape) > 2 and not shape[-3] for shape in _attended(operator, case))


def reads_beyond(operator: Operator, case: Case) -> bool:
    """Whether an attention has keys and values of different lengths."""
    return len({shape[-2:-1] for shape in _attended(operator, case)}) > 1


def _attended(operator: Operator, case: Case) -> list[torch.Size]:
    """The shapes of the keys and values of an attention; of other operators none."""
    if operator.ruled_by[0] not in _ATTENTION:
        return []
    given = dict(zip(("query", "key", "value"), case.args, strict=False)) | dict(case.kwargs)
    return [empty(given[name]).shape for name in ("key", "value") if name in given]


def is_unsafe(operator: Operator, case: Case) -> bool:
    """As :func:`writes_beyond`, :func:`reads_beyond` or :func:`ends_the_process`, of a case."""
    if ends_the_process(operator, case) or reads_beyond(operator, case):
        return True
    if operator.ruled_by[0] not in _RANKS:
        return False
    arguments = prepare(case).build()
    return writes_beyond(operator, arguments.args, arguments.kwargs)
