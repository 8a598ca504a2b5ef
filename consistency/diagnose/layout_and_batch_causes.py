"""Causes found by experiments when no hypothesis explains the error: results that depend on
layout, batch or position, or on the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..core.model import Cause, Evidence, Output
from ..operators.refusals import REFUSALS
from ..reference import Reference
from .attribution import MIN_SHARE, AttributionContext
from .attribution.simulation import flat
from .experiments import CONTIGUOUS, DIFFERENT_ANSWER, FlaggedResult, literal_case
from .shared_memory import cause_with_room_behind

_ROUNDING_RATIO = 1e-6  # of the error remains in float64: it was rounding
_MIN_ELEMENTS = 4  # elements with the same error in float64 before the formula is blamed
_CLEAR = 100.0  # ulp + G·u·S: smaller errors may vanish at other positions by chance


def cause_by_experiment(
    flagged: FlaggedResult, evidence: Evidence, context: AttributionContext | None
) -> Cause | None:
    """A cause shown by an experiment: the result of an element must depend on its own inputs
    only."""
    if evidence.trials.get(CONTIGUOUS, 2.0) <= 1.0:
        misread = cause_with_room_behind(flagged, context)
        return misread or Cause("depends-on-layout", "the layout of the inputs", 1.0)
    is_clear = (
        context is not None
        and flagged.direction == "forward"
        and not flagged.operator.mutates
        and context.size >= _CLEAR
    )
    row = (
        _failing_row(context, "elementwise" in flagged.operator.traits)
        if context is not None and is_clear
        else None
    )
    if context is not None and row is not None and _correct_without_batch(flagged, context, row):
        return Cause("depends-on-batch", "the size of the batch", 1.0)
    if flagged.judgment.at_end:
        return Cause("depends-on-position", "the position of an element", 1.0)
    if context is None or not is_clear:
        return None
    reversed_axes = (slice(None, None, -1),) * len(context.shape)
    if _differs_elsewhere(flagged, context, lambda t: t.flip(*range(t.ndim)), reversed_axes):
        return Cause("depends-on-position", "the position of an element", 1.0)
    if _differs_elsewhere(flagged, context, lambda t: t.flip(0), reversed_axes[:1]):
        return Cause("depends-on-position", "the position of a row", 1.0)
    return None


def _correct_without_batch(flagged: FlaggedResult, context: AttributionContext, row: int) -> bool:
    """Whether a row gives another result without the rest of its batch; tried for the first
    operand and for all of them."""
    return any(
        _differs_elsewhere(
            flagged,
            context,
            lambda t: t[row : row + 1],
            np.s_[row : row + 1],
            first_only=first_only,
        )
        for first_only in ((False,) if "elementwise" in flagged.operator.traits else (True, False))
    )


def _failing_row(context: AttributionContext, elementwise: bool) -> int | None:
    """The row (of dimension 0) with the most wrong elements; for elementwise operators only if rows
    fail entirely.

    A single wrong element of such a row may depend on its memory address, which changes when the
    row is taken out.
    """
    if len(context.shape) < 2 or context.failing.size != np.prod(context.shape):
        return None
    shares = context.failing.reshape(context.shape[0], -1).mean(1)
    rows_fail_entirely = shares.max() > 0.5 and shares[shares > 0.0].min() > 0.5
    return (
        int(np.argmax(shares))
        if rows_fail_entirely or (not elementwise and shares.max() > 0.0)
        else None
    )


def _has_rows(
    tensor: torch.Tensor, context: AttributionContext, first: torch.Tensor | None
) -> bool:
    has_batch_size = tensor.ndim > 0 and tensor.shape[0] == context.shape[0]
    return has_batch_size and (
        tensor.ndim == len(context.shape) if first is None else tensor.shape == first.shape
    )


def _differs_elsewhere(
    flagged: FlaggedResult,
    context: AttributionContext,
    change: Callable[[torch.Tensor], torch.Tensor],
    selection: Any,
    *,
    first_only: bool | None = None,
) -> bool:
    """Whether results change by more than rounding when the rows of the inputs are moved or
    separated.

    ``selection`` are the corresponding elements of the original results. Only for independent rows:
    the reference must not change.
    """
    rows = context.shape[0] if context.shape else 0
    if rows < 2 or context.actual.size != np.prod(context.shape):
        return False
    try:
        # Only the first factor of a product has the rows.
        first_tensor_only = (
            "elementwise" not in flagged.operator.traits if first_only is None else first_only
        )
        first = flagged.reference.arguments.tensors[0]
        materials = literal_case(
            flagged,
            lambda t: (
                change(t) if _has_rows(t, context, first if first_tensor_only else None) else t
            ),
        )
        reference = Reference(flagged.operator, materials, "forward")
        outcome = flagged.rerun(materials=materials)
        if not outcome.ok or not reference.outcome.ok:
            return False
        reference_output, output = (
            reference.outputs[context.index].tensor,
            reference.observed(outcome.outputs)[context.index].tensor,
        )
        expected, backend_values, unit = (
            v.reshape(context.shape)[selection].reshape(-1)
            for v in (context.expected, context.actual, context.unit)
        )
        if (
            reference_output is None
            or output is None
            or flat(reference_output).size != expected.size
            or flat(output).size != expected.size
        ):
            return False
    except REFUSALS:
        return False
    with np.errstate(all="ignore"):
        finite = np.isfinite(expected) & np.isfinite(backend_values)
        if (np.abs(flat(reference_output) - expected) > unit)[finite].any():
            return False
        return bool((np.abs(flat(output) - backend_values) > DIFFERENT_ANSWER * unit)[finite].any())


def cause_by_float64(
    flagged: FlaggedResult,
    evidence: Evidence,
    context: AttributionContext | None,
    float64_outputs: tuple[Output, ...] | None,
) -> Cause | None:
    """The cause shown by the backend's float64 result: the same error is the formula's, no error
    means amplified rounding."""
    if context is None or float64_outputs is None:
        return None
    share = context.share(float64_outputs)
    if (
        share >= MIN_SHARE
        and not context.special
        and np.count_nonzero(context.failing) >= _MIN_ELEMENTS
    ):
        return Cause("approximation", "the formula itself, which errs alike in float64,", share)
    correct_in_float64 = evidence.trials.get("computing in float64", 2.0) <= 1.0
    if (
        correct_in_float64
        and context.special
        and np.isfinite(context.expected[context.failing]).any()
    ):
        return Cause("early-overflow", "an intermediate that leaves the format", 1.0)
    if (
        correct_in_float64
        and evidence.float64_error_ratio is not None
        and evidence.float64_error_ratio < _ROUNDING_RATIO
        and "elementwise" in flagged.operator.traits
    ):
        return Cause(
            "approximation", "a formula that amplifies rounding", 1.0 - evidence.float64_error_ratio
        )
    return None
