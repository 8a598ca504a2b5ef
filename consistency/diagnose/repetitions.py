"""Whether a failing result is the same again, and how much of it rounded inputs explain."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from ..core.dtypes import floats
from ..core.model import Cause, Evidence
from ..core.verdict import VerdictKind
from ..judge.compare import compare
from ..operators.refusals import REFUSALS
from ..reference import perturbation
from ..reference.own_steps import NAME as OWN_STEPS
from .attribution import AttributionContext
from .experiments import FlaggedResult, accumulates, differs


def measure_repeatability(
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
    cause = None
    if changed and passed:
        words = "an answer that changes from run to run"
        cause = Cause("nondeterministic", words, passed / repeats)
    elif changed and accumulates(context, outcomes):
        cause = Cause("stale", "a result on top of the one before", 1.0)
    return replace(evidence, repeats=repeats, other=changed, within=passed, cause=cause)


def may_be_ill_conditioned(flagged: FlaggedResult) -> bool:
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


def measure_condition(
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
