"""The smallest case that fails like a drawn one, found by Hypothesis; of an exhaustive one the
smallest part, of a large one the smallest size."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..backends.base import Backend
from ..core.model import Case, Result
from ..core.verdict import VerdictKind
from ..diagnose.case_runner import judge_case
from ..diagnose.diagnosis_budget import DiagnosisBudget
from ..diagnose.shrink.failure_signature import (
    CausePreservingDiagnosis,
    FailureSignature,
    SingleCauseDiagnosis,
    initial_verdict,
)
from ..diagnose.shrink.patterns import parts
from ..diagnose.shrink.sizes import smallest_size
from ..generate import search
from ..generate.exhaustive import is_exhaustive
from ..operators.declare import Operator
from ..reference.high_precision import EACH, spot_checked
from .config import RunConfig

SHRINK_SECONDS = 4.0
SEARCHED = 12  # at least so many drawn cases are searched: the suspect may be a shipped one


def smallest_failure(
    suspect: Result, operator: Operator, backends: Sequence[Backend], config: RunConfig,
    seed: int | None = None,
    seconds: float = SHRINK_SECONDS,
) -> Result | None:  # fmt: skip
    """The smallest result with the backend, direction, verdict and cause of ``suspect`` that
    Hypothesis finds in ``seconds``, that is part of an exhaustive case, or a large one of another
    size."""
    first = initial_verdict(suspect)
    # What changes from run to run has no cause that a single small case could show again.
    flaky = suspect.verdict.kind is VerdictKind.NONDETERMINISTIC
    signature = FailureSignature.of(suspect, suspect, flaky=flaky)

    # A smaller case is another case, spot-checked or not; those of dtypes that are not spend the
    # time on more of them.
    each = config.reference == "spot" and spot_checked(suspect.dtype)
    against = EACH if each else config.reference

    def judged(case: Case, budget: DiagnosisBudget | None) -> list[Result]:
        return judge_case(
            case, operator, backends, config.tolerances, (suspect.direction,),
            diagnosis_budget=budget, against=against,
        )  # fmt: skip

    def same(case: Case) -> bool:
        if flaky or not suspect.cause:
            return any(r.verdict.value == first for r in judged(case, None))
        return any(map(signature.met_by, judged(case, SingleCauseDiagnosis(first, suspect.cause))))

    def diagnosed(case: Case) -> Result | None:
        budget = DiagnosisBudget() if flaky else CausePreservingDiagnosis(signature)
        return next((result for result in judged(case, budget) if result.verdict.fails), None)

    try:
        if suspect.case.tiling is not None:
            return _smallest_size(suspect, same, diagnosed, seconds)
        if is_exhaustive(suspect.case):
            return _smallest_part(suspect, diagnosed, seconds)
        begin = config.seed if seed is None else seed
        small = search.smallest(
            operator,
            suspect.dtype,
            same,
            examples=max(config.examples, SEARCHED),
            seed=begin,
            seconds=seconds,
        )
    except Exception:  # the drawn case is reported already, and the run must go on
        return None
    if small is None:
        return None
    result = diagnosed(small)
    if result is None or result.verdict == suspect.verdict:
        return result
    return _with_cause_of(suspect, result)


def _smallest_size(
    suspect: Result,
    same: Callable[[Case], bool],
    diagnosed: Callable[[Case], Result | None],
    seconds: float,
) -> Result | None:
    """The large case with the smallest size that fails likewise, as far as time allows."""
    until = time.monotonic() + seconds

    def fails(case: Case) -> bool:
        if time.monotonic() >= until:
            raise TimeoutError
        if same(case):
            smallest.append(case)
            return True
        return False

    smallest: list[Case] = []
    with contextlib.suppress(TimeoutError):
        smallest_size(suspect.case, fails)
    return diagnosed(smallest[-1]) if smallest else None


def _with_cause_of(suspect: Result, result: Result) -> Result:
    """A few numbers may fit another cause by accident, or none; the larger case is more
    reliable."""
    if suspect.evidence is None or result.evidence is None:
        return result
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


def _smallest_part(
    suspect: Result, diagnosed: Callable[[Case], Result | None], seconds: float
) -> Result | None:
    """The smallest part of an exhaustive case with the verdict and the cause of the whole; else the
    smallest with its verdict. A few numbers may fit another cause by accident."""
    until, fallback = time.monotonic() + seconds, None
    for case in parts(suspect.case, suspect.worst):
        if time.monotonic() >= until:
            break
        result = diagnosed(case)
        if result is None or result.verdict != suspect.verdict:
            continue
        if result.cause == suspect.cause:
            return result
        fallback = fallback or _with_cause_of(suspect, result)
    return fallback
