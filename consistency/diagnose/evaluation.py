"""Evaluation of one case: materialize, reference, run on every backend, compare, judge."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..backends.base import Backend, attempt
from ..backends.cpu import Cpu
from ..core.detail import ReferenceWrong, StateChanged
from ..core.dtypes import FORMATS, PARTS, floats
from ..core.model import DIRECTIONS, Case, Comparison, Evidence, Known, Outcome, Proof, Result
from ..core.verdict import Verdict, VerdictKind
from ..generate.calls.case_operator import operator_of
from ..generate.materialize import Materials, prepare
from ..judge.compare import changed_state as changed_state_comparison
from ..judge.compare import compare
from ..judge.evidence import ROUNDS, inconclusive, settled
from ..judge.evidence import needs_proof as evidence_is_needed
from ..judge.evidence import proof as evidence_of_numbers
from ..judge.evidence import words as evidence_in_words
from ..judge.judge import judge
from ..judge.judgment import Judgment
from ..judge.known import Occasion
from ..judge.reconsideration import exceeds_baseline, far_from_the_cpu, reconsider, with_cause
from ..judge.rules import Rules
from ..judge.tolerances import Policy
from ..operators.declare import Operator
from ..reference import Reference, quiet
from ..reference.high_precision import ITSELF_OFF, refine
from .diagnosis import DiagnosisBudget, diagnose_formula, diagnose_precision_loss
from .experiments import FlaggedResult
from .two_answers import TwoAnswers, is_checked, two_answers

_CPU = Cpu()


def evaluate(
    case: Case,
    backends: Sequence[Backend],
    rules: Rules,
    *,
    directions: Iterable[str] = DIRECTIONS,
    operator: Operator | None = None,
    done: frozenset[tuple[str, str, str]] = frozenset(),
    diagnosis_budget: DiagnosisBudget | None = None,
    against: str = "float64",
) -> list[Result]:
    """Results of one case on every backend and direction, except for the pairs in ``done`` (by
    Result.key).

    ``diagnosis_budget`` limits the diagnosis of flagged results; None means no diagnosis.
    ``against`` is the mode of :func:`consistency.reference.high_precision.refine`.

    Raises RecipeError when the case cannot be built, UsageError for an unknown operator.
    """
    operator = operator or operator_of(case)
    materials = prepare(case)
    results: list[Result] = []
    with quiet():
        for direction in directions:
            requested = [b for b in backends if (case.id, b.name, direction) not in done]
            if requested and (direction == "forward" or differentiates(operator, case.dtype)):
                results += _evaluate_direction(
                    case,
                    operator,
                    materials,
                    direction,
                    requested,
                    rules,
                    diagnosis_budget,
                    against,
                )
    return results


def differentiates(operator: Operator, dtype: str) -> bool:
    """Whether the operator has gradients and the dtype is floating-point."""
    return operator.differentiable and floats(dtype)


def _evaluate_direction(
    case: Case, operator: Operator, materials: Materials, direction: str,
    backends: Sequence[Backend], rules: Rules,
    diagnosis_budget: DiagnosisBudget | None, against: str,
) -> list[Result]:  # fmt: skip
    reference = Reference(operator, materials, direction)
    doubt = two_answers(reference, rules) if is_checked(case, against) else None
    refine(reference, against)
    if doubt is not None:
        doubt.settle(reference)
    baseline = attempt(_CPU, operator, materials, direction)
    outcomes = [
        baseline
        if isinstance(b, Cpu) and not b.switched
        else attempt(b, operator, materials, direction)
        for b in backends
    ]
    case_judgment = _CaseJudgment(
        case, operator, direction, backends, outcomes, baseline, reference, rules
    )
    rows = case_judgment.settle()
    if doubt is None and not is_checked(case, against) and case_judgment.accuses(rows):
        doubt = two_answers(Reference(operator, materials, direction), rules)
        if doubt is not None:
            doubt.settle(reference)
            rows = case_judgment.settle()
    outcomes_by_name = {
        backend.name: outcome for backend, outcome in zip(backends, outcomes, strict=True)
    }
    results = []
    for backend, outcome, (comparison, judged) in zip(backends, outcomes, rows, strict=True):
        judge_comparison = functools.partial(
            judgment,
            operator,
            backend,
            direction,
            case_judgment.baseline_comparison,
            reference,
            rules,
        )
        policy = policy_of(operator, backend, case.dtype, rules)
        evidence: Evidence | None = None
        known = judged.verdict.fails and _is_known(case, backend, direction, judged, rules)
        proof = (
            evidence_of_numbers(reference, outcome, judged)
            if evidence_is_needed(judged, reference) and not known
            else None
        )
        contradicts = (
            doubt is not None
            and not known
            and (doubt.matters or proof is None)
            and _contradicts_itself(doubt, judged, backend, outcome, reference, rules)
        )
        wide = case.dtype in ("float64", "complex128")
        is_reference = (
            _is_plain_cpu(backend)
            and wide
            and (proof is not None or (reference.verified is not None and not contradicts))
        )
        unproved = _needs_proof(judged, reference, doubt) and not known
        unproved = unproved and proof is None and not contradicts
        if unproved:
            judged = inconclusive(reference, judged, backend.name, doubt.words if doubt else "")
        elif is_reference:
            judged = _describe_reference_judgment(judged, reference)
        elif contradicts and doubt is not None:
            # Formulas in float64 would explain it by the fault that float64 shares.
            evidence = Evidence(judged.verdict.value, cause=doubt.cause)
            judged = doubt.blamed(judged)
        elif diagnosis_budget is not None and judged.verdict.fails and not known:
            flagged = FlaggedResult(
                operator,
                materials,
                direction,
                backend,
                outcome,
                reference,
                baseline,
                judged,
                judge_comparison,
                outcomes_by_name,
            )
            evidence = diagnosis_budget.diagnose(flagged)
            judged = reconsider(judged, evidence, policy)
        elif outcome is not baseline and exceeds_baseline(judged):
            judged = with_cause(
                judged, diagnose_precision_loss(operator, reference, outcome, judged), policy
            )
        if outcome is not baseline and far_from_the_cpu(judged):
            judged = with_cause(judged, diagnose_formula(reference, outcome, judged), policy)
        if (
            proof is None
            and not contradicts
            and evidence_is_needed(judged, reference)
            and not known
        ):
            proof = evidence_of_numbers(reference, outcome, judged)
            judged = judged if proof is not None else inconclusive(reference, judged, backend.name)
        if proof is not None and judged.verdict.fails:
            judged = replace(
                judged, explanation=f"{judged.explanation}; {evidence_in_words(proof)}"
            )
        if doubt is not None and judged.verdict.fails and (doubt.matters or contradicts):
            judged = replace(judged, explanation=f"{judged.explanation}; {doubt.words}")
        results.append(
            _result(
                case,
                operator,
                backend,
                direction,
                judged,
                comparison,
                evidence,
                reference,
                rules,
                proof,
            )
        )
    return results


@dataclass
class _CaseJudgment:
    """Judgment of one case on all backends: failures are checked against exact values, which may
    refine the reference; then everything is judged again."""

    case: Case
    operator: Operator
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
                if evidence_is_needed(judged, self.reference) and not _is_known(
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
            and not _is_known(self.case, backend, self.direction, judged, self.rules)
            for backend, (_, judged) in zip(self.backends, rows, strict=True)
        )

    def _judge_backends(self) -> list[tuple[Comparison, Judgment]]:
        self.baseline_comparison = compare(self.baseline, self.reference)
        rows = []
        for backend, outcome in zip(self.backends, self.outcomes, strict=True):
            comparison = (
                self.baseline_comparison
                if outcome is self.baseline
                else compare(outcome, self.reference, self.baseline)
            )
            judged = judgment(
                self.operator,
                backend,
                self.direction,
                self.baseline_comparison,
                self.reference,
                self.rules,
                comparison,
            )
            rows.append((comparison, judged))
        return rows


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


def _is_plain_cpu(backend: Backend) -> bool:
    return isinstance(backend, Cpu) and not backend.switched


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


def judgment(
    operator: Operator, backend: Backend, direction: str, twin: Comparison | None,
    reference: Reference, rules: Rules,
    comparison: Comparison,
) -> Judgment:  # fmt: skip
    """Judge a comparison by the rules for this operator, dtype, direction and backend; ``twin``
    is the comparison of the CPU."""
    dtype = reference.materials.case.dtype
    # Integers may give floats (the sine of an int64): the float is judged.
    output_formats = [o.dtype for o in comparison.outputs if o.dtype in FORMATS]
    judged_as = _judged_as(dtype, output_formats)
    device = {
        "device": backend.identity.get("device", ""),
        "driver": backend.identity.get("driver", ""),
    }
    name, family = operator.ruled_by
    rule = rules.rule(
        name,
        judged_as,
        family=family,
        direction=direction,
        backend=backend.tolerance_key or backend.name,
        **device,
    )
    is_plain_cpu = (
        backend.name.partition("#")[0] == "cpu"
        if backend.is_recorded
        else isinstance(backend, Cpu) and not backend.switched
    )
    is_reference = is_plain_cpu and not reference.independent
    return judge(
        comparison,
        twin,
        rule,
        policy_of(operator, backend, dtype, rules),
        is_reference=is_reference,
    )


def _judged_as(dtype: str, floating: Sequence[str]) -> str:
    """The format whose rules apply: that of the case, or that of its results if shorter
    (``sum(x, dtype=torch.float16)``)."""
    if dtype not in FORMATS:
        return dtype if dtype in PARTS else next(iter(floating), dtype)
    shortest = min(floating, key=lambda name: FORMATS[name].precision, default=dtype)
    return shortest if FORMATS[shortest].precision < FORMATS[dtype].precision else dtype


def policy_of(operator: Operator, backend: Backend, dtype: str, rules: Rules) -> Policy:
    device = {
        "device": backend.identity.get("device", ""),
        "driver": backend.identity.get("driver", ""),
    }
    name, family = operator.ruled_by
    return rules.policy(
        backend.tolerance_key or backend.name, operator=name, family=family, dtype=dtype, **device
    )


def _result(
    case: Case, operator: Operator, backend: Backend, direction: str, judged: Judgment,
    comparison: Comparison,
    evidence: Evidence | None, reference: Reference, rules: Rules, proof: Proof | None,
) -> Result:  # fmt: skip
    result = Result(
        case, backend.name, direction, judged.verdict, judged.explanation,
        MappingProxyType(dict(judged.metrics)), operator.family,
        judged.worst, judged.output, _shapes(reference), comparison, reference.materials.sha256,
        evidence, proof=proof, detail=judged.detail,
    )  # fmt: skip
    return expected(result, rules, backend) if result.verdict.fails else result


def expected(result: Result, rules: Rules, backend: Backend) -> Result:
    """Mark a failure that a known divergence explains: verdict ``known``, with reason and ticket.

    A failure whose entry has expired, or whose error has grown, stays a failure and says so.
    So does a change to global state, which no computation needs.
    """
    if not rules.expectations or isinstance(result.detail, StateChanged):
        return result
    occasion = Occasion(result.case, result.backend, result.direction, backend.identity)
    verdict, rho = result.verdict.value, result.metrics.get("rho_max", 0.0)
    entry = occasion.known(rules.expectations, verdict, rho)
    if entry is None:
        hint = occasion.nearly(rules.expectations, verdict, rho)
        return replace(result, explanation=f"{result.explanation}; {hint}") if hint else result
    reason = entry.reason + (f"; {entry.ticket}" if entry.ticket else "")
    known = Known(
        entry.id,
        entry.place,
        verdict,
        entry.max_rho,
        entry.flaky or "nondeterministic" in entry.verdicts,
    )
    return replace(
        result,
        verdict=Verdict(VerdictKind.KNOWN),
        explanation=f"known ({reason}): {result.explanation}",
        known=known,
    )


def _is_known(case: Case, backend: Backend, direction: str, judged: Judgment, rules: Rules) -> bool:
    """Whether a failure matches a known divergence and needs no diagnosis."""
    if not rules.expectations or isinstance(judged.detail, StateChanged):
        return False
    occasion = Occasion(case, backend.name, direction, backend.identity)
    return (
        occasion.known(rules.expectations, judged.verdict.value, judged.metrics.get("rho_max", 0.0))
        is not None
    )


def _shapes(reference: Reference) -> tuple[str, ...]:
    return tuple(
        f"{list(t.shape)}"
        + ("" if t.is_contiguous() else f" strides {list(t.stride())} offset {t.storage_offset()}")
        for t in reference.arguments.tensors
    )


def unavailable(
    case: Case,
    operator: Operator,
    backend: Backend,
    direction: str,
    reason: str,
    verdict: str = "unavailable",
) -> Result:
    """One result for all cases of an operator × dtype × direction that a backend cannot run."""
    return Result(case, backend.name, direction, Verdict(verdict), reason, family=operator.family)


def changed_state(
    case: Case, operator: Operator, backend: Backend, changes: Sequence[str]
) -> Result:
    """The result of a backend that changed global state outside of the judged calls."""
    comparison = changed_state_comparison(changes)
    return Result(
        case,
        backend.name,
        "forward",
        Verdict(VerdictKind.STRUCTURE),
        comparison.structure,
        family=operator.family,
        comparison=comparison,
        detail=comparison.detail,
    )
