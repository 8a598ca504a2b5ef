"""What a new entry says of its failures, and the evidence for it in words."""

from __future__ import annotations

import glob
import math
from collections.abc import Sequence
from typing import Any

from ...core.model import Result
from ...judge.known.entries import RATE_DESCRIBED
from .predicate_evidence import PredicateEvidence, PredicateTrials
from .predicate_search import Narrowed

HEADROOM = 4.0  # × the largest error observed: max_rho of a new entry
SENSELESS = 1e6  # × budget: no digit is right
_WITH_SIZE = frozenset({"divergent", "precision-scaling", "reduced-precision"})


def often(failed: int, runs: int) -> str:
    kind = (
        "always"
        if failed == runs
        else f"flaky, {failed / runs:.0%} of the runs"
        if failed
        else "not at all"
    )
    more = "" if failed else "; what is written rests on where it did"
    return f"fails here in {failed} of {runs} runs: {kind}{more}"


def entry_fields(target: Result, evidence: PredicateEvidence, narrowed: Narrowed) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operator": glob.escape(target.operator), "dtype": target.dtype,
        "direction": target.direction,
        "when": narrowed.when or None, "backend": glob.escape(target.backend),
        "verdicts": sorted(evidence.verdicts),
    }  # fmt: skip
    worst = largest(evidence, narrowed)
    if evidence.verdicts <= _WITH_SIZE and 0.0 < worst <= SENSELESS:
        said["max_rho"] = max(_round_up(HEADROOM * worst), 1.0)
    if narrowed.passing:
        said["rate"] = float(f"{max(narrowed.rate, 0.001):.2g}")
    elif narrowed.least_rate > RATE_DESCRIBED:  # more than the default rate of an entry
        said["rate"] = math.floor(100.0 * narrowed.least_rate) / 100.0
    return said


def largest(evidence: PredicateEvidence, narrowed: Narrowed) -> float:
    """The largest × budget among the failing cases that a condition covers."""
    inside = [
        case
        for case in evidence.failing.values()
        if narrowed.when == "" or evidence.holds(narrowed.when, case)
    ]
    return max((evidence.rho.get(case.id, 0.0) for case in inside), default=0.0)


def _round_up(number: float) -> float:
    """Round up to two significant digits."""
    scale = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / scale - 1e-9) * scale:.2g}")


def reason_of(target: Result) -> str:
    cause = target.evidence.cause if target.evidence is not None else None
    return str(cause) if cause is not None else target.explanation.split("; ")[0][:160]


def covers(narrowed: Narrowed) -> str:
    passing = (
        f"{narrowed.passing or 'none'} of {narrowed.of_passing:,} that pass"
        if narrowed.of_passing
        else "nothing was seen to pass"
    )
    return f"covers {narrowed.failing:,} of {narrowed.of_failing:,} failing cases, {passing}"


def notes_of(
    fields: dict[str, Any],
    narrowed: Narrowed,
    evidence: PredicateEvidence,
    trials: PredicateTrials | None,
) -> Sequence[str]:
    runs = f"; {trials.ran:,} runs here" if trials is not None else ""
    notes = [f"{covers(narrowed)}{runs}"]
    if trials is not None and trials.out_of_time and not trials.stood:
        notes.append(
            "the time was up before the condition had stood a round of new cases; --seconds 60s "
            "tries more"
        )
    if not narrowed.when:
        notes.append(
            "no condition tells the failing cases from the others"
            if narrowed.passing
            else "no condition is needed, or known"
            if trials is not None
            else "nothing was run here, so no condition says which cases pass: all are covered"
        )
    if "max_rho" in fields:
        worst = largest(evidence, narrowed)
        notes.append(
            f"max_rho is {HEADROOM:g} × the largest error seen, {worst:.3g} × budget; what errs "
            "more still fails"
        )
    if "rate" in fields and not narrowed.passing and not fields.get("flaky"):
        notes.append(
            f"rate: {narrowed.failing:,} failures and no pass show (95% certain) that at least "
            f"{fields['rate']:.0%} fail"
        )
    return notes
