"""The errors of an operator's cases in float32 and in float64, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...backends.base import Backend, refusal
from ...core.model import Case, Outcome, Result
from ...errors import RecipeError
from ...generate.materialize import prepare
from ...judge.compare import compare
from ...operators.declare import Operator
from ...reference import Reference, quiet
from ...reference.high_precision import WORK
from ...reference.proofs import spots
from .counterpart import float64_counterpart
from .scaling import Scaling

PROVED = 4  # elements of an output whose float64 error is measured
SHRINKS = 1e-6  # the largest part of the float32 error that the float64 error may be
_EPS, _EPS32 = 2.0**-52, 2.0**-23


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
        for index, e32, e64 in paired_errors(ref32, ref64, outcomes):
            rounding = _EPS * largest_magnitude(ref64, index)
            if e32.any() and e64.any():
                self._log_ratios.setdefault(name, []).append(_log_rms(e32) - _log_rms(e64))
                single = _EPS32 * largest_magnitude(ref32, index, grown=False)
                for dtype, errors, unit in (("float32", e32, single), ("float64", e64, rounding)):
                    if unit > 0.0:
                        error = _log_rms(errors) - math.log2(unit)
                        self._log_errors.setdefault((name, dtype), []).append(error)
            if e64.max() > SHRINKS * e32.max() and e64.max() > 16.0 * rounding:
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


def paired_errors(
    ref32: Reference, ref64: Reference, outcomes: Sequence[Outcome]
) -> Iterator[tuple[int, Any, Any]]:
    """(output, absolute float32 errors, absolute float64 errors) of a float32 case and its
    counterpart at the elements whose exact value is certified and where both are finite."""
    pairs = zip(
        ref32.observed(outcomes[0].outputs), ref64.observed(outcomes[1].outputs), strict=True
    )
    for index, (out32, out64) in enumerate(pairs):
        indices, e64 = ref64.proofs.errors(index, out64.tensor)
        e32 = _errors(ref32.outputs[index].tensor, out32.tensor, indices)
        finite = np.isfinite(e32) & np.isfinite(e64)
        if finite.any():
            yield index, e32[finite], e64[finite]


def _geometric_mean(logs: Sequence[float], none: float) -> float:
    """Of numbers whose logarithms to base 2 are given, as far as float64 holds it: memory that
    nobody wrote to may be anything. ``none`` if there are none."""
    return 2.0 ** min(max(sum(logs) / len(logs), -1022.0), 1023.0) if logs else none


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


def largest_magnitude(reference: Reference, index: int, grown: bool = True) -> float:
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
