"""Minimization: reduces any failing case to one that a person can compute by hand and that fails in
the same way.

Hypothesis shrinks cases that our strategies generated; then passes reduce sizes, layouts,
arguments, dtype and single numbers of the literal tensors. Every step keeps the verdict and its
cause (:mod:`consistency.diagnose.shrink.failure_predicate`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ...backends.base import Backend, availability
from ...core.model import Result
from ...core.verdict import VerdictKind
from ...errors import UsageError
from ...judge.tolerances import Tolerances
from ...operators.declare import Operator
from ..diagnosis_budget import DiagnosisBudget
from . import nondeterministic_failures
from .failure_predicate import FailurePredicate, Progress
from .failure_signature import initial_verdict
from .minimizer import MinimalCase, Minimizer

__all__ = ["MinimalCase", "Progress", "minimize"]

_RESERVED_SECONDS = 4.0  # kept for the final diagnosis and the failure rate, but at most …
_RESERVED_SHARE = 0.15  # … this share of the time


def minimize(
    result: Result, operator: Operator, backend: Backend, rules: Tolerances, *,
    seconds: float = 30.0, seed: int = 0,
    examples: int = 50, against: str = "float64", progress: Callable[[Progress],
    None] | None = None,
) -> MinimalCase:  # fmt: skip
    """The smallest case that fails on ``backend`` like ``result``: with the same verdict and, if
    known, the same cause.

    ``seed`` and ``examples`` are those of the run that generated the case; Hypothesis's shrinking
    starts from them. ``against`` is the reference (:mod:`consistency.reference.high_precision`).
    ``progress`` is called before every judgment. Ctrl-C ends the search and returns the best case
    so far.

    A known divergence (``known``) is judged without the list of known divergences.

    Raises UsageError for a result that does not fail, and for a backend that cannot run here.
    """
    known = result.verdict.kind is VerdictKind.KNOWN
    if not result.verdict.fails and not known:
        raise UsageError(
            f"{result.case.id} is {result.verdict} on {result.backend}: only what fails can be "
            f"made smaller"
        )
    if backend.is_recorded:
        raise UsageError(
            f"backend {backend.name!r} was recorded elsewhere and cannot run a smaller case; "
            f"name one that runs here"
        )
    unavailable_reason = availability(backend)
    if unavailable_reason:
        raise UsageError(f"backend {backend.name!r} cannot run here: {unavailable_reason}")
    limit = time.monotonic() + seconds - min(_RESERVED_SECONDS, _RESERVED_SHARE * seconds)
    predicate_class = (
        nondeterministic_failures.RepeatPredicate
        if nondeterministic_failures.is_nondeterministic(result)
        else FailurePredicate
    )
    rules = replace(rules, expectations=()) if known else rules
    predicate = predicate_class(
        operator, backend, rules, result.direction, against, limit, progress
    )
    if isinstance(predicate, nondeterministic_failures.RepeatPredicate):
        predicate.kind = nondeterministic_failures.kind_of(result)
    original = predicate.judged(result.case, DiagnosisBudget()) if known else result
    if not original.verdict.fails:
        raise UsageError(
            f"{result.case.id} is {original.verdict} here: only what fails can be made smaller"
        )
    with backend.retry_scope(
        seconds / 15 if initial_verdict(result) == "timeout" else None
    ) as try_seconds:
        minimizer = Minimizer(original, predicate, seed, examples)
        if try_seconds is not None:
            minimizer.notes.append(f"each try had {try_seconds:g} s before it counted as a timeout")
        return replace(minimizer.run(), original=result)
