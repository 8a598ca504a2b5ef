"""Trials of the second look: the same numbers computed otherwise, elsewhere, in float64, and what follows for the cause."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from . import operators
from .attribution import ENOUGH, Scene
from .attribution.scene import REFUSALS, flat
from .backends.base import Backend
from .comparison import compare
from .dtypes import FORMATS, TORCH
from .formulations import FORMULATIONS
from .judge import Judgement
from .materialise import Materials, case_of, prepare
from .model import Cause, Comparison, Evidence, Outcome, Output
from .operators.declare import Operator
from .reference import Reference

CONTIGUOUS = ".contiguous() on the inputs"
_ROUNDED = 1e-6  # of an error, in float64: it shrank as rounding does
_BEYOND = 4.0  # ulp + G·u·S: answers further apart are different answers
_SEVERAL = 4  # elements that err alike in float64 before the formula is blamed
_CLEAR = 100.0  # the same unit: of smaller errors it cannot be told whether they are gone elsewhere


@dataclass(frozen=True)
class Flagged:
    """A failing result with all that made it; ``judged`` gives the judgement of another outcome of the same case."""

    operator: Operator
    materials: Materials
    direction: str
    backend: Backend
    outcome: Outcome
    reference: Reference
    baseline: Outcome
    found: Judgement
    judged: Callable[[Comparison], Judgement]
    others: Mapping[str, Outcome]

    def again(self, backend: Backend | None = None, materials: Materials | None = None, dtype: str | None = None) -> Outcome:
        return (backend or self.backend).run(self.operator, materials or self.materials, self.direction, dtype)

    def rho(self, outcome: Outcome) -> float:
        """× budget of another outcome; infinity where it fails in another way."""
        return _rho(self.judged(compare(outcome, self.reference, self.baseline)))


def _rho(judgement: Judgement) -> float:
    if judgement.verdict.fails and judgement.verdict.value != "divergent":
        return float("inf")
    rho = judgement.metrics.get("rho_max", 0.0)
    return max(rho, 1.0 + 1e-9) if judgement.verdict.fails else min(rho, 1.0)


def differs(scene: Scene | None, outcome: Outcome) -> bool:
    if scene is None or outcome.status != "ok":
        return False
    seen = scene.reference.observed(outcome.outputs)
    tensor = seen[scene.index].tensor if scene.index < len(seen) else None
    if tensor is None or tensor.numel() * (2 if tensor.is_complex() else 1) != scene.actual.size:
        return True
    values = flat(tensor)
    with np.errstate(all="ignore"):
        apart = np.abs(values - scene.actual) > _BEYOND * scene.unit
    return bool((apart & np.isfinite(scene.actual)).any() or (np.isnan(values) != np.isnan(scene.actual)).any())


def trials(flagged: Flagged) -> Iterator[tuple[str, Callable[[], Outcome | None]]]:
    tensors = flagged.reference.arguments.tensors
    if any(not t.is_contiguous() or t.storage_offset() for t in tensors) and not flagged.operator.mutates:
        yield CONTIGUOUS, functools.partial(_contiguous, flagged)
    for words, backend in flagged.backend.variants().items():
        yield words, functools.partial(flagged.again, backend)
    if flagged.direction == "forward":
        for words, how in FORMULATIONS.get(flagged.operator.name, ()):
            yield words, functools.partial(flagged.again, _Reformulated(flagged.backend, how))


def _contiguous(flagged: Flagged) -> Outcome:
    return flagged.again(materials=literal_case(flagged, lambda tensor: tensor.contiguous()))


def literal_case(flagged: Flagged, change: Callable[[torch.Tensor], torch.Tensor]) -> Materials:
    """The case with each tensor changed and given literally."""
    case = flagged.materials.case
    arguments = flagged.materials.build()

    def walk(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return change(value).clone(memory_format=torch.contiguous_format)
        return type(value)(walk(item) for item in value) if isinstance(value, (list, tuple)) else value

    kwargs = {name: walk(value) for name, value in arguments.kwargs.items()}
    return prepare(case_of(case.operator, case.dtype, tuple(map(walk, arguments.args)), kwargs, case.cotangent))


class _Reformulated(Backend):
    """A backend on which one operator is composed of others."""

    def __init__(self, inner: Backend, how: Callable[..., Any]) -> None:
        self.inner, self.how = inner, how
        self.name, self.device = inner.name, inner.device

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        def named(name: str, *a: Any, **k: Any) -> Any:
            return self.inner.call(operators.get(name), a, k)

        return self.how(named, *args, **kwargs)

    def switches(self) -> Any:
        return self.inner.switches()

    def finish(self) -> None:
        self.inner.finish()


def in_float64(flagged: Flagged, scene: Scene | None, trials: dict[str, float]) -> tuple[Output, ...] | None:
    """What the backend gives for the same numbers in float64; also tried as a work-around."""
    dtype = flagged.materials.case.dtype
    if scene is None or dtype not in FORMATS or dtype == "float64" or flagged.backend.has_float64() is False:
        return None
    if flagged.backend.unsupported(flagged.operator, "float64", flagged.direction):
        return None
    outcome = flagged.again(dtype="float64")
    if outcome.status != "ok":
        return None
    narrow = tuple(
        replace(o, tensor=o.tensor.to(TORCH[dtype]), dtype=dtype) if o.tensor is not None and o.dtype == "float64" else o
        for o in outcome.outputs
    )
    trials["computing in float64"] = flagged.rho(replace(outcome, outputs=narrow))
    try:
        return flagged.reference.observed(outcome.outputs)
    except REFUSALS:
        return None


def error_in_float64(scene: Scene, wide: tuple[Output, ...]) -> float | None:
    """The largest error in float64 as a share of the largest here, over the guilty elements."""
    seen = wide[scene.index].tensor if scene.index < len(wide) else None
    if seen is None or flat(seen).size != scene.expected.size:
        return None
    where = scene.guilty & scene.finite
    with np.errstate(all="ignore"):
        here = float(np.max(np.abs(scene.actual - scene.expected)[where], initial=0.0))
        there = float(np.max(np.abs(flat(seen) - scene.expected)[where], initial=0.0))
    return there / here if here > 0.0 else None


def company(flagged: Flagged, scene: Scene | None) -> str:
    """Who else gives this answer, where at least three backends ran: names the one that stands alone."""
    others = {name: o for name, o in flagged.others.items() if name != flagged.backend.name and o.status == "ok"}
    if scene is None or len(others) < 2:
        return ""
    apart = [name for name, outcome in others.items() if differs(scene, outcome) or flagged.rho(outcome) <= 1.0]
    if not apart:
        return f"all {len(others) + 1} backends give this answer"
    right = [name for name in apart if flagged.rho(others[name]) <= 1.0]
    if len(right) == len(others):
        who = " and ".join(right) if len(right) < 4 else f"{len(right)} others"
        return f"{flagged.backend.name} stands alone, {who} agree with float64"
    same = [name for name in others if name not in apart]
    return f"{' and '.join(same)} {'gives' if len(same) == 1 else 'give'} this answer too" if same else ""


def by_trial(flagged: Flagged, evidence: Evidence, scene: Scene | None) -> Cause | None:
    """What no suspect explained but a change of circumstances did: an element's result depends on its own inputs only."""
    if evidence.trials.get(CONTIGUOUS, 2.0) <= 1.0:
        return Cause("depends-on-layout", "the layout of the inputs", 1.0)
    if ", only in the " in flagged.found.explanation:  # the first or last elements, and no others
        return Cause("depends-on-position", "the position of an element", 1.0)
    if scene is None or flagged.direction != "forward" or flagged.operator.mutates or scene.size < _CLEAR:
        return None
    row = _guilty_row(scene)
    if row is not None and _differs_elsewhere(flagged, scene, lambda t: t[row : row + 1], np.s_[row : row + 1]):
        return Cause("depends-on-batch", "the size of the batch", 1.0)
    turned = (slice(None, None, -1),) * len(scene.shape)
    if _differs_elsewhere(flagged, scene, lambda t: t.flip(*range(t.ndim)), turned):
        return Cause("depends-on-position", "the position of an element", 1.0)
    if _differs_elsewhere(flagged, scene, lambda t: t.flip(0), turned[:1]):
        return Cause("depends-on-position", "the position of a row", 1.0)
    return None


