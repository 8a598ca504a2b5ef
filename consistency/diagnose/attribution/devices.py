"""Faults observed on real devices: lost writes, dropped duplicates, a biased variance, saturating
integers.

They are specific, so they are tried before more general faults, which may match by chance.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from . import (
    evaluated_otherwise,
    filled_and_overflowed,
    gradient_faults,
    integers,
    special_values,
    storage_faults,
    truncated_steps,
)
from .context import AttributionContext
from .fewer_bits import rounded
from .normalizations import VARIANCES
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call
from .writes import dropped_duplicates, lost_writes

_HALF_BITS = 11


def hypotheses(context: AttributionContext) -> Hypotheses:
    name = context.operator.name
    yield from evaluated_otherwise.incomplete_mask(context)
    yield from lost_writes(context)
    plain, skipped = evaluated_otherwise.plain_name(name)
    yield from dropped_duplicates(context, plain if not skipped else name)
    yield from evaluated_otherwise.hypotheses(context)
    yield from truncated_steps.hypotheses(context, plain, skipped)
    yield from filled_and_overflowed.hypotheses(
        context, plain.removeprefix("nn.functional.") if not skipped else ""
    )
    yield from storage_faults.hypotheses(context)
    yield from gradient_faults.hypotheses(context, plain)
    if _is_unbiased_variance(context, plain):
        words = f"{plain} divides by n instead of n − 1"
        yield FaultHypothesis(
            "biased-variance",
            words,
            functools.partial(
                context.with_call,
                unchanged_call,
                functools.partial(_biased_variance, plain, skipped),
            ),
        )
        if context.dtype == "float16":
            yield FaultHypothesis(
                "biased-variance",
                words,
                functools.partial(_biased_variance_in_float16, context, skipped),
            )
    if context.special:
        yield from special_values.hypotheses(context, name)
    yield from integers.comparisons(context)
    if context.whole:
        yield from integers.hypotheses(context)
    if name.startswith("nn.functional.conv_transpose"):
        words = "what output_padding adds is left zero"
        yield FaultHypothesis(
            "output-padding-zero",
            words,
            functools.partial(_zero_output_padding, context, int(name[-2])),
        )
    if len(context.shape) > 1 and not context.backward and np.ptp(context.actual) > 0.0:
        for dims in range(1, len(context.shape)):
            yield FaultHypothesis(
                "first-everywhere",
                "the first row in place of every row",
                functools.partial(_repeat_first_row, context, dims),
            )
    if name == "nn.functional.affine_grid":
        yield FaultHypothesis(
            "first-everywhere",
            "the first point of the grid in place of every point",
            functools.partial(context.with_call, unchanged_call, _grid_of_one_point),
        )


def _biased_variance(name: str, skipped: int, *args: Any, **kwargs: Any) -> Any:
    x, *rest = args[skipped:]
    given = dict(zip(("dim", "unbiased", "keepdim"), rest, strict=False)) | kwargs
    dim, keepdim = given.get("dim"), given.get("keepdim", False)
    dim = None if isinstance(dim, bool) else dim
    return getattr(torch, name)(x, dim, correction=0, keepdim=keepdim)


def _biased_variance_in_float16(context: AttributionContext, skipped: int) -> Predicted:
    """The same with every step truncated to float16, for hardware that rounds toward zero."""
    kwargs = context.reference.arguments.kwargs
    args = context.reference.arguments.args[skipped:]
    dim = kwargs.get("dim", args[1] if len(args) > 1 and not isinstance(args[1], bool) else None)
    dims = list(range(args[0].ndim)) if dim is None else dim
    truncate = functools.partial(rounded, bits=_HALF_BITS, truncate=True)
    centered = truncate(args[0] - truncate(args[0].mean(dims, keepdim=True)))
    result = truncate(truncate(centered * centered).mean(dims))
    return context.outputs(
        (truncate(result.sqrt()) if context.operator.name.startswith("std") else result).reshape(
            context.shape
        )
    )


def _zero_output_padding(context: AttributionContext, dims: int) -> Predicted:
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
    added = kwargs.get("output_padding", args[5] if len(args) > 5 else 0)
    added = [added] * dims if isinstance(added, int) else list(added)
    tensor = torch.from_numpy(context.expected.copy()).reshape(context.shape)
    for dim, count in zip(range(-dims, 0), added, strict=True):
        if count:
            tensor.narrow(dim, tensor.shape[dim] - count, count).zero_()
    return context.outputs(tensor)


def _repeat_first_row(context: AttributionContext, dims: int) -> Predicted:
    """Of integers, which are not rounded, every number has to be the first row's."""
    tail = math.prod(context.shape[dims:])
    rows = context.expected.reshape(-1, tail)
    repeated = np.ascontiguousarray(np.broadcast_to(rows[:1], rows.shape))
    if context.whole and not np.array_equal(repeated.reshape(-1), context.actual):
        return []
    return context.outputs(repeated)


def _grid_of_one_point(
    theta: torch.Tensor, size: list[int], align_corners: bool | None = None
) -> torch.Tensor:
    """affine_grid whose range of coordinates repeats its first number."""
    least = [
        0.0 if n == 1 else -1.0 if align_corners else -1.0 + 1.0 / n for n in reversed(size[2:])
    ]
    first = torch.tensor([*least, 1.0], dtype=theta.dtype)
    point = (theta @ first).reshape(theta.shape[0], *[1] * len(size[2:]), theta.shape[1])
    return point.expand(theta.shape[0], *size[2:], theta.shape[1]).contiguous()


def _is_unbiased_variance(context: AttributionContext, name: str) -> bool:
    """Whether the call is a variance that should not be divided by n."""
    if name not in VARIANCES or context.backward:
        return False
    args, kwargs = context.reference.arguments.args[1:], context.reference.arguments.kwargs
    said = next((a for a in args if isinstance(a, bool)), kwargs.get("unbiased", True))
    return bool(kwargs.get("correction", int(said)))
