"""How the errors of an operator scale on a backend, when that is a problem, and in which words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ...core.detail import PrecisionScaling
from ...core.model import Case, Result
from ...core.schema import row_type
from ...core.verdict import Verdict, VerdictKind
from .counterpart import float64_counterpart

LOWEST, HIGHEST = 2.0**20, 2.0**34
ENOUGH = 8  # pairs with errors in both precisions, needed for a mean


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the errors of one operator scale on one backend. ``ratio`` is the pooled RMS32/RMS64 (NaN
    if ``pairs`` is 0).

    ``measured`` cases had a reference above float64; ``pairs`` of them have errors in both
    precisions. ``float32_error`` and ``float64_error`` are the pooled RMS errors in units of what
    rounding explains: eps32 · max(\\|ref\\|, S) and eps64 · max(\\|ref\\|, S · G / 4).
    ``violations`` are float64 counterparts that violate the one-sided rule, with both
    errors.
    """

    operator: str
    backend: str
    measured: int = 0
    pairs: int = 0
    ratio: float = math.nan
    violations: tuple[tuple[Case, float, float], ...] = ()
    float32_error: float = math.inf
    float64_error: float = math.inf
    told: str = ""  # the problem, if read from a bundle, which does not store the violations

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Scaling:
        """The inverse of :meth:`to_json`, without violations. Raises ValueError, KeyError or
        TypeError for malformed data."""
        measured, pairs, ratio = (
            int(row["measured"]),
            int(row["pairs"]),
            float(row.get("ratio", math.nan)),
        )
        if pairs and not 0.0 < ratio < math.inf:
            raise ValueError(f"{ratio} is no ratio of errors")
        return Scaling(
            str(row["operator"]),
            str(row["backend"]),
            measured,
            pairs,
            ratio,
            float32_error=float(row.get("float32_error", math.inf)),
            float64_error=float(row.get("float64_error", math.inf)),
            told=str(row.get("problem", "")),
        )

    def to_json(self) -> dict[str, Any]:
        """A row for a bundle; a ratio that was not measured is omitted."""
        errors = {"float32_error": self.float32_error, "float64_error": self.float64_error}
        row = {
            "operator": self.operator,
            "backend": self.backend,
            "measured": self.measured,
            "pairs": self.pairs,
        }
        return (
            row
            | ({"ratio": self.ratio} if self.pairs else {})
            | {name: value for name, value in errors.items() if math.isfinite(value)}
            | ({"problem": self.problem} if self.problem else {})
        )

    @property
    def direction(self) -> str:
        """What is out of bounds: ``case`` (single cases), ``float64``, ``float32``, or nothing."""
        if self.violations:
            return "case"
        if self.pairs >= ENOUGH and self.ratio < LOWEST and self.float64_error > 1.0:
            return "float64"
        degraded = self.pairs >= ENOUGH and self.ratio > HIGHEST and self.float32_error > 1.0
        return "float32" if degraded else ""

    @property
    def problem(self) -> str:
        """The problem in a sentence; empty if there is none."""
        if self.told:
            return self.told
        if self.direction == "case":
            _, e32, e64 = max(self.violations, key=_error_ratio)
            many = f"{len(self.violations)} of {self.measured} cases"
            return (
                f"float64 errs by {e64:.3g} where float32 errs by {e32:.3g} ({many}): it does "
                f"not shrink as rounding would"
            )
        if self.direction == "float64":
            return (
                f"float64 is only {power(self.ratio)} as precise as float32 ({self.pairs} "
                f"cases): its path is degraded"
            )
        if self.direction == "float32":
            return (
                f"float64 is {power(self.ratio)} as precise as float32 ({self.pairs} cases): "
                f"the float32 path is degraded"
            )
        return ""


ScalingRow = row_type(
    Scaling, "operator", "backend", "measured", "pairs", "ratio", "float32_error", "float64_error"
)


def _error_ratio(violation: tuple[Case, float, float]) -> float:
    return violation[2] / max(violation[1], 1e-300)


def power(ratio: float) -> str:
    """``2^29.1 times``."""
    return f"2^{math.log2(ratio):.1f} times"


def failure(scaling: Scaling, case: Case, family: str) -> Result:
    """A scaling out of bounds as a result: of the worst violation, or, if the mean is off, of
    the counterpart of ``case``."""
    worst = (
        max(scaling.violations, key=_error_ratio)[0]
        if scaling.violations
        else float64_counterpart(case) or case
    )
    numbers = {"scaling_ratio": scaling.ratio, "scaling_pairs": float(scaling.pairs)}
    metrics = MappingProxyType(
        {name: value for name, value in numbers.items() if not math.isnan(value)}
    )
    return Result(
        worst,
        scaling.backend,
        "forward",
        Verdict(VerdictKind.PRECISION_SCALING),
        scaling.problem,
        metrics,
        family,
        detail=PrecisionScaling(scaling.direction),
    )


def summary(scalings: Sequence[Scaling]) -> str:
    """One line: number of measured operators, median ratio, and how many are out of bounds."""
    ratios = sorted(s.ratio for s in scalings if s.pairs >= 1)
    if not ratios:
        return ""
    off = sum(bool(s.problem) for s in scalings)
    median = ratios[len(ratios) // 2]
    text = (
        f"float32 error ÷ float64 error: median 2^{math.log2(median):.1f} over {len(ratios)} "
        f"operators × backends"
    )
    return f"{text} (rounding: 2^29), {off or 'none'} out of bounds"
