"""Second judgments: what becomes of one when its diagnosis, or the cause of errors within budget,
is known."""

from __future__ import annotations

import math
from dataclasses import replace

from ..core.detail import BeyondStatistics
from ..core.model import Cause, Evidence
from ..core.text import format_factor
from ..core.verdict import Verdict, VerdictKind
from .judgment import Judgment
from .output_judgment import FLUSHED
from .rule_values import Policy

_PRECISION_LOSSES = (
    "tf32-inputs",
    "bfloat16-inputs",
    "float16-inputs",
    "bfloat16x3-inputs",
    "float16-accumulator",
    "bfloat16-accumulator",
)
_SAME_IN_FLOAT64 = 0.5  # of the error; rounding would leave 2⁻²⁹ of it
# Beyond these a passing result is compared with fewer bits: RMS error ÷ the CPU's (a healthy sum in
# another order may reach several times it), sign bias in standard deviations (the largest of many
# healthy results is 4.3), ulp (beyond the rounding of the result itself), elements.
_SUSPECT_RATIO, _SUSPECT_LEAN, _SUSPECT_ULP, _SUSPECT_FROM = 1.4, 6.0, 1.0, 128
# × the RMS error of the CPU: beyond it, formulas are tried for a result within budget
BETTER_ELSEWHERE = 20.0


def reconsider(judgment: Judgment, evidence: Evidence, policy: Policy) -> Judgment:
    """The final judgment of a flagged result. The first rule that applies decides:

    - a repeat passed, or gave an answer that differs by more than rounding: ``nondeterministic``;
    - float64 computed in float32, by its cause: ``precision-scaling``;
    - reduced precision of inputs or accumulators, by its cause: ``reduced-precision`` (a warning if
      the policy allows it);
    - no cause, and every flagged error lies within 3σ of the effect of half an ulp in the inputs,
      or of other roundings of the operator's own steps: ``ill-conditioned``;
    - else the verdict stays, and the explanation includes the findings.
    """
    cause = evidence.cause.name if evidence.cause is not None else ""
    verdict, findings = judgment.verdict, []
    if evidence.other:
        verdict = Verdict(VerdictKind.NONDETERMINISTIC)
        findings.append(
            f"{evidence.other} of {evidence.repeats} repeats gave another answer than the first "
            f"run, and {evidence.within} of {evidence.repeats} passed"
        )
    if (
        judgment.verdict.kind is VerdictKind.SPECIAL_VALUES
        and verdict == judgment.verdict
        and cause == "float32-instead-of-float64"
    ):
        verdict = Verdict(VerdictKind.PRECISION_SCALING)  # overflow or underflow in float32
    if (
        judgment.verdict.kind is VerdictKind.DIVERGENT
        and verdict == judgment.verdict
        and cause != "approximation"
    ):
        if cause == "float32-instead-of-float64":
            verdict = Verdict(VerdictKind.PRECISION_SCALING)
        elif cause in _PRECISION_LOSSES:
            verdict = Verdict(VerdictKind.REDUCED_PRECISION, allowed=policy.reduced_precision)
        elif (
            not cause
            and min(
                evidence.input_perturbation_ratio or math.inf,
                evidence.random_rounding_ratio or math.inf,
            )
            <= 1.0
        ):
            verdict = Verdict(VerdictKind.ILL_CONDITIONED)
            findings.append(
                "no more than half an ulp in the inputs changes"
                if 0.0 < evidence.input_perturbation_ratio <= 1.0
                else "its own steps cancel"
            )
    if evidence.cause is not None and cause != "nondeterministic":
        findings.append(str(evidence.cause))
    if evidence.origin is not None:
        findings.append(str(evidence.origin))
    if (
        evidence.float64_error_ratio is not None
        and evidence.float64_error_ratio > _SAME_IN_FLOAT64
        and verdict == judgment.verdict
        and cause != "approximation"
    ):
        findings.append("float64 has the same error: not a matter of precision")
    if evidence.backend_agreement:
        findings.append(evidence.backend_agreement)
    if verdict.fails:
        workarounds = [trial for trial, rho in evidence.trials.items() if rho <= 1.0]
        if workarounds:
            findings.append(f"{workarounds[0]} makes it vanish")
    text = judgment.explanation + (": " + "; ".join(findings) if findings else "")
    return replace(judgment, verdict=verdict, explanation=text)


def exceeds_baseline(judgment: Judgment) -> bool:
    """Whether reduced precision may cause the errors of a result within budget (or only another
    order of the sum).

    The CPU alone cannot decide: the kernel of its library is unknown and may err more than three
    bfloat16 products.
    """
    numbers = judgment.metrics
    few_differ = numbers.get("differing", 0.0) < _SUSPECT_FROM
    return (
        judgment.verdict.kind is VerdictKind.ROUNDING
        and not few_differ
        and not numbers.get(FLUSHED)  # its largest errors are what was flushed
        and (numbers.get("ulp_max", 0.0) > _SUSPECT_ULP or unusual(judgment))
    )


def unusual(judgment: Judgment) -> bool:
    """Whether a result that exceeds the baseline errs much more than the CPU, or with a sign
    bias: then every loss of precision is tried."""
    return (
        judgment.metrics.get("rmse_ratio", 0.0) > _SUSPECT_RATIO or judgment.leans > _SUSPECT_LEAN
    )


def far_from_the_cpu(judgment: Judgment) -> bool:
    """Whether a result within budget is so much worse than the CPU's that the budget may hide a
    wrong formula."""
    return (
        judgment.verdict.kind is VerdictKind.ROUNDING
        and judgment.metrics.get("rmse_ratio", 0.0) > BETTER_ELSEWHERE
    )


def with_cause(judgment: Judgment, cause: Cause | None, policy: Policy) -> Judgment:
    """The final judgment of a result that exceeds the baseline: a cause that explains its errors
    makes it a failure."""
    if cause is None:
        return judgment
    reduced = cause.name in _PRECISION_LOSSES
    verdict = (
        Verdict(VerdictKind.REDUCED_PRECISION, allowed=policy.reduced_precision)
        if reduced
        else Verdict(VerdictKind.DIVERGENT)
    )
    ratio = judgment.metrics.get("rmse_ratio", 0.0)
    rho = format_factor(judgment.metrics.get("rho_max", 0.0))
    observation = (
        f"RMS error is {min(ratio, 1e6):.1f} times the CPU's"
        if ratio > _SUSPECT_RATIO
        else "errors are not random"
    )
    text = f"{rho} × budget, but its {observation}: {cause}"
    return replace(
        judgment,
        verdict=verdict,
        explanation=text,
        detail=BeyondStatistics(f"its {observation}: {cause}"),
    )
