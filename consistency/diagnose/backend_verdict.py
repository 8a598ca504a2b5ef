"""What becomes of one backend's first judgment: proof of what accuses it, its contradictions, the
diagnosis of what fails."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from ..backends.base import Backend
from ..backends.cpu import Cpu
from ..core.detail import ReferenceWrong
from ..core.model import Cause, Comparison, Evidence, Outcome, Proof
from ..core.verdict import VerdictKind
from ..judge.evidence import inconclusive
from ..judge.evidence import needs_proof as evidence_is_needed
from ..judge.evidence import proof as evidence_of_numbers
from ..judge.evidence import words as evidence_in_words
from ..judge.judgment import Judgment
from ..judge.reconsideration import exceeds_baseline, far_from_the_cpu, reconsider, with_cause
from ..judge.rule_values import Policy
from ..judge.rules import Rules
from ..reference import Reference
from ..reference.high_precision import ITSELF_OFF
from .backend_rules import judgment, policy_of
from .case_judgment import CaseJudgment
from .diagnosis_budget import DiagnosisBudget
from .experiments import FlaggedResult
from .known_results import is_known
from .two_answers import TwoAnswers
from .within_budget import diagnose_formula, diagnose_precision_loss


@dataclass
class BackendVerdict:
    """The verdict on one backend in one case. ``doubt``: two answers of the reference to the same
    numbers."""

    case_judgment: CaseJudgment
    backend: Backend
    outcome: Outcome
    comparison: Comparison
    judged: Judgment
    doubt: TwoAnswers | None
    evidence: Evidence | None = None
    proof: Proof | None = None
    known: bool = False
    contradicts: bool = False  # itself

    def settle(self, diagnosis_budget: DiagnosisBudget | None) -> None:
        """Prove, diagnose and explain; without a ``diagnosis_budget`` nothing is diagnosed."""
        of = self.case_judgment
        self.known = self.judged.verdict.fails and is_known(
            of.case, self.backend, of.direction, self.judged, of.rules
        )
        self._look_for_evidence()
        if not self._decide_by_evidence():
            self._diagnose(diagnosis_budget)
        self._try_formulas()
        self._prove_what_diagnosis_changed()
        self._explain()

    def _look_for_evidence(self) -> None:
        """A proof of the numbers that accuse, or two answers of the backend itself."""
        of, doubt = self.case_judgment, self.doubt
        if evidence_is_needed(self.judged, of.reference) and not self.known:
            self.proof = evidence_of_numbers(of.reference, self.outcome, self.judged)
        self.contradicts = (
            doubt is not None
            and not self.known
            and (doubt.matters or self.proof is None)
            and _contradicts_itself(
                doubt, self.judged, self.backend, self.outcome, of.reference, of.rules
            )
        )

    def _decide_by_evidence(self) -> bool:
        """Whether the evidence decides, so that no diagnosis is needed: nothing proves a failure,
        the CPU is judged as the reference, or the backend contradicts itself."""
        reference, doubt = self.case_judgment.reference, self.doubt
        proved = self.proof is not None or self.contradicts
        if not proved and not self.known and _needs_proof(self.judged, reference, doubt):
            words = doubt.words if doubt else ""
            self.judged = inconclusive(reference, self.judged, self.backend.name, words)
        elif self._is_reference:
            self.judged = _describe_reference_judgment(self.judged, reference)
        elif self.contradicts and doubt is not None:
            # Formulas in float64 would explain it by the fault that float64 shares.
            self.evidence = Evidence(self.judged.verdict.value, cause=doubt.cause)
            self.judged = doubt.blamed(self.judged)
        else:
            return False
        return True

    @property
    def _is_reference(self) -> bool:
        """Whether this is float64 on the CPU, judged by values that are proved or independent."""
        of = self.case_judgment
        return (
            isinstance(self.backend, Cpu)
            and not self.backend.switched
            and of.case.dtype in ("float64", "complex128")
            and (
                self.proof is not None
                or (of.reference.verified is not None and not self.contradicts)
            )
        )

    def _diagnose(self, diagnosis_budget: DiagnosisBudget | None) -> None:
        """The cause of a failure, or of errors within budget that the CPU does not have."""
        of = self.case_judgment
        policy = policy_of(of.operator, self.backend, of.case.dtype, of.rules)
        if diagnosis_budget is not None and self.judged.verdict.fails and not self.known:
            self.evidence = diagnosis_budget.diagnose(self._flagged())
            self.judged = reconsider(self.judged, self.evidence, policy)
        elif self.outcome is not of.baseline and exceeds_baseline(self.judged):
            cause = diagnose_precision_loss(of.operator, of.reference, self.outcome, self.judged)
            self._accuse(cause, policy)

    def _accuse(self, cause: Cause | None, policy: Policy) -> None:
        """Let a cause that explains errors within budget make them a failure, which votes for
        it."""
        self.judged = with_cause(self.judged, cause, policy)
        if cause is not None and self.judged.verdict.fails:
            self.evidence = Evidence(self.judged.verdict.value, cause=cause)

    def _flagged(self) -> FlaggedResult:
        of = self.case_judgment
        judge_comparison = functools.partial(
            judgment,
            of.operator,
            self.backend,
            of.direction,
            of.baseline_comparison,
            of.reference,
            of.rules,
        )
        outcomes = {b.name: o for b, o in zip(of.backends, of.outcomes, strict=True)}
        return FlaggedResult(
            of.operator, of.materials, of.direction, self.backend, self.outcome, of.reference,
            of.baseline, self.judged, judge_comparison, outcomes,
        )  # fmt: skip

    def _try_formulas(self) -> None:
        of = self.case_judgment
        if self.outcome is not of.baseline and far_from_the_cpu(self.judged):
            policy = policy_of(of.operator, self.backend, of.case.dtype, of.rules)
            cause = diagnose_formula(of.reference, self.outcome, self.judged)
            self._accuse(cause, policy)

    def _prove_what_diagnosis_changed(self) -> None:
        """A result within budget that its diagnosis accuses needs a proof as well."""
        reference = self.case_judgment.reference
        if self.proof is not None or self.contradicts or self.known:
            return
        if evidence_is_needed(self.judged, reference):
            self.proof = evidence_of_numbers(reference, self.outcome, self.judged)
            if self.proof is None:
                self.judged = inconclusive(reference, self.judged, self.backend.name)

    def _explain(self) -> None:
        words = []
        if self.judged.verdict.fails:
            if self.proof is not None:
                words.append(evidence_in_words(self.proof))
            if self.doubt is not None and (self.doubt.matters or self.contradicts):
                words.append(self.doubt.words)
        if words:
            text = "; ".join([self.judged.explanation, *words])
            self.judged = replace(self.judged, explanation=text)


def _needs_proof(judged: Judgment, reference: Reference, doubt: TwoAnswers | None) -> bool:
    """Whether a failure relies on a reference that may be wrong: on its numbers, or on its shapes
    where it gives two answers."""
    if doubt is not None and judged.verdict.kind is VerdictKind.STRUCTURE:
        return judged.detail is None
    return evidence_is_needed(judged, reference)


def _contradicts_itself(
    doubt: TwoAnswers, judged: Judgment, backend: Backend, outcome: Outcome, reference: Reference,
    rules: Rules,
) -> bool:  # fmt: skip
    """Whether a failing backend gives two answers for the same numbers, which proves it wrong."""
    return (
        _needs_proof(judged, reference, doubt)
        and not backend.is_recorded
        and doubt.given_by(backend, outcome, reference, rules)
    )


def _describe_reference_judgment(judged: Judgment, reference: Reference) -> Judgment:
    """The explanation for float64 on the CPU where certified values judge it: a diagnosis would
    compare it with itself."""
    worst = judged.worst
    if judged.verdict.fails and worst is not None:
        size = abs(worst.expected)
        error = (
            f"{abs(worst.actual - worst.expected) / size:.1e} relative"
            if 0.0 < size < float("inf")
            else "wrong"
        )
        inputs = (
            _input_values_at(reference, worst.index) if judged.output.startswith("out/") else ""
        )
        where = f"x = {inputs}" if inputs else f"{list(worst.index)}"
        text = f"{ITSELF_OFF}: {error} at {where}: {reference.operator.name}; {judged.explanation}"
        return replace(judged, explanation=text, detail=ReferenceWrong())
    if reference.verified and judged.verdict.passes:
        return replace(judged, explanation=f"{judged.explanation} ({reference.verified})")
    return judged


def _input_values_at(reference: Reference, index: tuple[int, ...]) -> str:
    """The values of the inputs at ``index``; empty if they do not have the shape of the result."""
    output = reference.outputs[0].tensor
    tensors = reference.arguments.tensors
    if output is None or not tensors or "elementwise" not in reference.operator.traits:
        return ""
    if any(tuple(t.shape) != tuple(output.shape) for t in tensors) or len(index) < output.ndim:
        return ""
    return ", ".join(repr(t[index[: output.ndim]].item()) for t in tensors)
