"""Precision scaling: from float32 to float64 rounding errors shrink by about 2²⁹; errors of a wrong
formula do not.

Each float32 case has a *float64 counterpart*: the same recipe in float64, whose numbers agree to 24
bits and have full mantissas. Two rules:

- one-sided, per case: ``e64 ≤ max(1e-6 · e32, max(16, 4·G) · eps64 · max|ref|)``, where e is the
  largest absolute error of an output. Where sums cancel, S replaces \\|ref\\|: the error of a sum
  is relative to its terms, and grows with G (√n of n terms).
- two-sided, pooled: the geometric mean of RMS32/RMS64 over the cases with errors in both, at the
  same elements. Above 2³⁴ the float32 path is degraded (TF32 gives about 2⁴²), below 2²⁰ the
  float64 path is, if its own errors are larger than rounding makes them. The ratio alone proves
  nothing: a float32 variance that is summed in float64 is rounded once, while the float64 one has
  the errors of all its terms; and the error of the mean enters a variance squared, so that it
  shrinks by 2⁵⁸. Expected is 2²⁹; nine tenths of torch's CPU operators give 2.6e7 to 2.4e9.

0/0 is not informative. The float64 error is measured at elements whose exact value is certified, if
there are any. A two-sided limit per sample would reject half of all healthy ones, because many are
exact in one or both precisions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from ..backends.base import Backend, refusal
from ..core import recipe
from ..core.detail import PrecisionScaling
from ..core.model import Case, Outcome, Result
from ..core.recipe import TensorRecipe
from ..core.schema import row_type
from ..core.verdict import Verdict, VerdictKind
from ..errors import RecipeError
from ..generate.materialize import prepare
from ..judge.compare import compare
from ..operators.declare import Operator
from ..reference import Reference, quiet
from ..reference.high_precision import WORK
from ..reference.proofs import spots

EXPECTED = 2.0**29
LOWEST, HIGHEST = 2.0**20, 2.0**34
ENOUGH = 8  # pairs with errors in both precisions, needed for a mean
PROVED = 4  # elements of an output whose float64 error is measured
_SHRINKS = 1e-6
_EPS, _EPS32 = 2.0**-52, 2.0**-23
# x − tanh x is exact in float64 for large x, and never in float32
_EXACT_IN_FLOAT64 = ("nn.functional.tanhshrink",)
_FORMAT_DEPENDENT_CLASSES = (  # of values
    "subnormal",
    "tokens",
    "near",
    "every",
    "landmarks",
)


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


def float64_counterpart(case: Case) -> Case | None:
    """The same case in float64; None if its numbers would change: literals, or limits of the
    format."""

    def widened(value: recipe.Arg) -> recipe.Arg:
        match value:
            case TensorRecipe(dtype="float32"):
                if value.special or value.values[0] in _FORMAT_DEPENDENT_CLASSES:
                    raise RecipeError("numbers that depend on the format have no float64 twin")
                return replace(value, dtype="float64")
            case recipe.Literal():
                raise RecipeError("a literal tensor has no float64 twin")
            case recipe.DType("float32"):
                return recipe.DType("float64")
            case list():
                return [widened(item) for item in value]
            case tuple():
                return tuple(widened(item) for item in value)
        return value

    try:
        kwargs = {name: widened(value) for name, value in case.kwargs.items()}
        return Case(
            case.operator,
            "float64",
            tuple(map(widened, case.args)),
            kwargs,
            case.cotangent,
            cotangent_layout=case.cotangent_layout,
        )
    except RecipeError:
        return None


def applies(operator: Operator) -> bool:
    """Whether errors of this operator are rounding errors: not for data movement,
    discontinuities and random numbers."""
    return (
        operator.error.kind in ("rounded", "accumulated")
        and operator.alternatives is None
        and operator.name not in _EXACT_IN_FLOAT64
        and not operator.mutates
        and not operator.traits & {"random", "discontinuous", "ties"}
    )


@dataclass
class ScalingPool:
    """Collects pairs of one operator: add float32 results, then read the scalings."""

    operator: Operator
    backends: Mapping[str, Backend]
    _log_ratios: dict[str, list[float]] = field(default_factory=dict)
    _log_errors: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    _measured: dict[str, int] = field(default_factory=dict)
    _violations: dict[str, list[tuple[Case, float, float]]] = field(default_factory=dict)

    def add(self, results: Iterable[Result]) -> None:
        """Run the float64 counterpart of one case, given its float32 forward results."""
        backends = [
            self.backends[r.backend]
            for r in results
            if r.backend in self.backends and _is_comparable(r)
        ]
        case = next(iter(results)).case if backends else None
        double = float64_counterpart(case) if case is not None else None
        if case is None or double is None:
            return
        with quiet():
            try:
                self._pair(case, double, backends)
            except RecipeError:
                return

    def _pair(self, single: Case, double: Case, backends: Sequence[Backend]) -> None:
        ref32, ref64 = (
            Reference(self.operator, prepare(case), "forward") for case in (single, double)
        )
        if not ref32.outcome.ok or not ref64.outcome.ok:
            return
        for index, output in enumerate(ref64.outputs):
            if output.tensor is not None and output.tensor.dtype == torch.float64:
                ref64.proofs.settle(
                    index, spots(double.digest, index, output.tensor.numel(), PROVED), work=WORK
                )
        if not ref64.proofs.certificates:
            return
        for backend in backends:
            if refusal(backend, self.operator, "float64", "forward"):
                continue
            outcomes = [
                backend.run(self.operator, reference.materials) for reference in (ref32, ref64)
            ]
            if (
                all(outcome.ok for outcome in outcomes)
                and not compare(outcomes[1], ref64).structure
            ):
                self._record(backend.name, double, ref32, ref64, outcomes)

    def _record(
        self, name: str, case: Case, ref32: Reference, ref64: Reference, outcomes: Sequence[Outcome]
    ) -> None:
        self._measured[name] = self._measured.get(name, 0) + 1
        pairs = zip(
            ref32.observed(outcomes[0].outputs), ref64.observed(outcomes[1].outputs), strict=True
        )
        for index, (out32, out64) in enumerate(pairs):
            indices, e64 = ref64.proofs.errors(index, out64.tensor)
            e32 = _errors(ref32.outputs[index].tensor, out32.tensor, indices)
            finite = np.isfinite(e32) & np.isfinite(e64)
            if not finite.any():
                continue
            e32, e64 = e32[finite], e64[finite]
            rounding = _EPS * _largest_magnitude(ref64, index)
            if e32.any() and e64.any():
                self._log_ratios.setdefault(name, []).append(_log_rms(e32) - _log_rms(e64))
                single = _EPS32 * _largest_magnitude(ref32, index, grown=False)
                for dtype, errors, unit in (("float32", e32, single), ("float64", e64, rounding)):
                    if unit > 0.0:
                        error = _log_rms(errors) - math.log2(unit)
                        self._log_errors.setdefault((name, dtype), []).append(error)
            if e64.max() > _SHRINKS * e32.max() and e64.max() > 16.0 * rounding:
                self._violations.setdefault(name, []).append(
                    (case, float(e32.max()), float(e64.max()))
                )

    def scalings(self) -> tuple[Scaling, ...]:
        """One scaling per measured backend."""
        return tuple(
            Scaling(
                self.operator.name, name, count, len(logs := self._log_ratios.get(name, [])),
                _geometric_mean(logs, math.nan), tuple(self._violations.get(name, ())),
                _geometric_mean(self._log_errors.get((name, "float32"), []), math.inf),
                _geometric_mean(self._log_errors.get((name, "float64"), []), math.inf),
            )
            for name, count in self._measured.items()
        )  # fmt: skip


def _geometric_mean(logs: Sequence[float], none: float) -> float:
    """Of numbers whose logarithms to base 2 are given; ``none`` if there are none."""
    return 2.0 ** (sum(logs) / len(logs)) if logs else none


def _is_comparable(result: Result) -> bool:
    comparison = result.comparison
    return (
        result.direction == "forward"
        and comparison is not None
        and comparison.ok
        and not comparison.structure
    )


def _log_rms(errors: Any) -> float:
    """log2 of the root mean square, without overflow in the squares."""
    largest = float(errors.max())
    return math.log2(largest) + 0.5 * math.log2(float(np.mean((errors / largest) ** 2)))


def _errors(expected: torch.Tensor | None, actual: torch.Tensor | None, indices: Any) -> Any:
    """Absolute errors at flat ``indices``; NaN if tensors cannot be compared."""
    if (
        expected is None
        or actual is None
        or expected.shape != actual.shape
        or not expected.is_floating_point()
    ):
        return np.full(indices.size, np.nan)
    difference = (
        actual.detach().reshape(-1)[indices].to(torch.float64)
        - expected.detach().reshape(-1)[indices]
    )
    return difference.abs().numpy()


def _largest_magnitude(reference: Reference, index: int, grown: bool = True) -> float:
    """max \\|ref\\|, or the largest S if that is known and larger; if ``grown``, S × a quarter of
    the growth of a sum."""
    output = reference.outputs[index].tensor
    magnitude = _finite_max(output)
    magnitudes = reference.magnitudes
    term_sum: Any = magnitudes[index] if index < len(magnitudes) else None
    if term_sum is not None:
        magnitude = max(
            magnitude,
            (_finite_max(term_sum) if isinstance(term_sum, torch.Tensor) else float(term_sum))
            * (max(reference.growth(index) / 4.0, 1.0) if grown else 1.0),
        )
    return magnitude


def _finite_max(tensor: torch.Tensor | None) -> float:
    if tensor is None or not tensor.numel():
        return 0.0
    return float(torch.nan_to_num(tensor.abs(), nan=0.0, posinf=0.0).max())


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
