"""One case through the whole pipeline: materialize, reference, execute on every backend, compare,
judge."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from ..backends.base import Backend, refusal
from ..backends.cpu import Cpu
from ..core.detail import ReferenceWrong
from ..core.dtypes import FORMATS, PARTS, floats
from ..core.model import DIRECTIONS, Case, Comparison, Evidence, Known, Outcome, Proof, Result
from ..core.verdict import OutcomeStatus, Verdict, VerdictKind
from ..generate.calls.case_operator import operator_of
from ..generate.materialize import Materials, prepare
from ..judge.compare import compare
from ..judge.evidence import ROUNDS, inconclusive, settled
from ..judge.evidence import needs_proof as evidence_is_needed
from ..judge.evidence import proof as evidence_of_numbers
from ..judge.evidence import words as evidence_in_words
from ..judge.judge import (
    Judgment,
    exceeds_baseline,
    far_from_the_cpu,
    judge,
    reconsider,
    with_cause,
)
from ..judge.known import Expectation, Occasion
from ..judge.tolerances import Policy, Rule
from ..operators.declare import Operator
from ..reference import Reference, quiet
from ..reference.high_precision import ITSELF_OFF, refine
from .diagnosis import DiagnosisBudget, diagnose_formula, diagnose_precision_loss
from .experiments import FlaggedResult

_CPU = Cpu()


class Rules(Protocol):
    """Where rules come from: :class:`consistency.judge.tolerances.Tolerances`, or anything that
    answers the same questions."""

    @property
    def expectations(self) -> tuple[Expectation, ...]: ...
    def rule(
        self, operator: str, dtype: str, *, family: str = "", direction: str = "forward",
        backend: str = "cpu",
        device: str = "", driver: str = "",
    ) -> Rule: ...  # fmt: skip
    def policy(
        self,
        backend: str,
        *,
        operator: str = "",
        dtype: str = "",
        family: str = "",
        device: str = "",
        driver: str = "",
    ) -> Policy: ...


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
    """Results of one case on every backend and direction; pairs in ``done`` (by Result.key) are
    left out.

    ``diagnosis_budget`` says how closely flagged results are looked at a second time; None leaves
    it at the first look. ``against`` is the mode of
    :func:`consistency.reference.high_precision.refine`.

    Raises RecipeError when the case cannot be built, UsageError for an unknown operator.
    """
    operator = operator or operator_of(case)
    materials = prepare(case)
    results: list[Result] = []
    with quiet():
        for direction in directions:
            wanted = [b for b in backends if (case.id, b.name, direction) not in done]
            if wanted and (direction == "forward" or differentiates(operator, case.dtype)):
                results += _one_direction(
                    case, operator, materials, direction, wanted, rules, diagnosis_budget, against
                )
    return results


def differentiates(operator: Operator, dtype: str) -> bool:
    """Whether the backward direction means anything: the operator has gradients and the dtype is a
    floating one."""
    return operator.differentiable and floats(dtype)


def _one_direction(
    case: Case, operator: Operator, materials: Materials, direction: str,
    backends: Sequence[Backend], rules: Rules,
    diagnosis_budget: DiagnosisBudget | None, against: str,
) -> list[Result]:  # fmt: skip
    reference = Reference(operator, materials, direction)
    refine(reference, against)
    baseline = _CPU.run(operator, materials, direction)
    outcomes = [
        baseline
        if isinstance(b, Cpu) and not b.switched
        else _run(b, operator, materials, direction)
        for b in backends
    ]
    trial = _Trial(case, operator, direction, backends, outcomes, baseline, reference, rules)
    everyone = {backend.name: outcome for backend, outcome in zip(backends, outcomes, strict=True)}
    results = []
    for backend, outcome, (comparison, found) in zip(
        backends, outcomes, trial.heard(), strict=True
    ):
        judged = functools.partial(
            judgment, operator, backend, direction, trial.twin, reference, rules
        )
        policy = policy_of(operator, backend, case.dtype, rules)
        evidence: Evidence | None = None
        known = found.verdict.fails and _is_known(case, backend, direction, found, rules)
        proved = (
            evidence_of_numbers(reference, outcome, found)
            if evidence_is_needed(found, reference) and not known
            else None
        )
        wide = case.dtype in ("float64", "complex128")
        is_reference = (
            _plain(backend) and wide and (reference.verified is not None or proved is not None)
        )
        if evidence_is_needed(found, reference) and not known and proved is None:
            found = inconclusive(reference, found, backend.name)
        elif is_reference:
            found = _of_float64_itself(found, reference)
        elif diagnosis_budget is not None and found.verdict.fails and not known:
            flagged = FlaggedResult(
                operator,
                materials,
                direction,
                backend,
                outcome,
                reference,
                baseline,
                found,
                judged,
                everyone,
            )
            evidence = diagnosis_budget.diagnose(flagged)
            found = reconsider(found, evidence, policy)
        elif outcome is not baseline and exceeds_baseline(found):
            found = with_cause(
                found, diagnose_precision_loss(operator, reference, outcome, found), policy
            )
        if outcome is not baseline and far_from_the_cpu(found):
            found = with_cause(found, diagnose_formula(reference, outcome, found), policy)
        if proved is None and evidence_is_needed(found, reference) and not known:
            proved = evidence_of_numbers(reference, outcome, found)
            found = found if proved is not None else inconclusive(reference, found, backend.name)
        if proved is not None and found.verdict.fails:
            found = replace(found, explanation=f"{found.explanation}; {evidence_in_words(proved)}")
        results.append(
            _result(
                case,
                operator,
                backend,
                direction,
                found,
                comparison,
                evidence,
                reference,
                rules,
                proved,
            )
        )
    return results


@dataclass
class _Trial:
    """One case on all backends: judged, what fails proved, and judged again as long as that changes
    what is right."""

    case: Case
    operator: Operator
    direction: str
    backends: Sequence[Backend]
    outcomes: Sequence[Outcome]
    baseline: Outcome
    reference: Reference
    rules: Rules
    twin: Comparison | None = None

    def heard(self) -> list[tuple[Comparison, Judgment]]:
        rows = self._once()
        for count in ROUNDS:
            changed = False
            for backend, outcome, (_, found) in zip(
                self.backends, self.outcomes, rows, strict=True
            ):
                if evidence_is_needed(found, self.reference) and not _is_known(
                    self.case, backend, self.direction, found, self.rules
                ):
                    changed |= settled(self.reference, outcome, found, count)
            if not changed:
                break
            rows = self._once()
        return rows

    def _once(self) -> list[tuple[Comparison, Judgment]]:
        self.twin = compare(self.baseline, self.reference)
        rows = []
        for backend, outcome in zip(self.backends, self.outcomes, strict=True):
            comparison = (
                self.twin
                if outcome is self.baseline
                else compare(outcome, self.reference, self.baseline)
            )
            found = judgment(
                self.operator,
                backend,
                self.direction,
                self.twin,
                self.reference,
                self.rules,
                comparison,
            )
            rows.append((comparison, found))
        return rows


def _plain(backend: Backend) -> bool:
    return isinstance(backend, Cpu) and not backend.switched


def _of_float64_itself(found: Judgment, reference: Reference) -> Judgment:
    """The sentence for float64 on the CPU where proofs judge it: a second look would only compare
    it with itself."""
    worst = found.worst
    if found.verdict.fails and worst is not None:
        size = abs(worst.expected)
        error = (
            f"{abs(worst.actual - worst.expected) / size:.1e} relative"
            if 0.0 < size < float("inf")
            else "wrong"
        )
        place = _numbers_at(reference, worst.index) if found.output.startswith("out/") else ""
        where = f"x = {place}" if place else f"{list(worst.index)}"
        text = f"{ITSELF_OFF}: {error} at {where}: {reference.operator.name}; {found.explanation}"
        return replace(found, explanation=text, detail=ReferenceWrong())
    if reference.verified and found.verdict.passes:
        return replace(found, explanation=f"{found.explanation} ({reference.verified})")
    return found


def _numbers_at(reference: Reference, index: tuple[int, ...]) -> str:
    """The numbers that corresponding elements of the arguments hold; empty where they are not of
    the result's shape."""
    output = reference.outputs[0].tensor
    tensors = reference.arguments.tensors
    if output is None or not tensors or "elementwise" not in reference.operator.traits:
        return ""
    if any(tuple(t.shape) != tuple(output.shape) for t in tensors) or len(index) < output.ndim:
        return ""
    return ", ".join(repr(t[index[: output.ndim]].item()) for t in tensors)