def _guilty_row(scene: Scene) -> int | None:
    """A row (of dimension 0) that is wrong as a whole; None where rows are wrong in places."""
    if len(scene.shape) < 2 or scene.guilty.size != np.prod(scene.shape):
        return None
    shares = scene.guilty.reshape(scene.shape[0], -1).mean(1)
    return int(np.argmax(shares)) if shares.max() > 0.5 and shares[shares > 0.0].min() > 0.5 else None


def _has_rows(tensor: torch.Tensor, scene: Scene, first: torch.Tensor | None) -> bool:
    fits = tensor.ndim > 0 and tensor.shape[0] == scene.shape[0]
    return fits and (tensor.ndim == len(scene.shape) if first is None else tensor.shape == first.shape)


def _differs_elsewhere(flagged: Flagged, scene: Scene, change: Callable[[torch.Tensor], torch.Tensor], where: Any) -> bool:
    """Whether results differ by more than rounding when the rows of the inputs stand elsewhere, or alone.

    ``where`` are the same elements among the results so far. Only for independent rows: the reference must not differ.
    """
    rows = scene.shape[0] if scene.shape else 0
    if rows < 2 or scene.actual.size != np.prod(scene.shape):
        return False
    try:
        alone = "elementwise" not in flagged.operator.traits  # of a product's factors, the first has the rows
        first = flagged.reference.arguments.tensors[0]
        materials = literal_case(flagged, lambda t: change(t) if _has_rows(t, scene, first if alone else None) else t)
        truth = Reference(flagged.operator, materials, "forward")
        outcome = flagged.again(materials=materials)
        if outcome.status != "ok" or truth.outcome.status != "ok":
            return False
        wanted, seen = truth.outputs[scene.index].tensor, truth.observed(outcome.outputs)[scene.index].tensor
        expected, before, unit = (v.reshape(scene.shape)[where].reshape(-1) for v in (scene.expected, scene.actual, scene.unit))
        if wanted is None or seen is None or flat(wanted).size != expected.size or flat(seen).size != expected.size:
            return False
    except REFUSALS:
        return False
    with np.errstate(all="ignore"):
        finite = np.isfinite(expected) & np.isfinite(before)
        if (np.abs(flat(wanted) - expected) > unit)[finite].any():
            return False
        return bool((np.abs(flat(seen) - before) > _BEYOND * unit)[finite].any())


def by_precision(flagged: Flagged, evidence: Evidence, scene: Scene | None, wide: tuple[Output, ...] | None) -> Cause | None:
    """What the same backend's answer in float64 tells: the same error is the formula's, none at all is an amplified rounding."""
    if scene is None or wide is None:
        return None
    share = scene.share(wide)
    if share >= ENOUGH and not scene.special and np.count_nonzero(scene.guilty) >= _SEVERAL:
        return Cause("approximation", "the formula itself, which errs alike in float64,", share)
    right = evidence.trials.get("computing in float64", 2.0) <= 1.0
    if right and scene.special and np.isfinite(scene.expected[scene.guilty]).any():
        return Cause("early-overflow", "an intermediate that leaves the format", 1.0)
    if right and evidence.wide is not None and evidence.wide < _ROUNDED and "elementwise" in flagged.operator.traits:
        return Cause("approximation", "a formula that amplifies rounding", 1.0 - evidence.wide)
    return None
