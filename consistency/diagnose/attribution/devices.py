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

from ...backends._outputs import limited
from ...operators.refusals import REFUSALS
from . import evaluated_otherwise, special_values
from .context import AttributionContext, FaultHypothesis, Hypotheses, Predicted, unchanged_call
from .fewer_bits import rounded
from .normalizations import VARIANCES
from .writes import dropped_duplicates, lost_writes
from .wrong_elements import substituted

_HALF_BITS = 11
# × Σ|terms|: 16 roundings, as the sum of some 256 terms in any order leaves
_FLOAT32_SUM = 2.0**-20
_MIN_DISTINCT = 4  # distinct numbers: fewer may be float32's by chance


def hypotheses(context: AttributionContext) -> Hypotheses:
    name = context.operator.name
    yield from lost_writes(context)
    yield from dropped_duplicates(context, name.rstrip("_"))
    yield from evaluated_otherwise.hypotheses(context)
    if name in VARIANCES and not context.backward:
        words = f"{name} divides by n instead of n − 1"
        yield FaultHypothesis(
            "biased-variance",
            words,
            functools.partial(
                context.with_call, unchanged_call, functools.partial(_biased_variance, name)
            ),
        )
        if context.dtype == "float16":
            yield FaultHypothesis(
                "biased-variance", words, functools.partial(_biased_variance_in_float16, context)
            )
    if context.special:
        yield from special_values.hypotheses(context, name)
    if context.whole:
        yield from _integers(context)
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


def _biased_variance(
    name: str,
    x: torch.Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    **kwargs: Any,
) -> Any:
    dim = None if isinstance(dim, bool) else dim
    return getattr(torch, name)(x, dim, correction=0, keepdim=keepdim)


def _biased_variance_in_float16(context: AttributionContext) -> Predicted:
    """The same with every step truncated to float16, for hardware that rounds toward zero."""
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
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


def _integers(context: AttributionContext) -> Hypotheses:
    """Integers computed in float32, or saturated; only exact matches count."""
    assert context.raw is not None
    bits = min(torch.iinfo(context.raw.dtype).bits, 32) if context.raw.dtype != torch.bool else 0
    if not bits:
        return
    info = torch.iinfo(context.raw.dtype if bits < 32 else torch.int32)
    float32_values = _compute_in_float32(context)
    limited = (
        f"integers saturate at {bits} bits instead of wrapping"
        if context.raw.dtype != torch.int64
        else "int64 saturates at 32 bits"
    )
    for name, words, values in (
        ("saturated", limited, np.clip(context.expected, info.min, info.max)),
        ("float32-integers", "integer arithmetic goes through float32", float32_values),
        (
            "float32-integers",
            f"integer arithmetic goes through float32, and {limited}",
            np.clip(float32_values, info.min, info.max),
        ),
        (
            "float32-integers",
            "integer arithmetic goes through float32, and what leaves int64 becomes its least",
            np.where(np.abs(float32_values) < 2.0**63, float32_values, -(2.0**63)),
        ),
    ):
        yield FaultHypothesis(name, words, functools.partial(_if_equal, context, values))
    yield FaultHypothesis(
        "float32-integers",
        "integer arithmetic goes through float32",
        functools.partial(_if_sums_of_float32, context),
    )


def _compute_in_float32(
    context: AttributionContext, absolute: bool = False
) -> np.ndarray[Any, Any]:
    """The call on the same integers, or their absolute values, in float32; NaN if it accepts
    integers only."""
    arguments = context.reference.materials.build("float64")
    float32_inputs = {
        i: t.to(torch.float32).abs() if absolute else t.to(torch.float32)
        for i, t in enumerate(arguments.tensors)
        if not t.dtype.is_floating_point and t.dtype != torch.bool
    }
    args, kwargs = substituted(arguments, float32_inputs)
    try:
        output = [
            item
            for item in limited(context.operator(*args, **kwargs))
            if isinstance(item, torch.Tensor)
        ][context.index]
        return output.detach().to(torch.float64).reshape(context.expected.shape).numpy()
    except REFUSALS:
        return np.full_like(context.expected, np.nan)


def _if_equal(context: AttributionContext, values: np.ndarray[Any, Any]) -> Predicted:
    return context.outputs(values) if np.array_equal(values, context.actual) else []


def _if_sums_of_float32(context: AttributionContext) -> Predicted:
    """The result itself, if its numbers are float32's and as far off as sums of float32 in any
    order may be; out of the range of int64 anything is."""
    if context.operator.error.magnitude != "products":
        return []
    with np.errstate(all="ignore"):
        magnitude = _compute_in_float32(context, absolute=True)
        inside = context.failing & (magnitude < 2.0**63)
        values = context.actual[inside]
        is_near = np.abs(context.actual - context.expected) <= _FLOAT32_SUM * magnitude
    if (
        np.unique(values).size < _MIN_DISTINCT
        or not is_near[inside].all()
        or not (values.astype(np.float32) == values).all()
        or (context.expected[inside].astype(np.float32) == context.expected[inside]).all()
    ):
        return []
    return context.outputs(np.where(context.failing, context.actual, context.expected))


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
    tail = math.prod(context.shape[dims:])
    rows = context.expected.reshape(-1, tail)
    return context.outputs(np.ascontiguousarray(np.broadcast_to(rows[:1], rows.shape)))