def _run(backend: Backend, operator: Operator, materials: Materials, direction: str) -> Outcome:
    reason = refusal(backend, operator, materials.case.dtype, direction)
    return (
        Outcome(OutcomeStatus.UNSUPPORTED, message=reason)
        if reason
        else backend.run(operator, materials, direction)
    )


def judgment(
    operator: Operator, backend: Backend, direction: str, twin: Comparison | None,
    reference: Reference, rules: Rules,
    comparison: Comparison,
) -> Judgment:  # fmt: skip
    """A comparison judged by the rules that hold for this operator, dtype, direction and backend;
    ``twin`` is the CPU's."""
    dtype = reference.materials.case.dtype
    # Integers in, floats out (the sine of an int64): what is judged is the float.
    floating = [o.dtype for o in comparison.outputs if o.dtype in FORMATS]
    judged_as = _judged_as(dtype, floating)
    where = {
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
        **where,
    )
    plain = (
        backend.name.partition("#")[0] == "cpu"
        if backend.is_recorded
        else isinstance(backend, Cpu) and not backend.switched
    )
    is_reference = plain and not reference.independent
    return judge(
        comparison,
        twin,
        rule,
        policy_of(operator, backend, dtype, rules),
        is_reference=is_reference,
    )


def _judged_as(dtype: str, floating: Sequence[str]) -> str:
    """The format whose rules hold: the case's, or that of its results where they are shorter
    (``sum(x, dtype=torch.float16)``)."""
    if dtype not in FORMATS:
        return dtype if dtype in PARTS else next(iter(floating), dtype)
    shortest = min(floating, key=lambda name: FORMATS[name].precision, default=dtype)
    return shortest if FORMATS[shortest].precision < FORMATS[dtype].precision else dtype


