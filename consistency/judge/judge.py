"""The judge: a comparison, the CPU's comparison in the same dtype, and a rule give a verdict. Sees
no tensor.

The order of checks: structure, special values, budget, statistics, for results that do not fail
what the call promises beside the numbers, and whether the case could have shown an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..core.contract import DOCUMENTED, STATED
from ..core.detail import BeyondStatistics, BrokenContract, Detail, ReferenceRaised
from ..core.model import Cause, Comparison, ElementGroup, Evidence, Measured, Worst
from ..core.text import format_factor
from ..core.verdict import OutcomeStatus, Verdict, VerdictKind
from . import metrics
from .tolerances import Policy, Rule

_HEALTHY_PEAK = 3.0  # σ; the largest of many healthy errors
_BIAS_FROM = 256
# Differences beside the numbers that the policy on strides admits.
_LEFT_TO_THE_BACKEND = {"stated": (), "documented": (STATED,), "any": (STATED, DOCUMENTED)}


@dataclass(frozen=True, slots=True)
class Judgment:
    """A verdict with its explanation, numbers and worst element. ``output`` is the name of the
    output.

    ``leans``: the sign bias of the errors, in standard deviations.
    """

    verdict: Verdict
    explanation: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    worst: Worst | None = None
    output: str = ""
    leans: float = 0.0
    detail: Detail | None = None


def judge(
    comparison: Comparison,
    baseline: Comparison | None,
    rule: Rule,
    policy: Policy,
    *,
    is_reference: bool = False,
) -> Judgment:
    """Judge one comparison. ``baseline`` is the CPU's in the same dtype; ``is_reference``: this
    outcome is its own reference."""
    if comparison.unsteady and comparison.status in ("ok", "fallback"):
        judgment = judge(
            replace(comparison, unsteady=""), baseline, rule, policy, is_reference=is_reference
        )
        return replace(
            judgment,
            verdict=Verdict(VerdictKind.NONDETERMINISTIC),
            explanation=f"{comparison.unsteady}; here: {judgment.explanation}",
        )
    if comparison.status == OutcomeStatus.FALLBACK:
        return _judge_fallback(comparison, baseline, rule, policy)
    if not comparison.ok:
        return _judge_status(comparison, baseline)
    if comparison.structure:
        return Judgment(
            Verdict(VerdictKind.STRUCTURE), comparison.structure, detail=comparison.detail
        )
    judgments = [
        _judge_output(output, _matching_output(output, baseline), rule, policy)
        for output in comparison.outputs
    ]
    if not judgments:
        return Judgment(_INCONCLUSIVE, "the operator returned nothing to compare")
    worst = judgments[0] if len(judgments) == 1 else _most_severe(judgments)
    if _breaks_contract(comparison, worst.verdict, policy):
        return Judgment(
            Verdict(VerdictKind.STRUCTURE),
            comparison.contract,
            worst.metrics,
            output=worst.output,
            detail=comparison.detail,
        )
    if is_reference and worst.verdict.passes:
        text = "the CPU in this dtype is itself the reference: nothing independent to compare with"
        return Judgment(_INCONCLUSIVE, text, worst.metrics)
    return worst


def _breaks_contract(comparison: Comparison, verdict: Verdict, policy: Policy) -> bool:
    """Whether what differs beside the numbers decides: if the numbers do not fail, or fail because
    of it, as gradients do that are cut off, and if the policy does not leave it to the backend."""
    kind = comparison.detail.kind if isinstance(comparison.detail, BrokenContract) else ""
    if not comparison.contract or kind in _LEFT_TO_THE_BACKEND[policy.strides]:
        return False
    return not verdict.fails or kind == "gradient"


def _judge_fallback(
    comparison: Comparison, baseline: Comparison | None, rule: Rule, policy: Policy
) -> Judgment:
    """A fallback to the CPU is not tested, unless its result is wrong."""
    if comparison.outputs or comparison.structure:
        judgment = judge(replace(comparison, status=OutcomeStatus.OK), baseline, rule, policy)
        if judgment.verdict.fails:
            return replace(
                judgment, explanation=f"{judgment.explanation} (it fell back: {comparison.note})"
            )
    return Judgment(Verdict(VerdictKind.FALLBACK), comparison.note or "fallback")


def _most_severe(judgments: list[Judgment]) -> Judgment:
    """The most severe judgment, with the maxima of all metrics."""
    numbers: dict[str, float] = {}
    for judgment in judgments:
        for name, value in judgment.metrics.items():
            numbers[name] = max(numbers.get(name, 0.0), value)
    return replace(max(judgments, key=_severity), metrics=numbers)


_PRECISION_LOSSES = (
    "tf32-inputs",
    "bfloat16-inputs",
    "float16-inputs",
    "bfloat16x3-inputs",
    "float16-accumulator",
    "bfloat16-accumulator",
)


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
            f"{evidence.other} of {evidence.repeats} repeats gave another answer, "
            f"{evidence.within} passed"
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


_SUSPECT_RATIO = (
    1.4  # RMS error ÷ the CPU's; a healthy sum in another order may reach several times this
)
_SUSPECT_LEAN = (
    6.0  # standard deviations of the sign bias; the largest of many healthy results is 4.3
)
_SUSPECT_ULP = 1.0  # beyond the rounding of the result itself
_SUSPECT_FROM = 128  # elements


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
        and (numbers.get("ulp_max", 0.0) > _SUSPECT_ULP or unusual(judgment))
    )


def unusual(judgment: Judgment) -> bool:
    """Whether a result that exceeds the baseline errs much more than the CPU, or with a sign
    bias: then every loss of precision is tried."""
    return (
        judgment.metrics.get("rmse_ratio", 0.0) > _SUSPECT_RATIO or judgment.leans > _SUSPECT_LEAN
    )


# × the RMS error of the CPU: beyond it, formulas are tried for a result within budget
BETTER_ELSEWHERE = 20.0


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


_SAME_IN_FLOAT64 = 0.5  # of the error; rounding would leave 2⁻²⁹ of it


def _severity(judgment: Judgment) -> tuple[int, float]:
    """Failures first (by ρ), then passes; `inconclusive` only if nothing could be judged."""
    rank = {"failed": 3, "warned": 2, "passed": 1, "not tested": 0}[judgment.verdict.group]
    return rank, judgment.metrics.get("rho_max", 0.0)


def _matching_output(output: Measured, baseline: Comparison | None) -> Measured | None:
    if baseline is None or not baseline.ok:
        return None
    return next((other for other in baseline.outputs if other.name == output.name), None)


def _judge_status(comparison: Comparison, baseline: Comparison | None) -> Judgment:
    note = comparison.note
    match comparison.status:
        case "both-raised":
            return Judgment(
                _INCONCLUSIVE,
                f"raises, and so does float64 on the CPU, so nothing could be compared: {note}",
            )
        case "raised":
            return Judgment(
                Verdict(VerdictKind.ERROR), f"raised where the reference did not: {note}"
            )
        case "no-reference":
            if baseline is None or baseline.status in ("ok", "no-reference"):
                return Judgment(
                    Verdict(VerdictKind.INCONCLUSIVE),
                    f"float64 on the CPU gives no reference: {note}",
                )
            return Judgment(
                Verdict(VerdictKind.ERROR),
                f"returned a result where the reference raised: {note}",
                detail=ReferenceRaised(),
            )
    return Judgment(Verdict(comparison.status), note or comparison.status, detail=comparison.detail)


_EXACT, _ROUNDING, _DIVERGENT, _INCONCLUSIVE = (
    Verdict(v) for v in ("exact", "rounding", "divergent", "inconclusive")
)


def _judge_output(
    output: Measured, baseline_output: Measured | None, rule: Rule, policy: Policy
) -> Judgment:
    mismatch = _special_value_mismatch(output, policy)
    if mismatch:
        numbers = {"special_mismatches": float(sum(output.special.values()))}
        return Judgment(
            Verdict(VerdictKind.SPECIAL_VALUES),
            mismatch,
            numbers,
            output.special_worst,
            output.name,
        )
    if not output.element_groups:
        return Judgment(
            _EXACT, "only shape and dtype are defined here, and they agree", {}, None, output.name
        )
    rho, element_group, pareto_point = _max_rho(output, rule, policy)
    groups = output.element_groups
    numbers = {
        "rho_max": rho,
        "ulp_max": element_group.ulp_max if len(groups) == 1 else max(s.ulp_max for s in groups),
        "scaled_max": element_group.scaled_max
        if len(groups) == 1
        else max(s.scaled_max for s in groups),
        "abs_max": element_group.abs_max if len(groups) == 1 else max(s.abs_max for s in groups),
        "differing": float(output.differing),
    }
    if baseline_output is not None:
        numbers["rmse_ratio"] = (
            output.rms / baseline_output.rms
            if baseline_output.rms > 0.0
            else (1.0 if output.rms == 0.0 else _clamp_infinity(math.inf))
        )
    worst = (
        element_group.worst[pareto_point]
        if 0 <= pareto_point < len(element_group.worst)
        else (element_group.worst[0] if element_group.worst else None)
    )
    statistics = (
        ""
        if rho > 1.0
        else _step_statistics(output)
        if output.of_steps is not None
        else _statistics(output, baseline_output, rule)
    )
    if (
        (rho > 1.0 or statistics)
        and policy.reduced_precision
        and _max_rho(output, _with_reduced_inputs(rule), policy)[0] <= 1.0
    ):
        factor = format_factor(rho)
        text = f"{factor} × budget, within what the reduced precision that was asked for explains"
        return Judgment(
            Verdict(VerdictKind.REDUCED_PRECISION, allowed=True), text, numbers, worst, output.name
        )
    if rho > 1.0:
        text = f"{format_factor(rho)} × budget{_location_text(output)}"
        return Judgment(_DIVERGENT, text, numbers, worst, output.name)
    if statistics:
        return Judgment(
            _DIVERGENT,
            f"{format_factor(rho)} × budget, but {statistics}",
            numbers,
            worst,
            output.name,
            detail=BeyondStatistics(statistics),
        )
    if output.vacuous:
        return Judgment(_INCONCLUSIVE, f"cannot tell: {output.vacuous}", numbers, None, output.name)
    if output.differing == 0 or (output.exact and rho <= 1.0):
        return Judgment(
            _EXACT,
            "exact: nothing differs from the correctly rounded result",
            numbers,
            None,
            output.name,
        )
    return Judgment(
        _ROUNDING,
        f"{format_factor(rho)} × budget: rounding",
        numbers,
        worst,
        output.name,
        _sign_bias(output),
    )


def _clamp_infinity(value: float) -> float:
    return min(value, 1e300)


_SPECIAL_VALUE_TEXTS = {
    "nan": "NaN differs", "inf": "an infinity differs", "zero-sign": "the sign of zero differs",
    "nan-dropped": "NaN is left out and the other number returned",
    "flushed": "NaN or an infinity differs, as if subnormal inputs were zero,",
    "largest": "the largest number stands in place of an infinity",
    "saturated": "an integer saturates that would wrap",
    "saturated-float": "a float beyond the integer's range saturates",
}  # fmt: skip


def _special_value_mismatch(output: Measured, policy: Policy) -> str:
    """A description of NaN, infinities, zero signs or saturated integers that the policy does
    not allow."""
    if not output.special:
        return ""
    counts = dict(output.special)
    if policy.signed_zero == "any":
        counts.pop("zero-sign", None)
    if policy.flush_subnormals:
        counts.pop("flushed", None)
    if policy.nan_in_max == "any":
        counts.pop("nan-dropped", None)
    if policy.overflow == "any":
        counts.pop("largest", None)
    if policy.saturating_casts != "never":
        counts.pop("saturated-float", None)
    if policy.saturating_casts == "any":
        counts.pop("saturated", None)
    if not counts:
        return ""
    parts = [
        f"{_SPECIAL_VALUE_TEXTS.get(kind, kind)} in {count} of {output.elements} elements"
        for kind, count in counts.items()
    ]
    return "; ".join(parts)


def _max_rho(output: Measured, rule: Rule, policy: Policy) -> tuple[float, ElementGroup, int]:
    """max ρ over the element groups, with the group and the Pareto point that cause it."""
    best: tuple[float, ElementGroup, int] = (0.0, output.element_groups[0], -1)
    for element_group in output.element_groups:
        rho, pareto_point = _group_rho(
            element_group, output, _rule_for_group(rule, element_group, output), policy
        )
        if rho > best[0]:
            best = (rho, element_group, pareto_point)
    return best


def _with_reduced_inputs(rule: Rule) -> Rule:
    """The rule plus 2·2⁻¹¹·S, the effect of inputs of 11 significand bits (TF32, float16): 2¹⁴
    times u of float32."""
    return replace(rule, lam=rule.lam + 2.0**14)


def _rule_for_group(rule: Rule, element_group: ElementGroup, output: Measured) -> Rule | None:
    """The rule for a group: the numbers of its range if it has one; None if any result is allowed.

    Ranges that the operator does not declare, and the comparison thus does not separate, change
    nothing.
    """
    if not rule.ranges:
        return rule
    known_ranges = {other.range for other in output.element_groups}
    for item in rule.ranges:
        if (item.argument, item.low, item.high) not in known_ranges:
            continue
        if element_group.range == (item.argument, item.low, item.high):
            absolute = item.absolute if item.c is None and item.lam is None else None
            c, lam = (
                rule.c if item.c is None else item.c,
                rule.lam if item.lam is None else item.lam,
            )
            return replace(rule, c=c, lam=lam, absolute=absolute)
        if element_group.range is None and item.unspecified:
            return None
    return rule


def _group_rho(
    element_group: ElementGroup, output: Measured, rule: Rule | None, policy: Policy
) -> tuple[float, int]:
    if rule is None:
        return 0.0, -1
    c = 0.5 if output.exact else max(rule.c, 0.5)  # half an ulp: correct rounding
    lam = 0.0 if output.exact else rule.lam
    # budget/e = c·ulp/e + λ·G·u·S/e ≥ c/max(e/ulp) + λ/max(e/(G·u·S)) for each element.
    rho, pareto_point = element_group.ulp_max / c, -1
    if lam > 0.0 and element_group.scaled_max > 0.0 and rho > 0.0:
        inverse = 1.0 / rho + lam / element_group.scaled_max
        rho = 1.0 / inverse if inverse > 0.0 else math.inf  # an error of infinitely many ulp
    pareto_points = element_group.pareto_front
    if policy.flush_subnormals and element_group.flushed is not None:
        pareto_points = element_group.flushed
        rho = rho if pareto_points else 0.0
    if pareto_points:
        rho, pareto_point = metrics.rho(pareto_points, c, lam)
        pareto_point = pareto_point if pareto_points is element_group.pareto_front else -1
    if rule.absolute is not None and element_group.abs_max > 0.0:
        rho = min(rho, element_group.abs_max / rule.absolute)
    return _clamp_infinity(rho), pareto_point


# × σ of the roundings of its own steps: how far a function may be from its reference in float64
# (short constants, polynomials). In float32 this is as small as other rounding.
_ANOTHER_FORMULA = {"float16": 0.0625, "bfloat16": 0.0625}


def _step_statistics(output: Measured) -> str:
    """The problem of an output judged by its own steps although every element is within budget;
    empty if none."""
    float64_deviation, usual_rms = output.of_steps or (0.0, 0.0)
    if float64_deviation > _ANOTHER_FORMULA.get(output.dtype, 1.0):
        return (
            f"where nothing is rounded, in float64, it is off from its reference by "
            f"{format_factor(float64_deviation)} times what its roundings explain"
        )
    if output.sigma_rms > usual_rms:
        return (
            f"its RMS error is {output.sigma_rms:.1f} times what the roundings of its own "
            f"steps explain{_location_text(output)}"
        )
    return ""


def _statistics(output: Measured, baseline_output: Measured | None, rule: Rule) -> str:
    """The problem in the error distribution although every element is within budget; empty if
    none."""
    count = output.elements
    if not output.independent or output.sigma_rms == 0.0 or output.exact:
        return ""
    scatter = metrics.scatter(count)
    usual_rms = max(baseline_output.sigma_rms if baseline_output is not None else 0.0, 1.0)
    if output.sigma_rms > rule.rmse_ratio * scatter * usual_rms:
        return (
            f"its RMS error is {output.sigma_rms / usual_rms:.1f} times what rounding "
            f"explains{_location_text(output)}"
        )
    peak = max(baseline_output.sigma_max if baseline_output is not None else 0.0, _HEALTHY_PEAK)
    if output.sigma_max > rule.scaled_ratio * peak:
        return (
            f"its largest error is {output.sigma_max / peak:.1f} times what rounding "
            f"explains{_location_text(output)}"
        )
    if output.cluster is not None:
        rms, members, location = output.cluster
        # Elements of a row share an operand and therefore part of their errors.
        if rms > 2.0 * rule.rmse_ratio * metrics.scatter(members) * usual_rms:
            return (
                f"its errors cluster {location}: their RMS is {rms / usual_rms:.1f} times what "
                f"rounding explains"
            )
    bias = _sign_bias(output)
    if (
        count >= _BIAS_FROM
        and output.sigma_rms > 1.0
        and bias > rule.sign_bias
        and (baseline_output is None or _sign_bias(baseline_output) < rule.sign_bias / 2)
    ):
        return (
            f"its errors lean to one side by {bias:.0f} standard deviations: truncation "
            f"rather than rounding"
        )
    return ""


def _sign_bias(output: Measured) -> float:
    signed = output.positive + output.negative
    if signed < _BIAS_FROM:
        return 0.0
    inward = signed - output.outward
    return max(abs(output.positive - output.negative), abs(output.outward - inward)) / math.sqrt(
        signed
    )


def _location_text(output: Measured) -> str:
    return f", {output.pattern}" if output.pattern else ""
