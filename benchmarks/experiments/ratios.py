"""float32 errors beside float64 errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import consistency
from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Case, Outcome
from consistency.diagnose import precision_scaling
from consistency.diagnose.attribution import fewer_bits
from consistency.diagnose.evaluation import evaluate
from consistency.diagnose.precision_scaling.pool import largest_magnitude, paired_errors
from consistency.generate import search
from consistency.judge import tolerances
from consistency.reference import Reference

from .tables import table


class Pairs(precision_scaling.ScalingPool):
    """Keeps the pairs of errors: (float32, float64, float64 ÷ (eps·max S))."""

    def __init__(self, operator: operators.Operator, backends: Any) -> None:
        super().__init__(operator, backends)
        self.pairs: list[tuple[float, float, float]] = []

    def _record(
        self, name: str, case: Case, ref32: Reference, ref64: Reference, outcomes: Sequence[Outcome]
    ) -> None:
        super()._record(name, case, ref32, ref64, outcomes)
        for index, e32, e64 in paired_errors(ref32, ref64, outcomes):
            largest = largest_magnitude(ref64, index)
            relative = float(e64.max()) / (2.0**-52 * largest) if largest else 0.0
            self.pairs.append((float(e32.max()), float(e64.max()), relative))


class Shorter(consistency.Backend):
    """float32 from TF32 inputs, or float64 from float32 arithmetic."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.name, self.dtype = "TF32" if dtype == torch.float32 else "float64 in float32", dtype

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.dtype != self.dtype:
                return value
            return (
                fewer_bits.rounded(value.double(), 11).float()
                if self.dtype == torch.float32
                else value.float()
            )

        changed = [change(arg) for arg in args]
        result = super().call(
            operator, changed, {name: change(value) for name, value in kwargs.items()}
        )
        return result.to(args[0].dtype)


def pool(name: str, backend: Any, examples: int, seed: int = 11) -> Pairs:
    operator = operators.get(name)
    kept = Pairs(operator, {backend.name: backend})
    rules = tolerances.load()
    for case in search.batch(operator, "float32", examples, seed):
        if precision_scaling.float64_counterpart(case) is not None:
            kept.add(evaluate(case, [backend], rules, directions=("forward",)))
    return kept


def scaled() -> None:
    """Every operator that the rule applies to, 24 cases each, on the CPU; then two degraded
    backends on some operators."""
    ratios, few, pairs, violations, measured = (
        [],
        [],
        list[tuple[float, float, float]](),
        list[str](),
        0,
    )
    for name, operator in operators.registry().items():
        if (
            not precision_scaling.applies(operator)
            or "float32" not in operator.dtypes
            or "float64" not in operator.dtypes
        ):
            continue
        kept = pool(name, Cpu(), 24)
        pairs += kept.pairs
        for found in kept.scalings():
            measured += found.measured
            if found.violations:
                violations.append(f"{name} ({len(found.violations)} of {found.measured})")
            if found.pairs:
                (ratios if found.pairs >= precision_scaling.ENOUGH else few).append(found.ratio)
    logs = np.log2(ratios)
    quantiles = np.percentile(logs, [0, 5, 50, 95, 100])
    text = ", ".join(f"2^{q:.1f} ({2**q:.2g})" for q in quantiles)
    print(
        f"{measured} cases; pooled ratio of {len(ratios)} operators with at least 8 pairs: "
        f"least, 5%, median, 95%, most: {text}"
    )
    outside = sum(r < precision_scaling.LOWEST or r > precision_scaling.HIGHEST for r in ratios)
    both = [p for p in pairs if p[0] > 0.0 and p[1] > 0.0]
    window = sum(not 1e6 <= a / b <= 1e10 for a, b, _ in both) + sum(
        (a == 0.0) != (b == 0.0) for a, b, _ in pairs
    )
    exact = sum(a == 0.0 and b == 0.0 for a, b, _ in pairs)
    only = sum(a > 0.0 and b == 0.0 for a, b, _ in pairs)
    also = sum(r < precision_scaling.LOWEST or r > precision_scaling.HIGHEST for r in few)
    print(f"pooled window [2^20, 2^34]: {outside} outside (with fewer pairs: {also} of {len(few)})")
    print(
        f"single pairs: {len(pairs)}; exact in both {exact}, in float64 only {only}; outside of "
        f"[1e6, 1e10] or 0/e: {window}"
    )
    print(
        f"one-sided rule: {len(violations)} operators break it: {', '.join(violations) or 'none'}"
    )
    quotients = sorted(b / a for a, b, _ in both)
    floors = sorted(s for _, b, s in pairs if b > 0.0)
    print(
        f"e64/e32 where both err: median {quotients[len(quotients) // 2]:.2g}, largest "
        f"{quotients[-1]:.2g}"
    )
    middle, high = floors[len(floors) // 2], floors[int(0.99 * len(floors))]
    print(f"e64/(eps64·max S): median {middle:.2g}, 99% {high:.2g}, largest {floors[-1]:.2g}")
    alone = [sum(b > limit * a for a, b, _ in pairs) for limit in (1e-8, 1e-7, 1e-6, 1e-5)]
    print(f"pairs beyond 1e-8, 1e-7, 1e-6, 1e-5 · e32, were there no floor: {alone}\n")
    rows: list[Sequence[Any]] = []
    for name in ("matmul", "sum", "exp", "nn.functional.layer_norm"):
        for dtype in (torch.float32, torch.float64):
            rows += [
                (
                    name,
                    found.backend,
                    found.pairs,
                    precision_scaling.power(found.ratio),
                    found.problem.split("(")[0].strip() or "–",
                )
                for found in pool(name, Shorter(dtype), 16).scalings()
            ]
    table(["operator", "backend", "pairs", "pooled ratio", "what the rule says"], rows)
