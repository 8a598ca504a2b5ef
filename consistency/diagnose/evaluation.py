"""Evaluation of one case: materialize, reference, run on every backend, compare, judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from ..backends.base import Backend, attempt
from ..backends.cpu import Cpu
from ..core.dtypes import floats
from ..core.model import DIRECTIONS, Case, Result
from ..core.verdict import Verdict, VerdictKind
from ..generate.calls.case_operator import operator_of
from ..generate.materialize import Materials, prepare
from ..judge.compare import changed_state as changed_state_comparison
from ..judge.rules import Rules
from ..operators.declare import Operator
from ..reference import Reference, quiet
from ..reference.high_precision import refine
from .backend_verdict import BackendVerdict
from .case_judgment import CaseJudgment
from .diagnosis_budget import DiagnosisBudget
from .known_results import expected
from .two_answers import is_checked, two_answers

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
    doubt = two_answers(reference, rules) if is_checked(case, against, operator) else None
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
    case_judgment = CaseJudgment(
        case, operator, materials, direction, backends, outcomes, baseline, reference, rules
    )
    rows = case_judgment.settle()
    if doubt is None and not is_checked(case, against, operator) and case_judgment.accuses(rows):
        doubt = two_answers(Reference(operator, materials, direction), rules)
        if doubt is not None:
            doubt.settle(reference)
            rows = case_judgment.settle()
    results, shapes = [], _shapes(reference)
    for backend, outcome, row in zip(backends, outcomes, rows, strict=True):
        verdict = BackendVerdict(case_judgment, backend, outcome, *row, doubt)
        verdict.settle(diagnosis_budget)
        results.append(_result(case_judgment, verdict, shapes))
    return results


def _result(
    case_judgment: CaseJudgment, verdict: BackendVerdict, shapes: tuple[str, ...]
) -> Result:
    judged, reference = verdict.judged, case_judgment.reference
    backend, rules = verdict.backend, case_judgment.rules
    result = Result(
        case_judgment.case, backend.name, case_judgment.direction, judged.verdict,
        judged.explanation, MappingProxyType(dict(judged.metrics)), case_judgment.operator.family,
        judged.worst, judged.output, shapes, verdict.comparison,
        reference.materials.sha256, verdict.evidence, proof=verdict.proof, detail=judged.detail,
    )  # fmt: skip
    return expected(result, rules, backend) if result.verdict.fails else result


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
