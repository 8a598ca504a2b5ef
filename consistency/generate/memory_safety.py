"""Calls of public functions whose gradient is written beyond its memory, or where there is none.

Where a window of ``max_pool1d``, ``max_pool2d`` or ``max_pool3d`` holds padding only, torch names a
position outside of the image as that of the maximum, and the gradient is written there
(docs/findings-gradients.md). None is drawn so; sizes that are changed afterwards are looked at.
Up to torch 2.13 the kernel of ``group_norm`` for channels_last writes to the gradient of an input
that tracks none, which ends the process, and MKL's transform of several long dimensions with
others inside of them writes past a buffer, which ends it at some later time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..core.model import Case
from ..operators.call_forms import empty
from ..operators.common_form import common_form
from ..operators.declare import Operator
from ..operators.fourier import dims_of
from .materialize import prepare

_CRASHES_IN_CHANNELS_LAST = frozenset({"nn.functional.group_norm"})
_LONG = 16  # calls from 30 on overran it, depending on what lay behind (docs/findings.md)
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


def transforms_long_dims(operator: Operator, case: Case) -> bool:
    """Whether the case takes the complex transform of two dimensions or more, one of them long,
    and another dimension lies inside of them in memory."""
    name, family = operator.ruled_by
    if family != "fft" or name[-1] not in "2n" or not case.tensors:
        return False
    args, kwargs = common_form(
        operator.form_of or operator, case.args[operator.leading :], case.kwargs
    )
    x = empty(args[0])
    dims = [d for d in dims_of(name, (x,), dict(kwargs)) if d < x.ndim]
    halved = name.rpartition(".")[2] not in ("fft2", "ifft2", "fftn", "ifftn")
    asked = kwargs.get("s") or [-1] * len(dims)  # -1 leaves a length as it is
    lengths = [x.shape[d] if n == -1 else n for n, d in zip(asked, dims, strict=False)]
    if halved:  # the last one is real on one side, and is transformed on its own
        dims, lengths = dims[:-1], lengths[:-1]
    if len(dims) < 2 or max(lengths, default=0) < _LONG:
        return False
    inside = [(x.stride(d), d) for d in range(x.ndim) if x.shape[d] > 1]
    return bool(inside) and min(inside)[1] not in dims


def with_dims_in_order(operator: Operator, case: Case) -> Case:
    """The case, its signal contiguous where :func:`transforms_long_dims`. What is transformed are
    the last dimensions of a drawn signal, so that none is inside of them then."""
    if not transforms_long_dims(operator, case):
        return case
    args = list(case.args)
    signal = args[operator.leading]
    shape = tuple(empty(signal).shape)
    kept = tuple(pair for pair in signal.special if pair[0] < math.prod(shape))
    args[operator.leading] = replace(signal, base=shape, view=(), special=kept)
    return replace(case, args=tuple(args))


def ends_the_process(operator: Operator, case: Case) -> bool:
    """Whether a tensor of such a case tracks no gradient, or its transform overruns a buffer."""
    untracked = not all(t.leaf for t in case.tensors)
    return (untracked and needs_every_gradient(operator, case)) or transforms_long_dims(
        operator, case
    )


def is_unsafe(operator: Operator, case: Case) -> bool:
    """As :func:`writes_beyond` or :func:`ends_the_process`, of a case."""
    if ends_the_process(operator, case):
        return True
    if operator.ruled_by[0] not in _RANKS:
        return False
    arguments = prepare(case).build()
    return writes_beyond(operator, arguments.args, arguments.kwargs)
