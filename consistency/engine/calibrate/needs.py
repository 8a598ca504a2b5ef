"""The pairs of c (ulp) and λ (a factor) for which a set of healthy results passes.

An element passes if c·a + λ·b ≥ 1 with a = ulp/e and b = G·u·S/e, so each point of a comparison's
Pareto fronts is a line that (c, λ) must lie above. Where two maxima decided there are no points;
then (1/max e/ulp, 1/max e/(G·u·S)) bounds all of them, and the judge uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...core.model import Comparison, ElementGroup, Measured
from ...judge.rule_values import Policy, Rule

LEAST_C = 0.5  # ulp: correct rounding; no rule is stricter
_MANY = 256  # points that are collected before dominated ones are dropped
_UP = 1.0 + 2.0**-40  # compensates for quotients that were rounded down

ParetoPoint = tuple[float, float]


@dataclass(slots=True)
class Demands:
    """What a set of results demands, as Pareto points (a, b)."""

    pareto_points: list[ParetoPoint] = field(default_factory=list)

    def add(self, other: Demands) -> None:
        self.pareto_points += other.pareto_points
        if len(self.pareto_points) > _MANY:
            self.pareto_points = list(_pareto_front(self.pareto_points))

    def c(self, lam: float) -> float:
        """The smallest c (ulp, at least 0.5) at which all pass with this λ; infinity if there is
        none."""
        need = LEAST_C
        for a, b in self.pareto_points:
            if lam * b < 1.0:
                need = max(need, (1.0 - lam * b) / a * _UP if a > 0.0 else math.inf)
        return need

    def lam(self, c: float) -> float:
        """The smallest λ at which all pass with this c; infinity where S is 0 and c too small."""
        c, need = max(c, LEAST_C), 0.0
        for a, b in self.pareto_points:
            if c * a < 1.0:
                need = max(need, (1.0 - c * a) / b * _UP if b > 0.0 else math.inf)
        return need

    def met(self, c: float, lam: float) -> bool:
        """Whether all would pass with this c and λ."""
        c = max(c, LEAST_C)
        return all(c * a + lam * b >= 1.0 for a, b in self.pareto_points)

    def factor(self, c: float, lam: float) -> float:
        """The factor by which c and λ could both be multiplied: 0.5 if half of both suffices (c is
        never below 0.5 ulp), 0 where all results are correctly rounded, infinity if no factor
        helps."""
        c = max(c, LEAST_C)
        return max((_rho_of_point(a, b, c, lam) for a, b in self.pareto_points), default=0.0)

    def __bool__(self) -> bool:
        return bool(self.pareto_points)


def _rho_of_point(a: float, b: float, c: float, lam: float) -> float:
    budget = c * a + lam * b
    factor = 1.0 / budget if budget > 0.0 else math.inf
    if factor * c >= LEAST_C:
        return factor
    remainder = 1.0 - LEAST_C * a  # what λ must cover when c is minimal
    return 0.0 if remainder <= 0.0 else remainder / (lam * b) if lam * b > 0.0 else LEAST_C / c


def _pareto_front(points: Iterable[ParetoPoint]) -> Iterator[ParetoPoint]:
    """The points that no other point undercuts in both coordinates."""
    min_y = math.inf
    for x, y in sorted(points):
        if y < min_y:
            min_y = y
            yield x, y


def demands(comparison: Comparison, rule: Rule, policy: Policy) -> Demands:
    """What one result demands of the rule's own c and λ; ranges with their own numbers and exact
    outputs are left out."""
    result = Demands()
    for output in comparison.outputs:
        for element_group in () if output.exact or output.special else output.element_groups:
            if _is_judged_by_the_rule_itself(element_group, output, rule):
                _add(result, element_group, rule, policy)
    return result


def _add(demands: Demands, element_group: ElementGroup, rule: Rule, policy: Policy) -> None:
    pareto_points = element_group.pareto_front
    if policy.flush_subnormals and element_group.flushed is not None:
        pareto_points = element_group.flushed
        if not pareto_points:
            return
    if rule.absolute is not None and element_group.abs_max <= rule.absolute:
        return
    if pareto_points:
        demands.pareto_points += pareto_points
    elif element_group.ulp_max > 0.0:
        demands.pareto_points.append(
            (
                1.0 / element_group.ulp_max,
                1.0 / element_group.scaled_max if element_group.scaled_max > 0.0 else 0.0,
            )
        )


def _is_judged_by_the_rule_itself(
    element_group: ElementGroup, output: Measured, rule: Rule
) -> bool:
    known_ranges = {other.range for other in output.element_groups}
    for item in rule.ranges:
        interval = (item.argument, item.low, item.high)
        if interval in known_ranges and (
            element_group.range == interval or (element_group.range is None and item.unspecified)
        ):
            return False
    return True
