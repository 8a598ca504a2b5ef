"""The size of the errors of one output beside what a rule admits: ρ, × budget."""

from __future__ import annotations

import math
from dataclasses import replace

from ..core.model import ElementGroup, Measured
from . import pareto
from .rule_values import Policy, Rule


def max_rho(output: Measured, rule: Rule, policy: Policy) -> tuple[float, ElementGroup, int]:
    """max ρ over the element groups, with the group and the Pareto point that cause it."""
    best: tuple[float, ElementGroup, int] = (0.0, output.element_groups[0], -1)
    for element_group in output.element_groups:
        rho, pareto_point = _group_rho(
            element_group, output, _rule_for_group(rule, element_group, output), policy
        )
        if rho > best[0]:
            best = (rho, element_group, pareto_point)
    return best


def with_reduced_inputs(rule: Rule) -> Rule:
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
        rho = 1.0 / inverse if inverse > 0.0 else math.inf  # both may be beyond the format
    pareto_points = element_group.pareto_front
    if policy.flush_subnormals and element_group.flushed is not None:
        pareto_points = element_group.flushed
        rho = rho if pareto_points else 0.0
    if pareto_points:
        rho, pareto_point = pareto.rho(pareto_points, c, lam)
        pareto_point = pareto_point if pareto_points is element_group.pareto_front else -1
    if rule.absolute is not None and element_group.abs_max > 0.0:
        rho = min(rho, element_group.abs_max / rule.absolute)
    return clamp_infinity(rho), pareto_point


def clamp_infinity(value: float) -> float:
    """The number, or one that JSON can hold."""
    return min(value, 1e300)
