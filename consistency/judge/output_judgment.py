"""The judgment of one output, by its special values, its budget and its statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ..core.detail import BeyondStatistics
from ..core.model import ElementGroup, Measured
from ..core.text import format_factor
from ..core.verdict import Verdict, VerdictKind
from .budget import clamp_infinity, max_rho, with_reduced_inputs
from .error_statistics import distribution_problem, location_text, sign_bias, step_problem
from .judgment import Judgment
from .rule_values import Policy, Rule

_EXACT, _ROUNDING, _DIVERGENT, _INCONCLUSIVE = (
    Verdict(v) for v in ("exact", "rounding", "divergent", "inconclusive")
)

# Metrics: the output is within budget only because subnormals may be zero on this backend; beside
# special values that differ, the largest error of the other numbers, × budget, where above 1.
FLUSHED, BESIDE = "flushed", "rho_beside"


def excusable(metrics: Mapping[str, float]) -> float:
    """× budget of the numbers, which an expectation may limit; of those beside special values that
    differ, too: with ``max_rho: 1`` it excuses no number."""
    return metrics.get("rho_max", metrics.get(BESIDE, 0.0))


def judge_output(
    output: Measured, baseline_output: Measured | None, rule: Rule, policy: Policy
) -> Judgment:
    """Judge one output. ``baseline_output`` is the CPU's in the same dtype."""
    mismatch = _special_value_mismatch(output, policy)
    if mismatch:
        numbers = {"special_mismatches": float(sum(output.special.values()))}
        if output.element_groups and "float" in output.dtype:
            beside = max_rho(output, rule, policy)[0]
            if beside > 1.0:
                numbers[BESIDE] = beside
                mismatch += f"; other numbers are off by {format_factor(beside)} × budget"
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
    rho, element_group, pareto_point = max_rho(output, rule, policy)
    flushed = _is_flushed(output, rule, policy)
    numbers = _numbers(output, None if flushed else baseline_output, rho, element_group)
    if flushed:
        numbers[FLUSHED] = 1.0
    worst = (
        element_group.worst[pareto_point]
        if 0 <= pareto_point < len(element_group.worst)
        else (element_group.worst[0] if element_group.worst else None)
    )
    statistics = (
        ""
        if rho > 1.0 or flushed
        else step_problem(output)
        if output.of_steps is not None
        else distribution_problem(output, baseline_output, rule)
    )
    if (
        (rho > 1.0 or statistics)
        and policy.reduced_precision
        and max_rho(output, with_reduced_inputs(rule), policy)[0] <= 1.0
    ):
        factor = format_factor(rho)
        text = f"{factor} × budget, within what the reduced precision that was asked for explains"
        return Judgment(
            Verdict(VerdictKind.REDUCED_PRECISION, allowed=True), text, numbers, worst, output.name
        )
    if rho > 1.0:
        text = f"{format_factor(rho)} × budget{location_text(output)}"
        return Judgment(_DIVERGENT, text, numbers, worst, output.name, at_end=output.at_end)
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
        sign_bias(output),
    )


def _is_flushed(output: Measured, rule: Rule, policy: Policy) -> bool:
    """Whether the output is within budget only because subnormals may be zero: what was flushed
    counts as an error in its statistics, which prove nothing then."""
    if not policy.flush_subnormals:
        return False
    return max_rho(output, rule, replace(policy, flush_subnormals=False))[0] > 1.0


def _numbers(
    output: Measured, baseline_output: Measured | None, rho: float, element_group: ElementGroup
) -> dict[str, float]:
    """The metrics of an output whose worst group is ``element_group``, by name."""
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
            else (1.0 if output.rms == 0.0 else clamp_infinity(math.inf))
        )
    return numbers


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
        f"{_SPECIAL_VALUE_TEXTS.get(kind, kind)} "
        + (
            f"in {count} of {output.elements} elements"
            if output.elements > 1
            else "in its only element"
        )
        for kind, count in counts.items()
    ]
    return "; ".join(parts)
