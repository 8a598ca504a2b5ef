"""Run the contestants of a sweep at every point, compare with float64 (or better), and collect the
measurements for charts and findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ...backends.base import Backend
from ...backends.with_decomposition import DecomposedBackend
from ...core.model import Outcome
from ...diagnose.backend_rules import judgment
from ...generate.materialize import prepare
from ...judge import tolerances
from ...judge.compare import compare
from ...reference import Reference, quiet
from ...reference.high_precision import refine
from .expressions import Compiled, compiled
from .plans import SCALE, SweepPlan
from .points import Vary


@dataclass(frozen=True)
class Measurement:
    """One contestant at one point: its absolute errors (``rms``, ``largest``), largest error in
    ``ulp`` and × budget (``rho``), and its verdict. ``budget`` is the budget at the worst element.

    ``apart`` and ``differing`` compare with the first contestant: the largest difference, and the
    fraction of elements that differ.
    """

    value: float
    dtype: str
    contestant: str
    verdict: str
    rms: float = math.nan
    largest: float = math.nan
    ulp: float = math.nan
    rho: float = math.nan
    budget: float = math.nan
    apart: float = math.nan
    differing: float = math.nan
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            key: value
            for key, value in asdict(self).items()
            if not (isinstance(value, float) and math.isnan(value)) and value != ""
        }


@dataclass(frozen=True)
class Series:
    """All measurements, with values in rising order for each dtype and contestant."""

    plan: SweepPlan
    vary: Vary
    fixed: Mapping[str, float]
    contestants: tuple[str, ...]
    dtypes: tuple[str, ...]
    measurements: tuple[Measurement, ...]

    def of(self, contestant: str, dtype: str) -> list[Measurement]:
        return [m for m in self.measurements if m.contestant == contestant and m.dtype == dtype]


def measure(
    plan: SweepPlan, vary: Vary, backends: Sequence[Backend], formulas: Mapping[str, str], *,
    fixed: Mapping[str, float] | None = None,
    dtypes: Sequence[str] = ("float32", "float64"), seed: int = 0,
    rules: tolerances.Tolerances | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Series:  # fmt: skip
    """Measure every contestant: each backend, and each formula on the first backend. Raises
    UsageError for an invalid formula."""
    rules = rules or tolerances.load()
    fixed = {**plan.usual, **(fixed or {})}
    names = [*plan.arguments, *plan.usual]
    spelled = plan.spelled if formulas else {}
    ready = {label: compiled(text, names, spelled) for label, text in formulas.items()}
    contestants = [*(b.name for b in backends), *ready]
    measurements: list[Measurement] = []
    total, done = len(vary.values) * len(dtypes), 0
    with quiet():
        for value in vary.values:
            sizes = {**fixed, vary.name: value}
            for dtype in dtypes:
                measurements += _point(plan, value, sizes, dtype, backends, ready, seed, rules)
                done += 1
                if progress is not None:
                    progress(done, total)
    return Series(plan, vary, fixed, tuple(contestants), tuple(dtypes), tuple(measurements))


def _point(
    plan: SweepPlan, value: float, sizes: Mapping[str, float], dtype: str,
    backends: Sequence[Backend], formulas: Mapping[str, Compiled],
    seed: int, rules: tolerances.Tolerances,
) -> Iterator[Measurement]:  # fmt: skip
    operator, case = plan.declared, plan.case(dtype, sizes, seed)
    materials = prepare(case)
    reference = Reference(operator, materials, "forward")
    refine(reference, "float64")
    contestants = [(b.name, b) for b in backends]
    contestants += [
        (label, _formula_backend(backends[0], formula, plan.arguments, sizes))
        for label, formula in formulas.items()
    ]
    first: torch.Tensor | None = None
    for label, backend in contestants:
        outcome = backend.run(operator, materials)
        if first is None:
            first = _tensor(outcome)
        comparison = compare(outcome, reference)
        judged = judgment(operator, backend, "forward", None, reference, rules, comparison)
        numbers, output = judged.metrics, comparison.outputs[0] if comparison.outputs else None
        largest, rho = numbers.get("abs_max", math.nan), numbers.get("rho_max", math.nan)
        max_difference, differing = _difference(first, _tensor(outcome))
        yield Measurement(
            value, dtype, label, judged.verdict.value,
            output.rms if output is not None else math.nan, largest,
            numbers.get("ulp_max", math.nan), rho, largest / rho if rho else math.nan,
            max_difference, differing,
            "" if output is not None else judged.explanation,
        )  # fmt: skip


def _formula_backend(
    inner: Backend, formula: Compiled, arguments: Sequence[str], sizes: Mapping[str, float]
) -> Backend:
    """``inner`` with a user's formula in place of the operator; the formula can use the sizes by
    name."""
    integer_sizes = {name: int(size) for name, size in sizes.items() if name != SCALE}
    backend = DecomposedBackend(
        inner,
        lambda call, *args, **kwargs: formula(
            {**integer_sizes, **dict(zip(arguments, args, strict=False))}
        ),
    )
    backend.tolerance_key = inner.tolerance_key or inner.name
    return backend


def _tensor(outcome: Outcome) -> torch.Tensor | None:
    return outcome.outputs[0].tensor if outcome.outputs else None


def _difference(first: torch.Tensor | None, other: torch.Tensor | None) -> tuple[float, float]:
    if first is None or other is None or first.shape != other.shape or not first.numel():
        return math.nan, math.nan
    gap = (other.to(torch.float64) - first.to(torch.float64)).abs()
    return float(gap.max()), float((gap != 0).double().mean())
