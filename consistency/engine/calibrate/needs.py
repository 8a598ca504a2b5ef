"""What healthy results demand of c (ulp) and λ (a factor): the pairs for which every one of them
would pass.

An element passes if c·a + λ·b ≥ 1 with a = ulp/e and b = G·u·S/e, so the corners of a comparison's
hulls are straight lines that (c, λ) must lie above. Where two maxima settled the matter there are
no corners; then (1/max e/ulp, 1/max e/(G·u·S)) bounds all of them and is the corner that the judge
goes by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...core.model import Comparison, ElementGroup, Measured
from ...judge.tolerances import Policy, Rule

LEAST_C = 0.5  # ulp; correct rounding, below which the judge goes with no rule
_MANY = 256  # demands that are kept before the needless ones are dropped
_UP = 1.0 + 2.0**-40  # so that a quotient that was rounded down still suffices

ParetoPoint = tuple[float, float]


@dataclass(slots=True)
class Demands:
    """What a set of results demands together, as corners (a, b)."""

    pareto_points: list[ParetoPoint] = field(default_factory=list)

    def add(self, other: Demands) -> None:
        self.pareto_points += other.pareto_points
        if len(self.pareto_points) > _MANY:
            self.pareto_points = list(_front(self.pareto_points))

    def c(self, lam: float) -> float:
        """The smallest c (ulp, at least 0.5) that passes everything at this λ; infinity where no c
        does."""
        need = LEAST_C
        for a, b in self.pareto_points:
            if lam * b < 1.0:
                need = max(need, (1.0 - lam * b) / a * _UP if a > 0.0 else math.inf)
        return need

    def lam(self, c: float) -> float:
        """The smallest λ that passes everything at this c; infinity where there is no S to make up
        for it."""
        c, need = max(c, LEAST_C), 0.0
        for a, b in self.pareto_points:
            if c * a < 1.0:
                need = max(need, (1.0 - c * a) / b * _UP if b > 0.0 else math.inf)
        return need

    def met(self, c: float, lam: float) -> bool:
        """Whether everything would pass with these two numbers."""
        c = max(c, LEAST_C)
        return all(c * a + lam * b >= 1.0 for a, b in self.pareto_points)

    def factor(self, c: float, lam: float) -> float:
        """What c and λ could be multiplied by together: 0.5 where half of both would do (c never
        falls below 0.5 ulp).

        0 where everything is correctly rounded, above 1 where more is needed than (c, λ), infinity
        where no factor helps.
        """
        c = max(c, LEAST_C)
        return max((_rho_of_point(a, b, c, lam) for a, b in self.pareto_points), default=0.0)

    def __bool__(self) -> bool:
        return bool(self.pareto_points)


def _rho_of_point(a: float, b: float, c: float, lam: float) -> float:
    budget = c * a + lam * b
    factor = 1.0 / budget if budget > 0.0 else math.inf
    if factor * c >= LEAST_C:
        return factor
    remainder = 1.0 - LEAST_C * a  # what λ has to make up for once c stands at its least
    return 0.0 if remainder <= 0.0 else remainder / (lam * b) if lam * b > 0.0 else LEAST_C / c


def _front(points: Iterable[ParetoPoint]) -> Iterator[ParetoPoint]:
    """The points that no other one undercuts in both coordinates; the others demand nothing
    more."""
    min_y = math.inf
    for x, y in sorted(points):
        if y < min_y:
            min_y = y
            yield x, y


def demands(comparison: Comparison, rule: Rule, policy: Policy) -> Demands:
    """What one result demands of the rule's own c and λ: not of ranges with numbers of their own,
    nor of exact outputs."""
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
