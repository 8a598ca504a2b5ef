"""The first judgments of one case on all backends, against a reference that accusations refine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..backends.base import Backend
from ..core.model import Case, Comparison, Outcome
from ..generate.materialize import Materials
from ..judge.compare import compare
from ..judge.evidence import ROUNDS, settled
from ..judge.evidence import needs_proof as evidence_is_needed
from ..judge.judgment import Judgment
from ..judge.known import asks_for_cpu
from ..judge.rules import Rules
from ..operators.declare import Operator
from ..reference import Reference
from .backend_rules import judgment
from .known_results import AS_CPU, is_known
from .output_differences import as_reference
from .rounded_numbers import RoundedNumbers


@dataclass
class CaseJudgment:
    """Judgment of one case on all backends: failures are checked against exact values, which may
    refine the reference; then everything is judged again."""

    case: Case
    operator: Operator
    materials: Materials
    direction: str
    backends: Sequence[Backend]
    outcomes: Sequence[Outcome]
    baseline: Outcome
    reference: Reference
    rules: Rules
    baseline_comparison: Comparison | None = None

    def settle(self) -> list[tuple[Comparison, Judgment]]:
        rows = self._judge_backends()
        for count in ROUNDS:
            changed = False
            for backend, outcome, (_, judged) in zip(
                self.backends, self.outcomes, rows, strict=True
            ):
                if evidence_is_needed(judged, self.reference) and not is_known(
                    self.case, backend, self.direction, judged, self.rules
                ):
                    changed |= settled(self.reference, outcome, judged, count)
            if not changed:
                break
            rows = self._judge_backends()
        return rows

    def accuses(self, rows: Sequence[tuple[Comparison, Judgment]]) -> bool:
        """Whether somebody is about to be accused by numbers of the reference."""
        return any(
            evidence_is_needed(judged, self.reference)
            and not is_known(self.case, backend, self.direction, judged, self.rules)
            for backend, (_, judged) in zip(self.backends, rows, strict=True)
        )

    def _judge_backends(self) -> list[tuple[Comparison, Judgment]]:
        """The judgments beside the reference; of what fails, beside the nearest of those results
        that are admissible because numbers are converted."""
        known = self.baseline_comparison = compare(self.baseline, self.reference)
        rows = [
            self._judge(backend, outcome, self.reference, known)
            for backend, outcome in zip(self.backends, self.outcomes, strict=True)
        ]
        failing = [number for number, (_, judged) in enumerate(rows) if judged.verdict.fails]
        if failing and (nearest := self._converted.nearest(self.baseline)) is not None:
            self.baseline_comparison = compare(self.baseline, nearest)
        for number in failing:
            nearest = self._converted.nearest(self.outcomes[number])
            if nearest is not None:
                again = self._judge(self.backends[number], self.outcomes[number], nearest)
                if not again[1].verdict.fails:
                    rows[number] = again
        return rows

    @functools.cached_property
    def _converted(self) -> RoundedNumbers:
        """What proofs change of the reference does not change what numbers are converted to."""
        return RoundedNumbers(self.reference)

    def _judge(
        self,
        backend: Backend,
        outcome: Outcome,
        reference: Reference,
        known: Comparison | None = None,
    ) -> tuple[Comparison, Judgment]:
        assert self.baseline_comparison is not None
        comparison = (
            self.baseline_comparison
            if outcome is self.baseline
            else compare(outcome, reference, self.baseline, known)
        )
        judged = judgment(
            self.operator, backend, self.direction, self.baseline_comparison, reference, self.rules,
            comparison,
        )  # fmt: skip
        if judged.verdict.fails and asks_for_cpu(self.rules.expectations, self.operator.name):
            as_cpu = self._is_as_cpu(backend, outcome)
            judged = replace(judged, metrics={**judged.metrics, AS_CPU: float(as_cpu)})
        return comparison, judged

    def _is_as_cpu(self, backend: Backend, outcome: Outcome) -> bool:
        """Whether a result is, within its budget, that of torch's CPU in the same dtype."""
        if outcome is self.baseline or not outcome.ok or not self.baseline.ok:
            return outcome is self.baseline
        cpu = as_reference(self.reference, self.baseline)
        judged = judgment(
            self.operator, backend, self.direction, None, cpu, self.rules, compare(outcome, cpu)
        )
        return not judged.verdict.fails
