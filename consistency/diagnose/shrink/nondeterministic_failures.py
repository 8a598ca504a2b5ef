"""Failures that are not a judgment of a single outcome: nondeterminism, and errors that do not
scale with precision.

*Nondeterminism* (:mod:`consistency.diagnose.determinism`): a smaller case must differ between calls
in the same way. *Precision scaling* (:mod:`consistency.diagnose.precision_scaling`): a smaller
float32 recipe must violate the rule together with its float64 counterpart; a mean over many cases
has no smaller case.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import MappingProxyType

from ...core.detail import Nondeterministic, PrecisionScaling
from ...core.model import Case, Result
from ...core.recipe import TensorRecipe
from ...core.verdict import VerdictKind
from ...errors import RecipeError
from ...generate import search
from .. import determinism, precision_scaling
from ..backend_rules import policy_of
from ..diagnosis_budget import DiagnosisBudget
from .failure_predicate import FailurePredicate

_REPEATS = 5


def is_nondeterministic(result: Result) -> bool:
    """Whether the result reports different bits from another call, thread count or batch, and no
    wrong numbers."""
    return (
        result.verdict.kind is VerdictKind.NONDETERMINISTIC
        and result.evidence is None
        and bool(kind_of(result))
    )


def kind_of(result: Result) -> str:
    return result.detail.kind if isinstance(result.detail, Nondeterministic) else ""


class RepeatPredicate(FailurePredicate):
    """Judges whether a case gives different bits in another call (thread count, batch), like the
    original."""

    kind = ""  # of determinism.KINDS

    def judged(self, case: Case, diagnosis_budget: DiagnosisBudget | None = None) -> Result:
        self.calls += 1
        self._report_progress()
        check = determinism.RepeatCheck(self.operator, _REPEATS)
        try:
            check.add(case, self.direction, [self.backend])
        except RecipeError as error:
            return self.inconclusive(case, f"the case cannot be built: {error}")
        policy = policy_of(self.operator, self.backend, case.dtype, self.rules)
        for repeatability in check.found():
            failed = (
                determinism.failure(repeatability, self.operator, policy.nondeterminism)
                if repeatability.kind == self.kind
                else None
            )
            if failed is not None:
                return failed
        return self.inconclusive(case, "the same bits came out again")


def is_precision_scaling(result: Result) -> bool:
    """Whether the result reports that float64 errors are not as much smaller than float32 errors
    as rounding predicts."""
    return (
        result.verdict.kind is VerdictKind.PRECISION_SCALING
        and result.evidence is None
        and not result.cause
    )


def smaller_scaling(
    result: Result, predicate: FailurePredicate, seconds: float, examples: int, seed: int
) -> Result | None:
    """The smallest float64 counterpart that violates the one-sided rule; None if the mean over
    many cases is out of bounds."""
    per_case = result.detail == PrecisionScaling("case")
    if result.metrics.get("scaling_ratio") is not None and not per_case:
        return None
    failures: dict[str, Result] = {}

    def breaks(single: Case) -> bool:
        failed = _violation(predicate, single)
        if failed is not None:
            failures[single.digest] = failed
        return failed is not None

    deadline = time.monotonic() + seconds
    start = _float32_case(result.case)
    if start is None or not breaks(start):
        return None
    smallest = search.smallest(
        predicate.operator,
        "float32",
        breaks,
        examples=examples,
        seed=seed,
        seconds=max(deadline - time.monotonic(), 0.0),
    )
    return failures[(smallest or start).digest]


def _violation(predicate: FailurePredicate, single: Case) -> Result | None:
    pool = precision_scaling.ScalingPool(
        predicate.operator, {predicate.backend.name: predicate.backend}
    )
    result = predicate.judged(single)
    pool.add([result])
    for scaling in pool.scalings():
        if scaling.violations:
            failed = precision_scaling.failure(scaling, single, predicate.operator.family)
            return replace(failed, metrics=MappingProxyType(dict(failed.metrics)))
    return None


def _float32_case(case: Case) -> Case | None:
    """The float32 case of which ``case`` is the float64 counterpart."""

    def swap(value: object) -> object:
        if isinstance(value, TensorRecipe) and value.dtype == "float64":
            return replace(value, dtype="float32")
        return (
            type(value)([swap(item) for item in value])
            if isinstance(value, (list, tuple))
            else value
        )

    kwargs = {name: swap(value) for name, value in case.kwargs.items()}
    narrow = replace(case, dtype="float32", args=tuple(map(swap, case.args)), kwargs=kwargs)
    counterpart = precision_scaling.float64_counterpart(narrow)
    return narrow if counterpart is not None and counterpart.digest == case.digest else None
