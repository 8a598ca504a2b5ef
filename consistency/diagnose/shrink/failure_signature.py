"""The signature of a failure, which a smaller case must share with the original, and diagnoses that
look for nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...core.model import Cause, Evidence, Result, Worst
from .. import diagnosis
from ..diagnosis import DiagnosisBudget
from ..experiments import FlaggedResult

_HUGE, _CLEAR = 100.0, 10.0  # × budget: what began so large shall not end below this
_SAME_WIDE = 0.1  # relative: an error that float64 has as well
_SAME_FIT = 0.02  # relative: a factor or a summand that is the same one


def initial_verdict(result: Result) -> str:
    """The verdict of the first look, before anything was found out about it."""
    return result.evidence.initial_verdict if result.evidence is not None else result.verdict.value


@dataclass(frozen=True)
class FailureSignature:
    """What a smaller case must have in common with the original: both verdicts and the cause.

    ``cause_found``: the cause is found by a diagnosis of the original here and now. Where it is not
    (it was found elsewhere, or in a larger case), it cannot be asked of smaller ones. By ``worst``,
    an element, and ``wide``, the error in float64, a fitted cause (a factor, a summand, a formula)
    is recognized where too few numbers are left to find it anew. ``min_rho`` is the × budget below
    which a case may not come: what just fails convinces nobody.
    """

    initial_verdict: str
    verdict: str
    cause: str = ""
    cause_found: bool = True
    flaky: bool = False
    worst: Worst | None = None
    float64_error_ratio: float | None = None
    known: Cause | None = None
    min_rho: float = 0.0

    @staticmethod
    def of(original: Result, again: Result, *, flaky: bool) -> FailureSignature:
        """What ``original`` was found to be, there, and ``again``, here."""
        cause = original.cause or again.cause
        evidence = again.evidence
        known = [
            r.evidence.cause
            for r in (original, again)
            if r.evidence is not None and r.evidence.cause is not None
        ]
        return FailureSignature(
            initial_verdict(original), original.verdict.value, cause, again.cause == cause, flaky,
            again.worst or original.worst,
            evidence.float64_error_ratio if evidence is not None else None,
            known[0] if known else None,
            _CLEAR if again.metrics.get("rho_max", 0.0) > _HUGE else 0.0,
        )  # fmt: skip

    def met_by(self, result: Result) -> bool:
        if (
            not result.verdict.fails
            or initial_verdict(result) != self.initial_verdict
            or result.metrics.get("rho_max", self.min_rho) < self.min_rho
        ):
            return False
        if self.flaky:
            return True
        if result.verdict.value != self.verdict:
            return False
        return (
            not self.cause
            or not self.cause_found
            or result.cause == self.cause
            or self._same_fit(result)
        )

    def _same_fit(self, result: Result) -> bool:
        """Whether one wrong number, too few to find a factor by, is off by the same factor (or
        summand, or bound)."""
        worst, evidence = result.worst, result.evidence
        if worst is None or self.worst is None or evidence is None or evidence.cause is not None:
            return False
        if (
            self.cause == "approximation"
            and self.float64_error_ratio is not None
            and evidence.float64_error_ratio is not None
        ):
            return (
                abs(evidence.float64_error_ratio - self.float64_error_ratio)
                <= _SAME_WIDE * self.float64_error_ratio
            )
        if self.cause == "nan-dropped":
            return (
                all(math.isnan(w.expected) for w in (worst, self.worst))
                and worst.actual == self.worst.actual
            )
        pair = (self.worst.actual, self.worst.expected), (worst.actual, worst.expected)
        if not all(math.isfinite(v) for values in pair for v in values):
            return False
        match self.cause:
            case "scaled" if self.worst.expected and worst.expected:
                before, now = (a / e - 1.0 for a, e in pair)
            case "offset-added":
                before, now = (a - e for a, e in pair)
            case "saturated":
                before, now = (abs(a) for a, _ in pair)
            case _:
                return False
        return abs(now - before) <= _SAME_FIT * abs(before)


class SingleCauseDiagnosis(DiagnosisBudget):
    """A diagnosis that looks for one cause only, and only where the initial verdict is the expected
    one."""

    def __init__(self, first: str, cause: str) -> None:
        super().__init__()
        self._first, self._only = first, (cause,) if cause else ()

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        found = flagged.judgment.verdict.value
        if found != self._first:
            return Evidence(found)
        return diagnosis.diagnose(
            flagged, only=self._only, quick=self._only not in (("stale",), ("nondeterministic",))
        )


class CausePreservingDiagnosis(DiagnosisBudget):
    """A full diagnosis of the smallest case, which keeps the cause that every step kept.

    A few numbers may fit another cause by accident, or be too few to find any: the larger case told
    more. Nor is there a cause where the larger case contradicted them all.
    """

    def __init__(self, signature: FailureSignature) -> None:
        super().__init__()
        self._signature = signature

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        evidence, signature = super().diagnose(flagged), self._signature
        if (
            signature.flaky
            or (evidence.cause.name if evidence.cause is not None else "") == signature.cause
        ):
            return evidence
        carried = (
            diagnosis.diagnose(flagged, only=(signature.cause,)).cause
            if signature.cause and signature.cause_found
            else None
        )
        return replace(evidence, cause=carried or signature.known)
