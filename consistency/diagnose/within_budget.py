"""What explains errors that the budget admits, and torch's CPU does not have."""

from __future__ import annotations

from ..core.dtypes import FORMATS, form_of
from ..core.model import Cause, Outcome
from ..judge.judgment import Judgment
from ..judge.reconsideration import unusual
from ..operators.declare import Operator
from ..operators.refusals import REFUSALS
from ..reference import Reference
from .attribution import AttributionContext, explain, precision_loss
from .attribution.normalizations import VARIANCES

_FORMULA_SHARE = 0.998  # of an error within budget that a formula must explain
# The loss of precision whose errors are smaller than those of some healthy sums.
_SMALLEST_LOSSES = frozenset({"bfloat16x3-inputs"})


def diagnose_precision_loss(
    operator: Operator, reference: Reference, outcome: Outcome, judgment: Judgment
) -> Cause | None:
    """The loss of precision that explains the errors of a result within budget.

    :func:`consistency.judge.reconsideration.exceeds_baseline` selects these results. If they are no
    worse than the CPU, only the loss whose errors are smaller than those of healthy sums is tried:
    any other would stand out by its size.
    """
    if reference.model.magnitude != "products":
        return None
    float32_precision = FORMATS["float32"].precision
    form = form_of(reference.materials.case.dtype)
    is_unusual = unusual(judgment)
    if not is_unusual and (form is None or form.precision != float32_precision):
        return None
    if reference.low_entropy or reference.repeats:
        return None  # errors of equal numbers are equal and may match a prediction by chance
    try:
        context = AttributionContext(
            reference, outcome, judgment.output, special=False, everywhere=True
        )
    except REFUSALS:
        return None
    return precision_loss(context) if is_unusual else precision_loss(context, only=_SMALLEST_LOSSES)


def diagnose_formula(reference: Reference, outcome: Outcome, judgment: Judgment) -> Cause | None:
    """The wrong formula that explains all errors of a result within budget for which the CPU is
    far more accurate."""
    if reference.operator.name not in VARIANCES or reference.direction == "backward":
        return None
    try:
        context = AttributionContext(
            reference, outcome, judgment.output, special=False, everywhere=True
        )
    except REFUSALS:
        return None
    cause = explain(context, only=frozenset({"biased-variance"}))
    return cause if cause is not None and cause.share > _FORMULA_SHARE else None
