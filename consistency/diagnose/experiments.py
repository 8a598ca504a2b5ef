"""Experiments of a diagnosis: the same numbers with another layout, formula or backend variant,
or in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..backends.base import Backend
from ..backends.runtimes import GRAPH_EVALUATORS
from ..core.detail import BrokenContract
from ..core.dtypes import PARTS, TORCH, beside, floats
from ..core.model import Comparison, Outcome, Output
from ..core.verdict import VerdictKind
from ..generate.literal_copies import literal_copy
from ..generate.materialize import Materials
from ..judge.compare import compare
from ..judge.judgment import Judgment
from ..operators.declare import Operator
from ..operators.formulas import FORMULAS
from ..operators.refusals import REFUSALS
from ..reference import Reference
from .attribution import MIN_SHARE, AttributionContext
from .attribution.simulation import Doubles, flat

CONTIGUOUS = ".contiguous() on the inputs"
_MIN_DISTINCT = 4  # numbers: fewer may be those of a shorter format by chance
DIFFERENT_ANSWER = 4.0  # ulp + G·u·S: larger differences are different answers


@dataclass(frozen=True)
class FlaggedResult:
    """A failing result with all its inputs; ``judge_comparison`` judges another outcome of the
    same case."""

    operator: Operator
    materials: Materials
    direction: str
    backend: Backend
    outcome: Outcome
    reference: Reference
    baseline: Outcome
    judgment: Judgment
    judge_comparison: Callable[[Comparison], Judgment]
    others: Mapping[str, Outcome]

    def rerun(
        self,
        backend: Backend | None = None,
        materials: Materials | None = None,
        dtype: str | None = None,
    ) -> Outcome:
        return (backend or self.backend).run(
            self.operator, materials or self.materials, self.direction, dtype
        )

    def rho(self, outcome: Outcome) -> float:
        """× budget of another outcome; infinity if it fails in another way."""
        if not isinstance(self.judgment.detail, BrokenContract):
            outcome = replace(outcome, contract=None)  # other inputs or steps, other strides
        return _rho(self.judge_comparison(compare(outcome, self.reference, self.baseline)))


def _rho(judgment: Judgment) -> float:
    if judgment.verdict.fails and judgment.verdict.kind is not VerdictKind.DIVERGENT:
        return float("inf")
    rho = judgment.metrics.get("rho_max", 0.0)
    return max(rho, 1.0 + 1e-9) if judgment.verdict.fails else min(rho, 1.0)


def differs(context: AttributionContext | None, outcome: Outcome) -> bool:
    """Whether the outcome gives a different answer at the flagged output."""
    if context is None or not outcome.ok:
        return False
    observed = context.reference.observed(outcome.outputs)
    tensor = observed[context.index].tensor if context.index < len(observed) else None
    if tensor is None or tensor.numel() * (2 if tensor.is_complex() else 1) != context.actual.size:
        return True
    if context.whole:  # float64 does not tell large ones apart
        return context.raw is None or not torch.equal(tensor, context.raw)
    values = flat(tensor)
    with np.errstate(all="ignore"):
        different = np.abs(values - context.actual) > DIFFERENT_ANSWER * context.unit
    return bool(
        (different & np.isfinite(context.actual)).any()
        or (np.isnan(values) != np.isnan(context.actual)).any()
    )


def accumulates(context: AttributionContext | None, outcomes: Sequence[Outcome]) -> bool:
    """Whether each answer is the correct one plus the previous answer (or plus the correct
    answer): a buffer that was not cleared."""
    if context is None or not np.isfinite(context.expected).all() or not context.expected.any():
        return False
    tensors = [
        context.reference.observed(o.outputs)[context.index].tensor
        for o in outcomes
        if o.status == "ok"
    ]
    values = [flat(t) for t in tensors if t is not None]
    if (
        len(values) < len(outcomes)
        or len(values) < 2
        or any(v.size != context.expected.size for v in values)
    ):
        return False
    tolerance = (1.0 - MIN_SHARE) * np.linalg.norm(context.expected)
    differences = [later - context.expected for later in values[1:]]
    growing = all(
        np.linalg.norm(a - earlier) <= tolerance
        for a, earlier in zip(differences, values, strict=False)
    )
    return growing or all(np.linalg.norm(a - context.expected) <= tolerance for a in differences)


def experiments(flagged: FlaggedResult) -> Iterator[tuple[str, Callable[[], Outcome | None]]]:
    """Named experiments that rerun the case: contiguous inputs, backend variants,
    decompositions."""
    tensors = flagged.reference.arguments.tensors
    if (
        any(not t.is_contiguous() or t.storage_offset() for t in tensors)
        and not flagged.operator.mutates
    ):
        yield CONTIGUOUS, functools.partial(_run_contiguous, flagged)
    for name, backend in flagged.backend.variants().items():
        if name in GRAPH_EVALUATORS:  # another program, which nobody can use instead
            continue
        yield name, functools.partial(flagged.rerun, backend)
    if flagged.direction == "forward":
        for name, formula in FORMULAS.get(flagged.operator.name, ()):
            yield (
                name,
                functools.partial(flagged.rerun, flagged.backend.with_decomposition(name, formula)),
            )


def _run_contiguous(flagged: FlaggedResult) -> Outcome:
    return flagged.rerun(materials=literal_case(flagged, lambda tensor: tensor.contiguous()))


def literal_case(
    flagged: FlaggedResult, change: Callable[[torch.Tensor], torch.Tensor]
) -> Materials:
    """The case with ``change`` applied to each tensor, as literals."""
    return literal_copy(flagged.materials, lambda tensor, _: change(tensor))


def run_in_float64(
    flagged: FlaggedResult, context: AttributionContext | None, trial_rhos: dict[str, float]
) -> tuple[Output, ...] | None:
    """Outputs of the backend for the same numbers in float64; their × budget is added to the
    experiments."""
    dtype = flagged.materials.case.dtype
    if (
        context is None
        or not floats(dtype)
        or dtype in ("float64", "complex128")
        or flagged.backend.has_float64() is False
    ):
        return None
    if flagged.backend.unsupported(flagged.operator, "float64", flagged.direction):
        return None
    outcome = flagged.rerun(dtype="float64")
    if not outcome.ok or _in_name_only(context, outcome):
        return None
    target_dtypes = {"float64": PARTS.get(dtype, dtype), "complex128": beside(dtype)}
    rounded = tuple(
        replace(o, tensor=o.tensor.to(TORCH[target_dtypes[o.dtype]]), dtype=target_dtypes[o.dtype])
        if o.tensor is not None and o.dtype in target_dtypes
        else o
        for o in outcome.outputs
    )
    trial_rhos["computing in float64"] = flagged.rho(replace(outcome, outputs=rounded))
    try:
        return flagged.reference.observed(outcome.outputs)
    except REFUSALS:
        return None


def _in_name_only(context: AttributionContext, outcome: Outcome) -> bool:
    """Whether float64 was computed in the tested dtype: its numbers are numbers of that dtype,
    where the right ones are not, and they err no more than n of its roundings (or truncations)
    do. Then float64 shows nothing about the formula: it was not used.
    """
    observed = context.reference.observed(outcome.outputs)
    tensor = observed[context.index].tensor if context.index < len(observed) else None
    if tensor is None or flat(tensor).size != context.expected.size:
        return False
    values = flat(tensor)
    where = context.finite & np.isfinite(values) & (values != 0.0)
    narrow = TORCH[context.dtype]

    def held(numbers: Doubles) -> Doubles:
        rounded = torch.from_numpy(numbers[where]).to(narrow).to(torch.float64).numpy()
        return np.asarray(rounded == numbers[where])

    if np.unique(values[where]).size < _MIN_DISTINCT or not held(values).all():
        return False
    if 2 * np.count_nonzero(held(context.expected)) > np.count_nonzero(where):
        return False
    limit = 2.0 * max(context.reference.growth(context.index), 1.0) * context.unit
    return bool((np.abs(values - context.expected) <= limit)[where].all())


def float64_error_ratio(
    context: AttributionContext, float64_outputs: tuple[Output, ...]
) -> float | None:
    """The largest float64 error divided by the largest error, over the failing elements."""
    tensor = float64_outputs[context.index].tensor if context.index < len(float64_outputs) else None
    if tensor is None or flat(tensor).size != context.expected.size:
        return None
    where = context.failing & context.finite
    with np.errstate(all="ignore"):
        error_here = float(np.max(np.abs(context.actual - context.expected)[where], initial=0.0))
        float64_error = float(np.max(np.abs(flat(tensor) - context.expected)[where], initial=0.0))
    return float64_error / error_here if error_here > 0.0 else None


def backend_agreement(flagged: FlaggedResult, context: AttributionContext | None) -> str:
    """Which other backends give this answer, if at least three ran."""
    others = {
        name: o
        for name, o in flagged.others.items()
        if name != flagged.backend.name and o.status == "ok"
    }
    if context is None or len(others) < 2:
        return ""
    different = [
        name
        for name, outcome in others.items()
        if differs(context, outcome) or flagged.rho(outcome) <= 1.0
    ]
    if not different:
        return f"all {len(others) + 1} backends give this answer"
    correct = [name for name in different if flagged.rho(others[name]) <= 1.0]
    if len(correct) == len(others):
        names = " and ".join(correct) if len(correct) < 4 else f"{len(correct)} others"
        return f"only {flagged.backend.name} is off: {names} match float64"
    agreeing = [name for name in others if name not in different]
    return (
        f"{' and '.join(agreeing)} {'gives' if len(agreeing) == 1 else 'give'} this answer too"
        if agreeing
        else ""
    )
