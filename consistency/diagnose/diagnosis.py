"""Diagnosis of a failing result: repeat it, change layout, formula or precision, and find its
cause.

Everything that needs a tensor or a backend happens here; :mod:`consistency.judge.reconsideration`
decides what it means for the verdict. Only failing results are diagnosed; a budget limits the time
if everything fails.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from ..core.detail import ModifiedInput, StateChanged
from ..core.model import Cause, Evidence, Outcome
from ..core.verdict import VerdictKind
from ..judge.judgment import Judgment
from ..judge.output_judgment import BESIDE
from ..operators.refusals import REFUSALS
from ..reference import Reference
from .attribution import AttributionContext, explain, explanations
from .attribution.wrong_shapes import cause_of_shape
from .experiments import (
    CONTIGUOUS,
    FlaggedResult,
    backend_agreement,
    experiments,
    float64_error_ratio,
    run_in_float64,
)
from .graph_origin import graph_origin
from .layout_and_batch_causes import cause_by_experiment, cause_by_float64
from .repetitions import may_be_ill_conditioned, measure_condition, measure_repeatability
from .stopwatch import clock_of

REPEATS = 3
# found by running in float64 on the same backend
_FLOAT64_CAUSES = ("approximation", "early-overflow")
SECONDS = 5.0  # for one result


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
    if _explains_nothing(flagged):
        return evidence
    contexts = _contexts(flagged.reference, flagged.outcome, judgment)
    context = contexts[0] if contexts else None
    clock = clock_of(flagged.backend)
    deadline = clock() + SECONDS
    can_rerun = not flagged.backend.is_recorded
    if can_rerun and "random" not in flagged.operator.traits:
        evidence = measure_repeatability(flagged, evidence, context, 1 if quick else REPEATS)
    if evidence.cause is not None:
        return evidence
    if context is not None and not quick and may_be_ill_conditioned(flagged):
        evidence = measure_condition(flagged, evidence, context)
    evidence, complete = _attributed(flagged, evidence, contexts, only)
    if context is not None and quick and evidence.cause is None and may_be_ill_conditioned(flagged):
        evidence = measure_condition(flagged, evidence, context)
    if not can_rerun:
        return replace(evidence, backend_agreement=backend_agreement(flagged, context))
    if only is None:
        return _by_experiments(flagged, evidence, context, lambda: clock() > deadline, complete)
    if evidence.cause is not None:
        return evidence
    return _diagnose_known_causes(flagged, evidence, context, only)


def _explains_nothing(flagged: FlaggedResult) -> bool:
    """Whether another call would show nothing of the failure: there is no result, the change to
    global state is told once and restored, or every run gives other numbers."""
    judgment = flagged.judgment
    if judgment.verdict.value in ("crash", "timeout") or isinstance(judgment.detail, StateChanged):
        return True
    return "random" in flagged.operator.traits and judgment.verdict.value in (
        "divergent",
        "special-values",
    )


def _attributed(
    flagged: FlaggedResult,
    evidence: Evidence,
    contexts: list[AttributionContext],
    only: tuple[str, ...] | None,
) -> tuple[Evidence, bool]:
    """The evidence with the cause that the numbers themselves show, and whether all that could
    explain it was tried."""
    judgment = flagged.judgment
    if (
        isinstance(judgment.detail, ModifiedInput)
        and judgment.verdict.kind is VerdictKind.STRUCTURE
    ):
        evidence = replace(evidence, cause=Cause("input-modified", "writing to an input", 1.0))
    if contexts and only != ():
        among = None if only is None else frozenset(only)
        for context in contexts:
            found = explanations(context, only=among)
            if found.cause is not None:
                break
        return replace(evidence, cause=found.cause, rivals=found.rivals), found.complete
    if _may_have_another_shape(judgment) and (only is None or "argument-ignored" in only):
        cause = evidence.cause or cause_of_shape(flagged.reference, flagged.outcome)
        evidence = replace(evidence, cause=cause)
    return evidence, True


def _by_experiments(
    flagged: FlaggedResult,
    evidence: Evidence,
    context: AttributionContext | None,
    is_late: Callable[[], bool],
    complete: bool,
) -> Evidence:
    """The evidence with what other layouts, formulas and precisions change. Only if all that could
    explain the error was tried (``complete``), what float64 changes is its cause."""
    trial_rhos: dict[str, float] = {}
    for name, trial in experiments(flagged):
        # Without the layout's nothing else can be concluded, however little time is left.
        if name != CONTIGUOUS and is_late():
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
    if evidence.cause is not None:
        return evidence
    cause = cause_by_experiment(flagged, evidence, context)
    if cause is None and complete:
        cause = cause_by_float64(flagged, evidence, context, float64_outputs)
    return replace(evidence, cause=cause)


def _may_have_another_shape(judgment: Judgment) -> bool:
    return judgment.verdict.kind is VerdictKind.STRUCTURE and judgment.detail is None


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
