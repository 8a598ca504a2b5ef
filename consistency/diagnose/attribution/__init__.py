"""Attribution: fault hypotheses are simulated in float64 and compared with the backend's result.

A hypothesis becomes the cause if it explains at least nine tenths of the error (in units of the
budget); if few elements are wrong, which many hypotheses could hit by chance, only rounding may
remain. The first of equals wins; sources are ordered from the simplest fault to the most specific.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from ...core.model import Cause
from ...operators.first_positions import tells_of_equals
from ...operators.refusals import REFUSALS
from ..cause_vote import WHOLE_CASE
from . import (
    calls,
    corrupted_results,
    devices,
    formulas,
    integers,
    precision,
    storage_faults,
    wrong_elements,
)
from .context import AttributionContext
from .scans import scanned_dim, share_of_steps
from .simulation import FaultHypothesis

MIN_SHARE = 0.9
_FEW_ELEMENTS = 6  # wrong elements, which many hypotheses may explain by chance
# Units that a single element is off, for hypotheses that come by the dozen; and in how many ways as
# many truth values as are wrong could be.
_MIN_SIZE = 1024.0
_BY_THE_DOZEN = frozenset({"terms-dropped", "shifted", "flipped"})
_ROUNDING = 2.0  # ulp + G·u·S that may remain per element after the simulation
_CLEAR_MARGIN = 0.02  # by which a later hypothesis must be better
SECONDS = 4.0

__all__ = [
    "MIN_SHARE", "WHOLE_CASE", "AttributionContext", "Explanations", "explain", "explanations",
    "precision_loss",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Explanations:
    """The best cause, the ids of its rivals (other causes that explain enough, too), and whether
    the search is ``complete``: only then does no cause mean that none explains the error."""

    cause: Cause | None
    rivals: tuple[str, ...]
    complete: bool


OF_EQUALS = Cause(
    "another-of-equals", "another than the first of several equal elements is returned", 1.0
)


def explain(
    context: AttributionContext, seconds: float = SECONDS, only: frozenset[str] | None = None
) -> Cause | None:
    """The cause that explains most of the error, or None if none explains enough. Gives up after
    ``seconds`` of this thread's processor time: what else the machine does changes no answer.

    ``only``: try no causes but these (ids).
    """
    return explanations(context, seconds, only).cause


def explanations(
    context: AttributionContext, seconds: float = SECONDS, only: frozenset[str] | None = None
) -> Explanations:
    """:func:`explain`, with the rivals, and whether the search came to its end.

    Rivals are sought where fewer than ``WHOLE_CASE`` elements are wrong, which several hypotheses
    may reproduce by chance; the votes of other cases decide between them.
    """
    if tells_of_equals(context.operator, context.index):
        asked = only is None or OF_EQUALS.name in only
        return Explanations(OF_EQUALS if asked else None, (), True)
    rivals: dict[str, None] = {}
    deadline = time.thread_time() + seconds
    cause = _best(context, deadline, only, rivals)
    others = tuple(name for name in rivals if cause is not None and name != cause.name)
    return Explanations(cause, others, time.thread_time() <= deadline)


def _best(
    context: AttributionContext,
    deadline: float,
    only: frozenset[str] | None,
    explaining: dict[str, None],
) -> Cause | None:
    """The best cause; ``explaining`` collects the ids of all that explain enough. ``deadline`` is a
    reading of ``time.thread_time``."""
    best: tuple[float, FaultHypothesis] | None = None
    baseline_share = _baseline_share(context)
    wrong = int(context.failing.sum())
    required = (
        MIN_SHARE
        if wrong > _FEW_ELEMENTS or context.special
        else max(MIN_SHARE, 1.0 - _ROUNDING * math.sqrt(wrong) / max(context.size, 1e-300))
    )
    surprise = _surprise(context, wrong)
    sources = [
        precision.hypotheses,
        formulas.hypotheses,
        wrong_elements.hypotheses,
        corrupted_results.hypotheses,
        calls.hypotheses,
        storage_faults.of_new_results,
        corrupted_results.fitted,
    ]
    # a few zeros prove little
    sources.insert(2 if wrong > _FEW_ELEMENTS else 3, corrupted_results.plain)
    # integer outputs: reduced precision changes them, too, but is seldom the cause
    if context.whole:
        sources.append(sources.pop(0))
        exact = [wrong_elements.narrowed, corrupted_results.narrowed]
        sources[:0] = [*exact, integers.float32_sums]
    sources.insert(0, devices.hypotheses)
    for source in sources:
        for hypothesis in source(context):
            if only is not None and hypothesis.name not in only:
                continue
            if time.thread_time() > deadline:
                break
            if hypothesis.name in _BY_THE_DOZEN and surprise < math.log2(_MIN_SIZE):
                continue  # one of so many fits by chance
            try:
                share = context.share(hypothesis.simulate())
            except REFUSALS:
                continue
            if (
                not math.isfinite(share)
                or share < required
                or share <= baseline_share + _CLEAR_MARGIN
                or wrong < 2 * hypothesis.fitted
            ):
                continue
            explaining[hypothesis.name] = None
            if best is None or share > best[0] + _CLEAR_MARGIN:
                best = (share, hypothesis)
            if best[0] > 1.0 - _CLEAR_MARGIN and wrong >= WHOLE_CASE:
                return _cause(*best)
    return _cause(*best) if best is not None else None


def _surprise(context: AttributionContext, wrong: int) -> float:
    """How many bits a hypothesis predicts that explains ``wrong`` elements: of truth values only
    which they are, of one number its size; several numbers are enough."""
    if context.truths:
        return math.log2(math.comb(context.expected.size, wrong))
    return math.log2(max(context.size, 1.0)) if wrong == 1 else math.inf


_INPUTS = frozenset({"tf32-inputs", "bfloat16-inputs", "bfloat16x3-inputs"})
_WITHIN_BUDGET = _INPUTS | {"truncating-accumulator"}
# of the root mean square; errors unrelated to the fault would grow instead
_MIN_REDUCTION = 0.25
_SINGLE = 24  # bits of float32
_SIGNIFICANT = 6.0  # standard deviations of the correlation with a prediction


def precision_loss(
    context: AttributionContext, only: frozenset[str] = _WITHIN_BUDGET
) -> Cause | None:
    """The loss of precision that explains errors within budget, or None. ``only``: try no others.

    Errors of a healthy sum are independent of the prediction of a hypothesis: subtracting a
    prediction of size p from errors of size e leaves √(e² + p²). A reduction by a quarter needs a
    correlation of 0.66, over 128 elements more than seven standard deviations. The share may be
    below nine tenths because the errors include the backend's own rounding, of similar size. If
    that dominates, the errors may still correlate with a prediction of reduced-precision inputs
    more than by chance (:meth:`AttributionContext.correlation`); a share above 0 then means that
    they contain more than half of it. Truncation has the same sign everywhere, so correlation alone
    does not prove it.

    In float64 and complex128 the prediction is rounded like the result. Where the fault changes
    nothing, it may reproduce a healthy result by summing in the same order, and is left out.

    Where the steps of half precision are rounded to it one by one, a row that is divided by a
    rounded length has the rounding of that in all of its elements, and the rounding of an input or
    of a cotangent does the same: there correlation is no evidence, and the share is what is left of
    it beyond factors that rows have in common. Of running sums the steps are compared
    (:mod:`.scans`).
    """
    best: Cause | None = None
    scanned = scanned_dim(context)
    independent = not (
        context.form is not None
        and context.form.precision < _SINGLE
        and not context.reference.model.wide_accumulation
    )
    for hypothesis in precision.hypotheses(context):
        if hypothesis.name in only:
            try:
                predicted = hypothesis.simulate()
                share, correlation = context.share(predicted), None
                if scanned is not None:
                    share, correlation = share_of_steps(context, predicted, scanned)
                if not independent:
                    share = min(share, context.share_beyond_factors(predicted))
            except REFUSALS:
                continue
            if not context.exceeds_rounding(predicted):
                continue
            if share <= (0.0 if best is None else best.share + _CLEAR_MARGIN):
                continue
            if share >= _MIN_REDUCTION or (
                independent
                and hypothesis.name in _INPUTS
                and (context.correlation(predicted) if correlation is None else correlation)
                > _SIGNIFICANT
            ):
                best = _cause(share, hypothesis)
    return best


def _baseline_share(context: AttributionContext) -> float:
    """The share that plain float64 explains for results in float64 and complex128: the share of a
    fault that changes nothing if the reference is more precise."""
    if not context.simulated_in_its_own_format:
        return 0.0
    try:
        return context.share(context.reference.evaluate(lambda base, position: base))
    except REFUSALS:
        return 0.0


def _cause(share: float, hypothesis: FaultHypothesis) -> Cause:
    return Cause(hypothesis.name, hypothesis.words, min(share, 1.0))
