"""Integers on devices without 64-bit arithmetic: computed in float32, saturated, cut to 32 bits, or
compared half by half."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ...backends._outputs import limited
from ...core.trees import map_leaves
from ...operators.refusals import REFUSALS
from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call
from .wrong_elements import substituted

# × Σ|terms|: 16 roundings, as the sum of some 256 terms in any order leaves
_FLOAT32_SUM = 2.0**-20
_MIN_DISTINCT = 4  # distinct numbers: fewer may be float32's by chance
_LOW_SIGN = 1 << 31
# whose further arguments are compared with the first, and are no dimensions
_COMPARING = frozenset(
    {
        "gt", "ge", "lt", "le", "eq", "ne", "maximum", "minimum", "clamp", "clip", "clamp_min",
        "clamp_max", "nn.functional.hardtanh", "relu",
    }
)  # fmt: skip
# whose numbers say how large the result is: with another sign of the low half gigabytes
_SIZES = frozenset({"bincount", "nn.functional.one_hot"})
_BOUNDS = {"nn.functional.hardtanh": {"min_val": -1, "max_val": 1}}  # where a call omits them


def comparisons(context: AttributionContext) -> Hypotheses:
    """Whatever is chosen or said by comparing int64."""
    tensors = context.reference.arguments.tensors
    if context.backward or context.operator.name in _SIZES:
        return
    if any(t.dtype == torch.int64 for t in tensors):
        yield FaultHypothesis(
            "int64-truncated",
            "int64 is compared by its high half and its low half, both signed",
            functools.partial(context.with_call, unchanged_call, _by_halves(context)),
        )


def hypotheses(context: AttributionContext) -> Hypotheses:
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
        (
            "float32-integers",
            "integer arithmetic goes through float32, and saturates at 64 bits",
            np.clip(float32_values, -(2.0**63), 2.0**63),
        ),
        ("saturated", limited, _clipped_input(context, info)),
        (
            "int64-truncated",
            "int64 is cut to int32, which goes through float32",
            _compute_in_float32(context, cut=True),
        ),
    ):
        yield FaultHypothesis(name, words, functools.partial(_if_equal, context, values))


def float32_sums(context: AttributionContext) -> Hypotheses:
    """Sums of float32 in an order that nobody knows: to be tried after exact faults, since numbers
    that are merely cut to 32 bits are near such sums as well."""
    assert context.raw is not None
    if context.raw.dtype == torch.bool:
        return
    yield FaultHypothesis(
        "float32-integers",
        "integer arithmetic goes through float32, and is cut to 32 bits",
        functools.partial(_if_cut_sums_of_float32, context),
    )
    yield FaultHypothesis(
        "float32-integers",
        "integer arithmetic goes through float32",
        functools.partial(_if_sums_of_float32, context),
    )


def _compute_in_float32(
    context: AttributionContext, absolute: bool = False, cut: bool = False
) -> np.ndarray[Any, Any]:
    """The call on the same integers, their absolute values, or what is left of them in 32 bits
    (``cut``), in float32; NaN if it accepts integers only."""
    arguments = context.reference.materials.build("float64")

    def single(tensor: torch.Tensor) -> torch.Tensor:
        values = (tensor.to(torch.int32) if cut else tensor).to(torch.float32)
        return values.abs() if absolute else values

    float32_inputs = {
        i: single(t)
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


def _if_cut_sums_of_float32(context: AttributionContext) -> Predicted:
    """The result itself, if modulo 2³² it is as far off as sums of float32 in any order may be."""
    if context.operator.error.magnitude != "products":
        return []
    with np.errstate(all="ignore"):
        magnitude = _compute_in_float32(context, absolute=True)
        distance = np.mod(context.actual - context.expected + 2.0**31, 2.0**32) - 2.0**31
        limit = np.minimum(_FLOAT32_SUM * magnitude, 2.0**24)
    inside = context.failing
    if (
        np.unique(context.actual[inside]).size < _MIN_DISTINCT
        or not (np.abs(context.actual) < 2.0**31)[inside].all()
        or not (np.abs(distance) <= limit)[inside].all()
    ):
        return []
    return context.outputs(np.where(inside, context.actual, context.expected))


def _clipped_input(context: AttributionContext, info: torch.iinfo) -> np.ndarray[Any, Any]:
    """The first argument cut off at the ends of the result's range, as a saturating cast does."""
    tensors = context.reference.arguments.tensors
    if not tensors:  # a call that creates
        return np.full_like(context.expected, np.nan)
    given = tensors[0].detach().to(torch.float64).reshape(-1).numpy()
    if given.size != context.expected.size:
        return np.full_like(context.expected, np.nan)
    return np.asarray(np.clip(np.trunc(given), info.min, info.max))


def _by_halves(context: AttributionContext) -> Any:
    """The call in an order of int64 in which the low half has a sign, too: a number with the sign
    of its low half changed has the same place among others. The change is its own inverse."""

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value ^ _LOW_SIGN if value.dtype == torch.int64 else value
        return value ^ _LOW_SIGN if type(value) is int else value

    def call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        bounds = _BOUNDS.get(context.operator.name, {}) | kwargs
        if context.operator.name in _COMPARING:
            args = tuple(changed(value) for value in args)
            bounds = {name: changed(value) for name, value in bounds.items()}
        result = context.operator(changed(x), *args, **bounds)
        if context.raw is not None and context.raw.dtype != torch.int64:
            return result
        if context.operator.name.startswith(("argmin", "argmax")):
            return result
        return map_leaves(changed, result)

    return call
