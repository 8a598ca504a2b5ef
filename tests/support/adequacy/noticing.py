"""Whether the judge notices a fault that is planted into the results of one case: comparison and
rules as in a run, without diagnosis."""

from __future__ import annotations

import functools
import sys

import consistency
from consistency.backends.base import attempt
from consistency.backends.cpu import Cpu
from consistency.core.model import Case, Comparison, Outcome
from consistency.core.verdict import OutcomeStatus
from consistency.diagnose.backend_rules import judgment
from consistency.diagnose.evaluation import differentiates
from consistency.errors import ConsistencyError
from consistency.generate.materialize import Materials, prepare
from consistency.judge import tolerances
from consistency.judge.compare import compare
from consistency.judge.evidence import ROUNDS, needs_proof, proof, settled
from consistency.judge.judgment import Judgment
from consistency.operators.declare import Operator
from consistency.reference import Reference, quiet
from consistency.reference.high_precision import refine

from .model import Healthy

_CPU = Cpu()


class Planted(consistency.Backend):
    """Who returns the faulty results: nothing is forgiven on its account."""

    name = "planted"


_PLANTED = Planted()


@functools.cache
def _rules() -> tolerances.Tolerances:
    return tolerances.load()


def directions_of(operator: Operator, dtype: str) -> tuple[str, ...]:
    return ("forward", "backward") if differentiates(operator, dtype) else ("forward",)


def healthy(operator: Operator, case: Case) -> list[Healthy]:
    """The case on torch's CPU in every direction that torch offers; none where it does not
    return."""
    try:
        materials = prepare(case)
        found = [run(operator, materials, d) for d in directions_of(operator, case.dtype)]
    except (ConsistencyError, RuntimeError):
        return []
    offered = [item for item in found if item.outcome.status is not OutcomeStatus.UNSUPPORTED]
    return offered if all(item.outcome.ok for item in offered) else []


def run(operator: Operator, materials: Materials, direction: str) -> Healthy:
    with quiet():
        outcome = attempt(_CPU, operator, materials, direction)
    return Healthy(operator, materials, direction, outcome)


class CaseJudge:
    """Judges outcomes of one case in one direction; the reference is computed once."""

    def __init__(self, item: Healthy) -> None:
        self._item = item
        with quiet():
            self._reference = Reference(item.operator, item.materials, item.direction)
            refine(self._reference, "spot")
            self._baseline = compare(item.outcome, self._reference)
        verdict = self._judged(item.outcome).verdict
        self.passes, self.fails = verdict.passes, verdict.fails

    def notices(self, faulty: Outcome) -> bool:
        """Whether the faulty outcome gets a failing verdict, proved where that needs a proof. A
        judge that raises would call it inconclusive: the fault is not noticed, and that is told."""
        try:
            return self._notices(faulty)
        except Exception as error:
            case = self._item.case
            print(f"  judging failed: {case.line[:300]}: {error!r:.200}", file=sys.stderr)
            return False

    def _notices(self, faulty: Outcome) -> bool:
        judged = self._judged(faulty)
        if not judged.verdict.fails:
            return False
        if not needs_proof(judged, self._reference):
            return True
        with quiet():
            if settled(self._reference, faulty, judged, ROUNDS[0]):
                self._baseline = compare(self._item.outcome, self._reference)
                judged = self._judged(faulty)
            found = proof(self._reference, faulty, judged)
        return judged.verdict.fails and found is not None

    def _judged(self, outcome: Outcome) -> Judgment:
        with quiet():
            comparison = self._compared(outcome)
            return judgment(
                self._item.operator,
                _PLANTED,
                self._item.direction,
                self._baseline,
                self._reference,
                _rules(),
                comparison,
            )

    def _compared(self, outcome: Outcome) -> Comparison:
        return compare(outcome, self._reference, self._item.outcome)
