"""Minimizing: from a failing case, wherever it came from, to one that a person can compute by hand
and that fails in the same way.

Hypothesis's shrinking comes first where our strategies drew the case, then sizes, layout,
arguments, dtype and single numbers of the tensors as they are. The verdict and its cause are what
every step keeps (:mod:`consistency.diagnose.shrink.failure_predicate`).
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
from ..diagnosis import DiagnosisBudget
from . import nondeterministic_failures
from .failure_predicate import FailurePredicate, Progress
from .failure_signature import initial_verdict
from .minimizer import MinimalCase, Minimizer

__all__ = ["MinimalCase", "Progress", "minimize"]

_KEPT = 4.0  # seconds, at most, of the time that are kept for the last look and the rate …
_KEPT_SHARE = 0.15  # … and their share of it


def minimize(
    result: Result, operator: Operator, backend: Backend, rules: Tolerances, *,
    seconds: float = 30.0, seed: int = 0,
    examples: int = 50, against: str = "float64", progress: Callable[[Progress],
    None] | None = None,
) -> MinimalCase:  # fmt: skip
    """The smallest case that fails on ``backend`` as ``result`` does: with the same verdict and the
    same cause, if one is known.

    ``seed`` and ``examples`` are those of the run that drew the case, which Hypothesis's shrinking
    begins from. ``against`` is the reference (:mod:`consistency.reference.high_precision`).
    ``progress`` is called before every judgment. Ctrl-C ends the search; the best so far is
    returned.

    A known divergence (``known``) is made small as what it would be if nobody had listed it.

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
    reason = availability(backend)
    if reason:
        raise UsageError(f"backend {backend.name!r} cannot run here: {reason}")
    limit = time.monotonic() + seconds - min(_KEPT, _KEPT_SHARE * seconds)
    kind = (
        nondeterministic_failures.RepeatPredicate
        if nondeterministic_failures.is_nondeterministic(result)
        else FailurePredicate
    )
    rules = replace(rules, expectations=()) if known else rules
    predicate = kind(operator, backend, rules, result.direction, against, limit, progress)
    if isinstance(predicate, nondeterministic_failures.RepeatPredicate):
        predicate.kind = nondeterministic_failures.kind_of(result)
    original = predicate.judged(result.case, DiagnosisBudget()) if known else result
    if not original.verdict.fails:
        raise UsageError(
            f"{result.case.id} is {original.verdict} here: only what fails can be made smaller"
        )
    with backend.retry_scope(
        seconds / 15 if initial_verdict(result) == "timeout" else None
    ) as allowed:
        found = Minimizer(original, predicate, seed, examples)
        if allowed is not None:
            found.notes.append(f"each try had {allowed:g} s before it counted as a timeout")
        return replace(found.run(), original=result)
