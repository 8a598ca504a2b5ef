"""Rank experiments when no hypothesis explains the error: results that depend on layout, batch or
position, or on the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..core.model import Cause, Evidence, Output
from ..reference import Reference
from .attribution import MIN_SHARE, AttributionContext
from .attribution.context import REFUSALS, flat
from .experiments import CONTIGUOUS, DIFFERENT_ANSWER, FlaggedResult, literal_case

_ROUNDED = 1e-6  # of an error, in float64: it shrank as rounding does
_SEVERAL = 4  # elements that err alike in float64 before the formula is blamed
_CLEAR = 100.0  # ulp + G·u·S: of smaller errors it cannot be told whether they are gone elsewhere


def cause_by_experiment(
    flagged: FlaggedResult, evidence: Evidence, context: AttributionContext | None
) -> Cause | None:
    """A cause that no hypothesis explained but an experiment shows: an element's result depends on
    its own inputs only."""
    if evidence.trials.get(CONTIGUOUS, 2.0) <= 1.0:
        return Cause("depends-on-layout", "the layout of the inputs", 1.0)
    clear = (
        context is not None
        and flagged.direction == "forward"
        and not flagged.operator.mutates
        and context.size >= _CLEAR
    )
    row = (
        _failing_row(context, "elementwise" in flagged.operator.traits)
        if context is not None and clear
        else None
    )
    if context is not None and row is not None and _correct_alone(flagged, context, row):
        return Cause("depends-on-batch", "the size of the batch", 1.0)
    if (
        ", only in the " in flagged.judgment.explanation
    ):  # the first or last elements, and no others
        return Cause("depends-on-position", "the position of an element", 1.0)
    if context is None or not clear:
        return None
    turned = (slice(None, None, -1),) * len(context.shape)
    if _differs_elsewhere(flagged, context, lambda t: t.flip(*range(t.ndim)), turned):
        return Cause("depends-on-position", "the position of an element", 1.0)
    if _differs_elsewhere(flagged, context, lambda t: t.flip(0), turned[:1]):
        return Cause("depends-on-position", "the position of a row", 1.0)
    return None


def _correct_alone(flagged: FlaggedResult, context: AttributionContext, row: int) -> bool:
    """Whether a row comes out otherwise without the rest of its batch, be it a row of the first
    operand or of all of them."""
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
    """The row (of dimension 0) with the most wrong elements; of elementwise operators only where
    rows are wrong as a whole.

    There a row that is wrong in places tells of these places: alone, its elements would stand
    elsewhere in memory.
    """
    if len(context.shape) < 2 or context.failing.size != np.prod(context.shape):
        return None
    shares = context.failing.reshape(context.shape[0], -1).mean(1)
    whole = shares.max() > 0.5 and shares[shares > 0.0].min() > 0.5
    return int(np.argmax(shares)) if whole or (not elementwise and shares.max() > 0.0) else None


def _has_rows(
    tensor: torch.Tensor, context: AttributionContext, first: torch.Tensor | None
) -> bool:
    fits = tensor.ndim > 0 and tensor.shape[0] == context.shape[0]
    return fits and (
        tensor.ndim == len(context.shape) if first is None else tensor.shape == first.shape
    )


def _differs_elsewhere(
    flagged: FlaggedResult,
    context: AttributionContext,
    change: Callable[[torch.Tensor], torch.Tensor],
    where: Any,
    *,
    first_only: bool | None = None,
) -> bool:
    """Whether results differ by more than rounding when the rows of the inputs stand elsewhere, or
    alone.

    ``where`` are the same elements among the results so far. Only for independent rows: the
    reference must not differ.
    """
    rows = context.shape[0] if context.shape else 0
    if rows < 2 or context.actual.size != np.prod(context.shape):
        return False
    try:
        # Of a product's factors, the first has the rows.
        alone = "elementwise" not in flagged.operator.traits if first_only is None else first_only
        first = flagged.reference.arguments.tensors[0]
        materials = literal_case(
            flagged, lambda t: change(t) if _has_rows(t, context, first if alone else None) else t
        )
        truth = Reference(flagged.operator, materials, "forward")
        outcome = flagged.rerun(materials=materials)
        if not outcome.ok or not truth.outcome.ok:
            return False
        reference_output, output = (
            truth.outputs[context.index].tensor,
            truth.observed(outcome.outputs)[context.index].tensor,
        )
        expected, backend_values, unit = (
            v.reshape(context.shape)[where].reshape(-1)
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
    """What the same backend's answer in float64 tells: the same error is the formula's, none at all
    is an amplified rounding."""
    if context is None or float64_outputs is None:
        return None
    share = context.share(float64_outputs)
    if share >= MIN_SHARE and not context.special and np.count_nonzero(context.failing) >= _SEVERAL:
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
        and evidence.float64_error_ratio < _ROUNDED
        and "elementwise" in flagged.operator.traits
    ):
        return Cause(
            "approximation", "a formula that amplifies rounding", 1.0 - evidence.float64_error_ratio
        )
    return None
