"""The smallest case that fails like a drawn one, found by Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..backends.base import Backend
from ..core.model import Case, Result
from ..diagnose.case_runner import judge_case
from ..diagnose.diagnosis import DiagnosisBudget
from ..generate import search
from ..operators.declare import Operator
from ..reference.high_precision import EACH, spot_checked
from .config import RunConfig

SHRINK_SECONDS = 4.0


def smallest_failure(
    suspect: Result, operator: Operator, backends: Sequence[Backend], config: RunConfig,
    seed: int | None = None,
    seconds: float = SHRINK_SECONDS,
) -> Result | None:  # fmt: skip
    """The smallest result with the backend, direction and verdict of ``suspect`` that Hypothesis
    finds in ``seconds``."""
    first = (
        suspect.evidence.initial_verdict if suspect.evidence is not None else suspect.verdict.value
    )

    # A smaller case is another case, spot-checked or not; those of dtypes that are not spend the
    # time on more of them.
    each = config.reference == "spot" and spot_checked(suspect.dtype)
    against = EACH if each else config.reference

    def same(case: Case) -> bool:
        results = judge_case(
            case, operator, backends, config.tolerances, (suspect.direction,), against=against
        )
        return any(r.verdict.value == first for r in results)

    try:
        begin = config.seed if seed is None else seed
        small = search.smallest(
            operator, suspect.dtype, same, examples=config.examples, seed=begin, seconds=seconds
        )
    except Exception:  # the drawn case is reported already, and the run must go on
        return None
    if small is None:
        return None
    results = judge_case(
        small,
        operator,
        backends,
        config.tolerances,
        (suspect.direction,),
        diagnosis_budget=DiagnosisBudget(),
        against=against,
    )
    result = next((result for result in results if result.verdict.fails), None)
    if (
        result is None
        or result.verdict == suspect.verdict
        or suspect.evidence is None
        or result.evidence is None
    ):
        return result
    # A few numbers may fit another cause by accident, or none; the larger case is more reliable.
    cause = suspect.evidence.cause
    text = (
        f"{result.explanation}; of {suspect.case.id}, {cause}"
        if cause is not None
        else result.explanation
    )
    return replace(
        result,
        verdict=suspect.verdict,
        explanation=text,
        evidence=replace(result.evidence, cause=cause),
    )
