"""One case through the whole pipeline: materialise, reference, execute on every backend, compare, judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol

from . import operators
from .backends.base import Backend, refusal
from .backends.cpu import Cpu
from .comparison import compare
from .dtypes import FORMATS
from .judge import judge
from .materialise import Materials, prepare
from .model import DIRECTIONS, Case, Comparison, Outcome, Result, Verdict
from .operators.declare import Operator
from .reference import Reference, quiet
from .tolerances import Policy, Rule
from .wider import sharpen

_CPU = Cpu()


class Rules(Protocol):
    """Where rules come from: :class:`consistency.tolerances.Tolerances`, or anything that answers the same questions."""

    @property
    def expectations(self) -> tuple[Any, ...]: ...
    def rule(
        self, operator: str, dtype: str, *, family: str = "", direction: str = "forward", backend: str = "cpu",
        device: str = "", driver: str = "",
    ) -> Rule: ...  # fmt: skip
    def policy(
        self, backend: str, *, operator: str = "", dtype: str = "", family: str = "", device: str = "", driver: str = ""
    ) -> Policy: ...


def evaluate(
    case: Case,
    backends: Sequence[Backend],
    rules: Rules,
    *,
    directions: Iterable[str] = DIRECTIONS,
    operator: Operator | None = None,
    done: frozenset[tuple[str, str, str]] = frozenset(),
) -> list[Result]:
    """Results of one case on every backend and direction; pairs in ``done`` (by Result.key) are left out.

    Raises RecipeError when the case cannot be built, UsageError for an unknown operator.
    """
    operator = operator or operators.get(case.operator)
    materials = prepare(case)
    results: list[Result] = []
    with quiet():
        for direction in directions:
            wanted = [b for b in backends if (case.id, b.name, direction) not in done]
            if wanted and (direction == "forward" or differentiates(operator, case.dtype)):
                results += _one_direction(case, operator, materials, direction, wanted, rules)
    return results


def differentiates(operator: Operator, dtype: str) -> bool:
    """Whether the backward direction means anything: the operator has gradients and the dtype is a floating one."""
    return operator.differentiable and dtype.startswith(("float", "bfloat"))


def _one_direction(
    case: Case, operator: Operator, materials: Materials, direction: str, backends: Sequence[Backend], rules: Rules
) -> list[Result]:
    reference = Reference(operator, materials, direction)
    sharpen(reference)
    baseline = _CPU.run(operator, materials, direction)
    twin = compare(baseline, reference)
    results = []
    for backend in backends:
        outcome, comparison = baseline, twin
        if not isinstance(backend, Cpu) or backend.switched:
            outcome = _run(backend, operator, materials, direction)
            comparison = compare(outcome, reference, baseline)
        results.append(_judged(case, operator, backend, direction, outcome, comparison, twin, reference, rules))
    return results


def _run(backend: Backend, operator: Operator, materials: Materials, direction: str) -> Outcome:
    reason = refusal(backend, operator, materials.case.dtype, direction)
    return Outcome("unsupported", message=reason) if reason else backend.run(operator, materials, direction)


def _judged(
    case: Case,
    operator: Operator,
    backend: Backend,
    direction: str,
    outcome: Outcome,
    comparison: Comparison,
    twin: Comparison,
    reference: Reference,
    rules: Rules,
) -> Result:
    device = backend.identity.get("device", "")
    driver = backend.identity.get("driver", "")
    # Integers in, floats out (the sine of an int64): what is judged is the float.
    floating = (o.dtype for o in comparison.outputs if o.dtype in FORMATS)
    dtype = case.dtype if case.dtype in FORMATS else next(floating, case.dtype)
    rule = rules.rule(
        operator.name, dtype, family=operator.family, direction=direction, backend=backend.name, device=device, driver=driver
    )
    policy = rules.policy(backend.name, operator=operator.name, dtype=case.dtype, device=device, driver=driver)
    itself = isinstance(backend, Cpu) and not backend.switched and not reference.independent
    found = judge(comparison, twin, rule, policy, itself=itself)
    result = Result(
        case, backend.name, direction, found.verdict, found.explanation, MappingProxyType(dict(found.metrics)),
        operator.family, found.worst, found.output, _shapes(reference), comparison, reference.materials.sha256,
    )  # fmt: skip
    return _expected(result, rules) if result.verdict.fails else result


def _shapes(reference: Reference) -> tuple[str, ...]:
    return tuple(
        f"{list(t.shape)}" + ("" if t.is_contiguous() else f" strides {list(t.stride())} offset {t.storage_offset()}")
        for t in reference.arguments.tensors
    )


def _expected(result: Result, rules: Rules) -> Result:
    """A failure that somebody has already explained: verdict ``expected``, with the reason and the ticket."""
    rho = result.metrics.get("rho_max", 0.0)
    for known in rules.expectations:
        if known.matches(
            operator=result.operator, dtype=result.dtype, direction=result.direction,
            backend=result.backend, verdict=result.verdict.value, rho=rho,
        ):  # fmt: skip
            text = f"expected ({known.reason}): {result.explanation}"
            return replace(result, verdict=Verdict("expected"), explanation=text)
    return result


def unavailable(
    case: Case, operator: Operator, backend: Backend, direction: str, reason: str, verdict: str = "unavailable"
) -> Result:
    """A result that stands for all cases of an operator × dtype × direction which a backend cannot run."""
    return Result(case, backend.name, direction, Verdict(verdict), reason, family=operator.family)
