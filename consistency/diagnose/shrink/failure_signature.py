"""The signature of a failure, which a smaller case must share with the original, and diagnoses
restricted to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...core.model import Cause, Evidence, Result, Worst
from .. import diagnosis
from ..diagnosis_budget import DiagnosisBudget
from ..experiments import FlaggedResult

_LARGE_RHO, _MIN_RHO = 100.0, 10.0  # × budget: an original above the first stays above the second
_FLOAT64_RATIO_TOLERANCE = 0.1  # relative, of the float64 error ratio
_FIT_TOLERANCE = 0.02  # relative, of a fitted factor or summand


def initial_verdict(result: Result) -> str:
    """The verdict before diagnosis."""
    return result.evidence.initial_verdict if result.evidence is not None else result.verdict.value


@dataclass(frozen=True)
class FailureSignature:
    """What a smaller case must share with the original: both verdicts and the cause.

    ``cause_found``: diagnosing the original here finds the cause again; otherwise smaller cases
    need not have it. ``worst`` (an element) and ``float64_error_ratio`` identify a fitted cause
    (factor, summand, formula) where too few numbers remain to fit it again. ``min_rho`` is a lower
    limit of × budget: a case that barely fails is not convincing.
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
        """The signature of ``original`` and its rerun ``again``.

        The cause of a large case was read off one of its repetitions, which another size need not
        have.
        """
        tiling = original.case.tiling
        of_one_part = tiling is not None and tiling.is_large
        cause = "" if of_one_part else original.cause or again.cause
        evidence = again.evidence
        causes = [
            r.evidence.cause
            for r in (original, again)
            if r.evidence is not None and r.evidence.cause is not None
        ]
        return FailureSignature(
            initial_verdict(original), original.verdict.value, cause,
            not of_one_part and again.cause == cause, flaky,
            again.worst or original.worst,
            evidence.float64_error_ratio if evidence is not None else None,
            causes[0] if causes and not of_one_part else None,
            _MIN_RHO if again.metrics.get("rho_max", 0.0) > _LARGE_RHO else 0.0,
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
        """Whether the worst element, where too few are left to fit a cause, has the same factor
        (or summand, or bound) as before."""
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
                <= _FLOAT64_RATIO_TOLERANCE * self.float64_error_ratio
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
                reference, fitted = (a / e - 1.0 for a, e in pair)
            case "offset-added":
                reference, fitted = (a - e for a, e in pair)
            case "saturated":
                reference, fitted = (abs(a) for a, _ in pair)
            case _:
                return False
        return abs(fitted - reference) <= _FIT_TOLERANCE * abs(reference)


class SingleCauseDiagnosis(DiagnosisBudget):
    """A diagnosis that looks for one cause only, and only if the initial verdict is the expected
    one."""

    def __init__(self, verdict: str, cause: str) -> None:
        super().__init__()
        self._initial_verdict, self._only = verdict, (cause,) if cause else ()

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        verdict = flagged.judgment.verdict.value
        if verdict != self._initial_verdict:
            return Evidence(verdict)
        return diagnosis.diagnose(
            flagged, only=self._only, quick=self._only not in (("stale",), ("nondeterministic",))
        )


class CausePreservingDiagnosis(DiagnosisBudget):
    """A full diagnosis of the smallest case that preserves the cause of the larger ones.

    A few numbers may fit another cause by chance or be too few to find any, so the larger case
    decides, even if it ruled out every cause.
    """

    def __init__(self, signature: FailureSignature) -> None:
        super().__init__()
        self._signature = signature

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        evidence, signature = super().diagnose(flagged), self._signature
        if (
            signature.flaky
            or not (signature.cause or signature.cause_found)
            or (evidence.cause.name if evidence.cause is not None else "") == signature.cause
        ):
            return evidence
        cause = (
            diagnosis.diagnose(flagged, only=(signature.cause,)).cause
            if signature.cause and signature.cause_found
            else None
        )
        return replace(evidence, cause=cause or signature.known)