def policy_of(operator: Operator, backend: Backend, dtype: str, rules: Rules) -> Policy:
    where = {
        "device": backend.identity.get("device", ""),
        "driver": backend.identity.get("driver", ""),
    }
    return rules.policy(
        backend.tolerance_key or backend.name, operator=operator.ruled_by[0], dtype=dtype, **where
    )


def _result(
    case: Case, operator: Operator, backend: Backend, direction: str, found: Judgment,
    comparison: Comparison,
    evidence: Evidence | None, reference: Reference, rules: Rules, proved: Proof | None,
) -> Result:  # fmt: skip
    result = Result(
        case, backend.name, direction, found.verdict, found.explanation,
        MappingProxyType(dict(found.metrics)), operator.family,
        found.worst, found.output, _shapes(reference), comparison, reference.materials.sha256,
        evidence, proof=proved, detail=found.detail,
    )  # fmt: skip
    return expected(result, rules, backend) if result.verdict.fails else result


def expected(result: Result, rules: Rules, backend: Backend) -> Result:
    """A failure that somebody has already explained: verdict ``known``, with the reason and the
    ticket.

    One that an entry would explain if it had not expired, or the error not grown, stays a failure
    and says so.
    """
    if not rules.expectations:
        return result
    occasion = Occasion(result.case, result.backend, result.direction, backend.identity)
    verdict, rho = result.verdict.value, result.metrics.get("rho_max", 0.0)
    entry = occasion.known(rules.expectations, verdict, rho)
    if entry is None:
        near = occasion.nearly(rules.expectations, verdict, rho)
        return replace(result, explanation=f"{result.explanation}; {near}") if near else result
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


def _is_known(case: Case, backend: Backend, direction: str, found: Judgment, rules: Rules) -> bool:
    """Whether a failure meets an expectation, so that nobody needs to look at it again."""
    if not rules.expectations:
        return False
    occasion = Occasion(case, backend.name, direction, backend.identity)
    return (
        occasion.known(rules.expectations, found.verdict.value, found.metrics.get("rho_max", 0.0))
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
    """A result that stands for all cases of an operator × dtype × direction which a backend cannot
    run."""
    return Result(case, backend.name, direction, Verdict(verdict), reason, family=operator.family)
