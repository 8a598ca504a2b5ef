"""Failures that are listed as known divergences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..backends.base import Backend
from ..backends.cpu import Cpu
from ..core.detail import StateChanged
from ..core.model import Case, Known, Result
from ..core.verdict import Verdict, VerdictKind
from ..judge.judgment import Judgment
from ..judge.known import Occasion
from ..judge.output_judgment import excusable
from ..judge.rules import Rules

_CPU = Cpu()
AS_CPU = "as_cpu"  # 1 where a failing result is that of torch's CPU in the same dtype, else 0


def expected(result: Result, rules: Rules, backend: Backend) -> Result:
    """Mark a failure that a known divergence explains: verdict ``known``, with reason and ticket.

    So is one of a backend that gives, within its budget, what torch's CPU gives and is known to
    give wrongly. A failure whose entry has expired, or whose error has grown, stays a failure and
    says so. So does a change to global state, which no computation needs.
    """
    if not rules.expectations or isinstance(result.detail, StateChanged):
        return result
    occasion = Occasion(
        result.case, result.backend, result.direction, backend.identity, _as_cpu(result.metrics)
    )
    verdict, rho = result.verdict.value, excusable(result.metrics)
    entry = occasion.known(rules.expectations, verdict, rho)
    whose = ""
    if entry is None and _shares_cpu(result.metrics):
        entry, whose = _of_cpu(occasion).known(rules.expectations, verdict, rho), "as torch's CPU: "
    if entry is None:
        hint = occasion.nearly(rules.expectations, verdict, rho)
        return replace(result, explanation=f"{result.explanation}; {hint}") if hint else result
    reason = whose + entry.reason + (f"; {entry.ticket}" if entry.ticket else "")
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


def is_known(case: Case, backend: Backend, direction: str, judged: Judgment, rules: Rules) -> bool:
    """Whether a failure matches a known divergence and needs no diagnosis."""
    if not rules.expectations or isinstance(judged.detail, StateChanged):
        return False
    occasion = Occasion(case, backend.name, direction, backend.identity, _as_cpu(judged.metrics))
    occasions = [occasion, *([_of_cpu(occasion)] if _shares_cpu(judged.metrics) else [])]
    rho = excusable(judged.metrics)
    return any(
        one.known(rules.expectations, judged.verdict.value, rho) is not None for one in occasions
    )


def _of_cpu(occasion: Occasion) -> Occasion:
    """The same case on torch's CPU, whose numbers a backend has: what is known to be wrong there is
    a defect of torch's, not of the backend."""
    return replace(occasion, backend=_CPU.name, identity=_CPU.identity, as_cpu=True)


def _shares_cpu(metrics: Mapping[str, float]) -> bool:
    """Whether a failing result was found to be that of torch's CPU."""
    return metrics.get(AS_CPU, 0.0) == 1.0


def _as_cpu(metrics: Mapping[str, float]) -> bool:
    """Where nobody asked, no entry depends on it."""
    return metrics.get(AS_CPU, 1.0) == 1.0
