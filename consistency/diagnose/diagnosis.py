"""The diagnosis of a failing result: repeat it, change layout, formula or precision, and find its
cause.

Everything that needs a tensor or a backend happens here; what it means for the verdict is decided
by :func:`consistency.judge.judge.reconsider`. Only failing results are diagnosed, so that cost
matters only in runs in which everything fails: see the limits.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from dataclasses import replace

import numpy as np

from ..core.detail import ModifiedInput
from ..core.dtypes import FORMATS, floats, form_of
from ..core.model import Cause, Evidence, Outcome
from ..core.verdict import VerdictKind
from ..judge.compare import compare
from ..judge.judge import Judgment, unusual
from ..operators.declare import Operator
from ..reference import Reference, perturbation
from ..reference.own_steps import NAME as OWN_STEPS
from .attribution import AttributionContext, explain, precision_loss
from .attribution.context import REFUSALS
from .attribution.devices import VARIANCES
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
from .layout_and_batch_causes import cause_by_experiment, cause_by_float64

REPEATS = 3
_BY_PRECISION = ("approximation", "early-overflow")  # what float64 on the same backend tells
_FORMULA_SHARE = (
    0.998  # share of an error that a formula must explain where the budget would have admitted it
)
_SMALLEST_LOSSES = frozenset(
    {"bfloat16x3-inputs"}
)  # the loss of precision that is smaller than what a healthy sum may err
SECONDS = 5.0  # for one result: what is slow is not tried as often


class DiagnosisBudget:
    """The budget of diagnoses: the first few results of a kind are diagnosed in full, later ones
    only for the causes found in these.

    ``effort`` is the time (seconds) that all full diagnoses may take: where everything fails,
    nobody reads every cause.
    """

    def __init__(self, effort: float = 90.0, full: int = 3) -> None:
        self.effort, self.full = effort, full
        self._seen: dict[tuple[str, ...], int] = {}
        self._causes: dict[tuple[str, ...], Counter[str]] = {}

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        case = flagged.materials.case
        kind = (
            case.operator,
            case.dtype,
            flagged.direction,
            flagged.backend.name,
            flagged.judgment.verdict.value,
        )
        count = self._seen[kind] = self._seen.get(kind, 0) + 1
        known = self._causes.setdefault(kind, Counter())
        began = time.monotonic()
        full = count <= self.full and self.effort > 0.0
        evidence = diagnose(
            flagged, only=None if full else tuple(name for name, _ in known.most_common())
        )
        if full:
            self.effort -= time.monotonic() - began
            if evidence.cause is not None:
                known[evidence.cause.name] += 1
        return evidence


def diagnose(
    flagged: FlaggedResult, *, only: tuple[str, ...] | None = None, quick: bool = False
) -> Evidence:
    """Diagnose a failing result. With ``only``, no causes but these are tried, and no work-arounds.

    ``quick``: one repeat is enough, and where the cause is found, nobody asks how well the case is
    conditioned.
    """
    judgment = flagged.judgment
    evidence = Evidence(judgment.verdict.value)
    if judgment.verdict.value in ("crash", "timeout"):
        return evidence
    if "random" in flagged.operator.traits and judgment.verdict.value in (
        "divergent",
        "special-values",
    ):
        return evidence  # whatever is tried gives other numbers, which explains nothing
    context = _context(flagged.reference, flagged.outcome, judgment)
    deadline = time.monotonic() + SECONDS
    rerun = not flagged.backend.is_recorded
    if rerun and "random" not in flagged.operator.traits:
        evidence = _repeat(flagged, evidence, context, 1 if quick else REPEATS)
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
    if context is not None and only != ():
        evidence = replace(
            evidence, cause=explain(context, only=None if only is None else frozenset(only))
        )
    if (
        context is not None
        and quick
        and evidence.cause is None
        and _may_be_ill_conditioned(flagged)
    ):
        evidence = _measure_condition(flagged, evidence, context)
    if not rerun:
        return replace(evidence, backend_agreement=backend_agreement(flagged, context))
    if only is not None:
        return (
            evidence
            if evidence.cause is not None
            else _diagnose_known_causes(flagged, evidence, context, only)
        )
    tried: dict[str, float] = {}
    for words, trial in experiments(flagged):
        if time.monotonic() > deadline:
            break
        outcome = trial()
        if outcome is not None and outcome.ok:
            tried[words] = flagged.rho(outcome)
    float64_outputs = run_in_float64(flagged, context, tried)
    same = (
        float64_error_ratio(context, float64_outputs)
        if context is not None and float64_outputs is not None
        else None
    )
    evidence = replace(
        evidence,
        trials=tried,
        float64_error_ratio=same,
        backend_agreement=backend_agreement(flagged, context),
    )
    if evidence.cause is None:
        evidence = replace(
            evidence,
            cause=cause_by_experiment(flagged, evidence, context)
            or cause_by_float64(flagged, evidence, context, float64_outputs),
        )
    return evidence


def diagnose_precision_loss(
    operator: Operator, reference: Reference, outcome: Outcome, judgment: Judgment
) -> Cause | None:
    """What explains the errors of a result within budget that may have been computed in fewer bits.

    Which results these are says :func:`consistency.judge.judge.exceeds_baseline`. Of those that err
    no more than the CPU only one loss is tried, the one that leaves less than healthy sums of some
    orders do: whatever leaves more would stand out by its size.
    """
    if reference.model.magnitude != "products":
        return None
    single = FORMATS["float32"].precision
    form = form_of(reference.materials.case.dtype)
    every = unusual(judgment)
    if not every and (form is None or form.precision != single):
        return None
    if reference.low_entropy or reference.repeats:
        return None  # errors of equal numbers are alike, and so agree with a prediction by chance
    try:
        context = AttributionContext(
            reference, outcome, judgment.output, special=False, everywhere=True
        )
    except REFUSALS:
        return None
    return precision_loss(context) if every else precision_loss(context, only=_SMALLEST_LOSSES)


def diagnose_formula(reference: Reference, outcome: Outcome, judgment: Judgment) -> Cause | None:
    """The mistaken formula that explains all of a result within budget which the CPU gives far
    better."""
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
    """The same for a later result: only those trials whose outcome was a cause before (the most
    frequent first)."""
    tried: dict[str, float] = {}
    if "depends-on-layout" in known:
        for words, trial in experiments(flagged):
            outcome = trial() if words == CONTIGUOUS else None
            if outcome is not None and outcome.ok:
                tried[words] = flagged.rho(outcome)
    float64_outputs = (
        run_in_float64(flagged, context, tried) if known and known[0] in _BY_PRECISION else None
    )
    same = (
        float64_error_ratio(context, float64_outputs)
        if context is not None and float64_outputs is not None
        else None
    )
    evidence = replace(evidence, trials=tried, float64_error_ratio=same)
    cause = (
        cause_by_experiment(flagged, evidence, context)
        if any(name.startswith("depends-on") for name in known)
        else None
    )
    if cause is None and float64_outputs is not None:
        cause = cause_by_float64(flagged, evidence, context, float64_outputs)
    return replace(evidence, cause=cause if cause is not None and cause.name in known else None)


def cause_of(reference: Reference, outcome: Outcome, judgment: Judgment) -> Cause | None:
    """What explains a failing judgment of tensors that came from elsewhere, without running
    anything there again."""
    context = _context(reference, outcome, judgment)
    return explain(context) if context is not None else None


def _context(
    reference: Reference, outcome: Outcome, judgment: Judgment
) -> AttributionContext | None:
    """What there is to explain; None for results without comparable numbers."""
    value = judgment.verdict.value
    if value not in ("divergent", "special-values") or not reference.outputs:
        return None
    special, rho = value == "special-values", judgment.metrics.get("rho_max", 0.0)
    try:
        return AttributionContext(
            reference,
            outcome,
            judgment.output,
            special=special,
            everywhere=not special and rho <= 1.0,
        )
    except REFUSALS:
        return None


def _repeat(
    flagged: FlaggedResult, evidence: Evidence, context: AttributionContext | None, repeats: int
) -> Evidence:
    """The same call, some times more: how many gave another answer, and how many passed."""
    other = within = 0
    outcomes = []
    for _ in range(repeats):
        outcome = flagged.rerun()
        outcomes.append(outcome)
        judgment = flagged.judge_comparison(compare(outcome, flagged.reference, flagged.baseline))
        passes = not judgment.verdict.fails
        within += passes
        other += passes or judgment.verdict != flagged.judgment.verdict or differs(context, outcome)
    cause = (
        Cause("stale", "a result on top of the one before", 1.0)
        if other and accumulates(context, outcomes)
        else None
    )
    return replace(evidence, repeats=repeats, other=other, within=within, cause=cause)


def _may_be_ill_conditioned(flagged: FlaggedResult) -> bool:
    """Functions of single elements have a right answer to the last bit; sums and factorizations are
    as good as their data."""
    traits, error = flagged.operator.traits, flagged.reference.model
    if error.magnitude == OWN_STEPS:
        return False  # what its steps amplify is part of the budget, and its inputs are exact
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
        return evidence  # only statistics objected, and these no element explains
    failing, error = context.failing, np.abs(context.actual - context.expected)
    measure = functools.partial(
        perturbation.error_in_sigmas, index=context.index, error=error, failing=failing
    )
    try:
        conditioned = measure(
            functools.partial(perturbation.with_perturbed_inputs, flagged.reference)
        )
    except REFUSALS:
        conditioned = 0.0
    try:
        rounded = measure(functools.partial(perturbation.with_random_rounding, flagged.reference))
    except (
        Exception
    ):  # torch's decompositions raise whatever they like; then this was not looked at
        rounded = 0.0
    return replace(evidence, input_perturbation_ratio=conditioned, random_rounding_ratio=rounded)
