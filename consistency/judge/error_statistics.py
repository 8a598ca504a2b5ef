"""The distribution of errors that are all within budget: too large for rounding, in clusters, or of
one sign."""

from __future__ import annotations

import math

from ..core.model import Measured
from ..core.text import format_factor
from .metrics import scatter
from .rule_values import Rule

_HEALTHY_PEAK = 3.0  # σ; the largest of many healthy errors
_BIAS_FROM = 256  # signed errors
# × σ of the roundings of its own steps: how far a function may be from its reference in float64
# (short constants, polynomials). In float32 this is as small as other rounding.
_ANOTHER_FORMULA = {"float16": 0.0625, "bfloat16": 0.0625}


def step_problem(output: Measured) -> str:
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
            f"steps explain{location_text(output)}"
        )
    return ""


def distribution_problem(output: Measured, baseline_output: Measured | None, rule: Rule) -> str:
    """The problem in the error distribution although every element is within budget; empty if
    none."""
    count = output.elements
    if not output.independent or output.sigma_rms == 0.0 or output.exact:
        return ""
    allowed = rule.rmse_ratio * scatter(count)
    usual_rms = max(baseline_output.sigma_rms if baseline_output is not None else 0.0, 1.0)
    if output.sigma_rms > allowed * usual_rms:
        return (
            f"its RMS error is {output.sigma_rms / usual_rms:.1f} times what rounding "
            f"explains{location_text(output)}"
        )
    peak = max(baseline_output.sigma_max if baseline_output is not None else 0.0, _HEALTHY_PEAK)
    if output.sigma_max > rule.scaled_ratio * peak:
        return (
            f"its largest error is {output.sigma_max / peak:.1f} times what rounding "
            f"explains{location_text(output)}"
        )
    if output.cluster is not None:
        rms, members, location = output.cluster
        # Elements of a row share an operand and therefore part of their errors.
        if rms > 2.0 * rule.rmse_ratio * scatter(members) * usual_rms:
            return (
                f"its errors cluster {location}: their RMS is {rms / usual_rms:.1f} times what "
                f"rounding explains"
            )
    bias = sign_bias(output)
    if (
        count >= _BIAS_FROM
        and output.sigma_rms > 1.0
        and bias > rule.sign_bias
        and (baseline_output is None or sign_bias(baseline_output) < rule.sign_bias / 2)
    ):
        return (
            f"its errors lean to one side by {bias:.0f} standard deviations: truncation "
            f"rather than rounding"
        )
    return ""


def sign_bias(output: Measured) -> float:
    """How far the errors lean to one side, in standard deviations; 0 for few of them."""
    signed = output.positive + output.negative
    if signed < _BIAS_FROM:
        return 0.0
    inward = signed - output.outward
    return max(abs(output.positive - output.negative), abs(output.outward - inward)) / math.sqrt(
        signed
    )


def location_text(output: Measured) -> str:
    """Where the errors are, as the rest of a sentence; empty if nowhere in particular."""
    return f", {output.pattern}" if output.pattern else ""
