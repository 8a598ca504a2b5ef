"""Diagnosis of a failing result: repeat it, change layout, formula or precision, and find its
cause.

Everything that needs a tensor or a backend happens here; :mod:`consistency.judge.reconsideration`
decides what it means for the verdict. Only failing results are diagnosed; a budget limits the time
if everything fails.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace

import numpy as np

from ..core.detail import ModifiedInput, StateChanged
from ..core.dtypes import FORMATS, floats, form_of
from ..core.model import Cause, Evidence, Outcome
from ..core.verdict import VerdictKind
from ..judge.compare import compare
from ..judge.judgment import Judgment
from ..judge.output_judgment import BESIDE
from ..judge.reconsideration import unusual
from ..operators.declare import Operator
from ..operators.refusals import REFUSALS
from ..reference import Reference, perturbation
from ..reference.own_steps import NAME as OWN_STEPS
from .attribution import AttributionContext, explain, explanations, precision_loss
from .attribution.normalizations import VARIANCES
from .attribution.wrong_shapes import cause_of_shape
from .experiments import (
    CONTIGUOUS,
    FlaggedResult,
    accumulates,
    backend_agreement,
    differs,
    experiments,
    float64_error_ratio,
    run_in_float64,
)
from .graph_origin import graph_origin
from .layout_and_batch_causes import cause_by_experiment, cause_by_float64
from .stopwatch import clock_of

REPEATS = 3
# found by running in float64 on the same backend
_FLOAT64_CAUSES = ("approximation", "early-overflow")
_FORMULA_SHARE = 0.998  # of an error within budget that a formula must explain
# The loss of precision whose errors are smaller than those of some healthy sums.
_SMALLEST_LOSSES = frozenset({"bfloat16x3-inputs"})
SECONDS = 5.0  # for one result
EFFORT_SECONDS = 90.0  # for all results of a run that are diagnosed in full


class DiagnosisBudget:
    """Limits diagnoses: the first ``full`` results of a kind are diagnosed in full, later ones only
    for the causes found in these; of those that none of them explains, ``unexplained`` more are
    diagnosed in full, since the first cases may be small and their cause a coincidence.

    ``effort`` is the time (seconds) that is left of the ``whole`` for all full diagnoses together.
    When half is used, only the first result of a kind is diagnosed in full; of the last quarter,
    only the first of an operator on a backend: no operator's third failure costs another's first
    its diagnosis.
    """

    def __init__(
        self,
        effort: float = EFFORT_SECONDS,
        full: int = 3,
        unexplained: int = 5,
        whole: float = EFFORT_SECONDS,
    ) -> None:
        self.effort, self.full, self.unexplained, self.whole = effort, full, unexplained, whole
        self._counts: dict[tuple[str, ...], int] = {}
        self._operators: set[tuple[str, str]] = set()
        self._cut_short: set[tuple[str, ...]] = set()  # kinds with fewer than ``full`` diagnoses
        self._unexplained: Counter[tuple[str, ...]] = Counter()
        self._known_causes: dict[tuple[str, ...], Counter[str]] = {}

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        case = flagged.materials.case
        key = (
            case.operator,
            case.dtype,
            flagged.direction,
            flagged.backend.name,
            flagged.judgment.verdict.value,
        )
        count = self._counts[key] = self._counts.get(key, 0) + 1
        cause_counts = self._known_causes.setdefault(key, Counter())
        clock = clock_of(flagged.backend)
        start_time = clock()
        full = self._affords(count, (case.operator, flagged.backend.name))
        evidence = diagnose(
            flagged, only=None if full else tuple(name for name, _ in cause_counts.most_common())
        )
        further = count > self.full and self.effort > self.whole / 2
        if not full and further and evidence.cause is None:
            self._unexplained[key] += 1
            full = self._unexplained[key] <= self.unexplained
            evidence = diagnose(flagged) if full else evidence
        if full:
            self.effort -= clock() - start_time
            if evidence.cause is not None:
                cause_counts[evidence.cause.name] += 1
            return evidence
        if count <= self.full:
            self._cut_short.add(key)
        return replace(evidence, brief=evidence.cause is None and key in self._cut_short)

    def _affords(self, count: int, pair: tuple[str, str]) -> bool:
        """Whether the ``count``-th result of a kind is diagnosed in full."""
        is_first = pair not in self._operators
        self._operators.add(pair)
        if self.effort <= 0.0 or count > self.full:
            return False
        if self.effort > self.whole / 2:
            return True
        return is_first or (count == 1 and self.effort > self.whole / 4)


def diagnose(
    flagged: FlaggedResult, *, only: tuple[str, ...] | None = None, quick: bool = False
) -> Evidence:
    """Diagnose a failing result. With ``only``, only these causes are tried, and no workarounds.

    ``quick``: repeat once, and measure the condition only if no cause is found.
    """
    evidence = _diagnosed(flagged, only, quick)
    return replace(evidence, origin=graph_origin(flagged, evidence))


def _diagnosed(flagged: FlaggedResult, only: tuple[str, ...] | None, quick: bool) -> Evidence:
    judgment = flagged.judgment
    evidence = Evidence(judgment.verdict.value)
    if judgment.verdict.value in ("crash", "timeout") or isinstance(judgment.detail, StateChanged):
        return evidence  # the change is told once and restored, so another call shows nothing of it
    if "random" in flagged.operator.traits and judgment.verdict.value in (
        "divergent",
        "special-values",
    ):
        return evidence  # every run gives other numbers, which explains nothing
    contexts = _contexts(flagged.reference, flagged.outcome, judgment)
    context = contexts[0] if contexts else None
    clock = clock_of(flagged.backend)
    deadline = clock() + SECONDS
    can_rerun = not flagged.backend.is_recorded
    if can_rerun and "random" not in flagged.operator.traits:
        evidence = _measure_repeatability(flagged, evidence, context, 1 if quick else REPEATS)
    if evidence.other and evidence.within:
        return replace(
            evidence,
            cause=Cause(
                "nondeterministic",
                "an answer that changes from run to run",
                evidence.within / evidence.repeats,
            ),
        )
    if evidence.cause is not None:
        return evidence
    if context is not None and not quick and _may_be_ill_conditioned(flagged):
        evidence = _measure_condition(flagged, evidence, context)
    if (
        isinstance(judgment.detail, ModifiedInput)
        and judgment.verdict.kind is VerdictKind.STRUCTURE
    ):
        evidence = replace(evidence, cause=Cause("input-modified", "writing to an input", 1.0))
    complete = True  # whether all that could explain it was tried
    if context is not None and only != ():
        among = None if only is None else frozenset(only)
        for one in contexts:
            found = explanations(one, only=among)
            if found.cause is not None:
                break
        evidence, complete = (
            replace(evidence, cause=found.cause, rivals=found.rivals),
            found.complete,
        )
    elif _may_have_another_shape(judgment) and (only is None or "argument-ignored" in only):
        cause = evidence.cause or cause_of_shape(flagged.reference, flagged.outcome)
        evidence = replace(evidence, cause=cause)
    if (
        context is not None
        and quick
        and evidence.cause is None
        and _may_be_ill_conditioned(flagged)
    ):
        evidence = _measure_condition(flagged, evidence, context)
    if not can_rerun:
        return replace(evidence, backend_agreement=backend_agreement(flagged, context))
    if only is not None:
        return (
            evidence
            if evidence.cause is not None
            else _diagnose_known_causes(flagged, evidence, context, only)
        )
    trial_rhos: dict[str, float] = {}
    for name, trial in experiments(flagged):
        # Without the layout's nothing else can be concluded, however little time is left.
        if name != CONTIGUOUS and clock() > deadline:
            break
        outcome = trial()
        if outcome is not None and outcome.ok:
            trial_rhos[name] = flagged.rho(outcome)
    float64_outputs = run_in_float64(flagged, context, trial_rhos)
    error_ratio = (
        float64_error_ratio(context, float64_outputs)
        if context is not None and float64_outputs is not None
        else None
    )
    evidence = replace(
        evidence,
        trials=trial_rhos,
        float64_error_ratio=error_ratio,
        backend_agreement=backend_agreement(flagged, context),
    )
    if evidence.cause is None:
        evidence = replace(
            evidence,
            cause=cause_by_experiment(flagged, evidence, context)
            # which is what is left when nothing else explains it
            or (
                cause_by_float64(flagged, evidence, context, float64_outputs) if complete else None
            ),
        )
    return evidence


def _may_have_another_shape(judgment: Judgment) -> bool:
    return judgment.verdict.kind is VerdictKind.STRUCTURE and judgment.detail is None


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


def _diagnose_known_causes(
    flagged: FlaggedResult,
    evidence: Evidence,
    context: AttributionContext | None,
    known: tuple[str, ...],
) -> Evidence:
    """Run only the experiments that can confirm a cause in ``known`` (the most frequent first)."""
    trial_rhos: dict[str, float] = {}
    if "depends-on-layout" in known:
        for words, trial in experiments(flagged):
            outcome = trial() if words == CONTIGUOUS else None
            if outcome is not None and outcome.ok:
                trial_rhos[words] = flagged.rho(outcome)
    float64_outputs = (
        run_in_float64(flagged, context, trial_rhos)
        if known and known[0] in _FLOAT64_CAUSES
        else None
    )
    error_ratio = (
        float64_error_ratio(context, float64_outputs)
        if context is not None and float64_outputs is not None
        else None
    )
    evidence = replace(evidence, trials=trial_rhos, float64_error_ratio=error_ratio)
    cause = (
        cause_by_experiment(flagged, evidence, context)
        if any(name.startswith("depends-on") for name in known)
        else None
    )
    if cause is None and float64_outputs is not None:
        cause = cause_by_float64(flagged, evidence, context, float64_outputs)
    return replace(evidence, cause=cause if cause is not None and cause.name in known else None)


def cause_of(reference: Reference, outcome: Outcome, judgment: Judgment) -> Cause | None:
    """The cause of a failing judgment of tensors from elsewhere, without running anything again."""
    contexts = _contexts(reference, outcome, judgment)
    return next(filter(None, map(explain, contexts)), None)


def _contexts(
    reference: Reference, outcome: Outcome, judgment: Judgment
) -> list[AttributionContext]:
    """What is to be explained, the first one first; nothing for results without comparable numbers.

    Special values that differ come with the numbers beside them where these are beyond the budget,
    too: an expectation may excuse the special values, and not them.
    """
    value = judgment.verdict.value
    if value not in ("divergent", "special-values") or not reference.outputs:
        return []
    special, rho = value == "special-values", judgment.metrics.get("rho_max", 0.0)
    make = functools.partial(AttributionContext, reference, outcome, judgment.output)
    try:
        context = make(special=special, everywhere=not special and rho <= 1.0)
        if special and not context.failing.any():  # integers that no value of their type may be
            context = make(special=False, everywhere=False)
        beside = [make(special=False, everywhere=False)] if BESIDE in judgment.metrics else []
        return [context, *beside]
    except REFUSALS:
        return []


def _measure_repeatability(
    flagged: FlaggedResult, evidence: Evidence, context: AttributionContext | None, repeats: int
) -> Evidence:
    """Repeat the call: count how many runs gave another answer, and how many passed."""
    changed = passed = 0
    outcomes = []
    for _ in range(repeats):
        outcome = flagged.rerun()
        outcomes.append(outcome)
        judgment = flagged.judge_comparison(compare(outcome, flagged.reference, flagged.baseline))
        passes = not judgment.verdict.fails
        passed += passes
        changed += (
            passes or judgment.verdict != flagged.judgment.verdict or differs(context, outcome)
        )
    cause = (
        Cause("stale", "a result on top of the one before", 1.0)
        if changed and accumulates(context, outcomes)
        else None
    )
    return replace(evidence, repeats=repeats, other=changed, within=passed, cause=cause)


def _may_be_ill_conditioned(flagged: FlaggedResult) -> bool:
    """Whether input errors may be amplified: elementwise functions must be correct to the last
    bit; sums and factorizations are only as accurate as their data."""
    traits, error = flagged.operator.traits, flagged.reference.model
    if error.magnitude == OWN_STEPS:
        return False  # amplification by its steps is in the budget, and its inputs are exact
    floating = floats(flagged.materials.case.dtype)
    return (
        floating
        and error.kind == "accumulated"
        and "elementwise" not in traits
        and flagged.judgment.verdict.kind is VerdictKind.DIVERGENT
    )


def _measure_condition(
    flagged: FlaggedResult, evidence: Evidence, context: AttributionContext
) -> Evidence:
    if flagged.judgment.metrics.get("rho_max", 0.0) <= 1.0:
        return evidence  # only the statistics failed, which no element explains
    failing, error = context.failing, np.abs(context.actual - context.expected)
    measure = functools.partial(
        perturbation.error_in_sigmas, index=context.index, error=error, failing=failing
    )
    try:
        perturbed = measure(
            functools.partial(perturbation.with_perturbed_inputs, flagged.reference)
        )
    except REFUSALS:
        perturbed = 0.0
    try:
        rounded = measure(functools.partial(perturbation.with_random_rounding, flagged.reference))
    except Exception:  # torch's decompositions may raise anything
        rounded = 0.0
    return replace(evidence, input_perturbation_ratio=perturbed, random_rounding_ratio=rounded)
