"""Details of results in bundles of earlier versions, which kept them in their sentences alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...core.detail import (
    BeyondStatistics,
    Detail,
    HarnessFailed,
    ModifiedInput,
    Nondeterministic,
    PrecisionScaling,
    ReferenceRaised,
    ReferenceWrong,
    TimedOut,
    Unproved,
)
from ...core.verdict import verdict_name

_TIMED_OUT = re.compile(r"no answer within ([0-9.]+) s")
_MODIFIED = re.compile(r"argument ([0-9]+) was modified")
_OTHER_BITS = {
    "from run to run": "runs",
    "with another number of threads": "threads",
    "alone as in a batch": "batch",
}


def old_detail(row: Mapping[str, Any]) -> Detail | None:
    """The detail that the sentence of a result's row tells; None where it tells none."""
    verdict, text = verdict_name(str(row["verdict"])), str(row["explanation"])
    match verdict:
        case "timeout":
            return _timed_out(text)
        case "structure":
            return _modified_input(text)
        case "nondeterministic":
            return next(
                (
                    Nondeterministic(k)
                    for w, k in _OTHER_BITS.items()
                    if f"other bits {w} in" in text
                ),
                None,
            )
        case "precision-scaling":
            return _scaling(text)
        case "error":
            return ReferenceRaised() if "where the reference raised" in text else None
        case "inconclusive" if text.startswith("the harness itself failed to judge this case"):
            return HarnessFailed()
        case "inconclusive" if text.startswith(("inconclusive: ", "undecidable: ")):
            return Unproved()
    if text.startswith("float64 on the CPU is itself off"):
        return ReferenceWrong()
    _, but, statistic = text.partition(" × budget, but ")
    return BeyondStatistics(statistic[:400]) if but else None


def old_comparison_detail(data: Mapping[str, Any]) -> Detail | None:
    """The same of a comparison."""
    if data.get("status") == "timeout":
        return _timed_out(str(data.get("note", "")))
    return _modified_input(str(data.get("structure", "")))


def _timed_out(text: str) -> Detail | None:
    match = _TIMED_OUT.search(text)
    return TimedOut(float(match[1])) if match is not None else None


def _modified_input(text: str) -> Detail | None:
    match = _MODIFIED.search(text)
    return ModifiedInput(int(match[1])) if match is not None else None


def _scaling(text: str) -> Detail | None:
    if "does not shrink" in text:
        return PrecisionScaling("case")
    if "the float32 path is degraded" in text:
        return PrecisionScaling("float32")
    return PrecisionScaling("float64") if "its path is degraded" in text else None
