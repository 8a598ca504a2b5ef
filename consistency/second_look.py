"""The second look at a flagged result: run it again, otherwise, elsewhere, and find out what it is.

Everything that needs a tensor or a backend happens here; what it means for the verdict is for :func:`consistency.judge.reconsider`.
A healthy run never comes here, so that its cost does not matter: see the limits for runs in which everything fails.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from . import monte_carlo, operators
from .attribution import ENOUGH, Scene, explain
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

REPEATS = 3
SECONDS = 5.0  # for one result: what is slow is not tried as often
_BEYOND = 4.0  # ulp + G·u·S: answers further apart are different answers
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


class Looks:
    """How closely results are looked at: the first few of a kind in full, later ones only for the causes found in these.

    ``effort`` is the time (seconds) that full looks may take in all: where everything fails, nobody reads every cause.
    """

    def __init__(self, effort: float = 90.0, full: int = 3) -> None:
        self.effort, self.full = effort, full
        self._seen: dict[tuple[str, ...], int] = {}
        self._causes: dict[tuple[str, ...], set[str]] = {}

    def look(self, flagged: Flagged) -> Evidence:
        case = flagged.materials.case
        kind = (case.operator, case.dtype, flagged.direction, flagged.backend.name, flagged.found.verdict.value)
        count = self._seen[kind] = self._seen.get(kind, 0) + 1
        known = self._causes.setdefault(kind, set())
        began = time.monotonic()
        full = count <= self.full and self.effort > 0.0
        evidence = look(flagged, only=None if full else frozenset(known))
        if full:
            self.effort -= time.monotonic() - began
            if evidence.cause is not None:
                known.add(evidence.cause.name)
        return evidence


def look(flagged: Flagged, *, only: frozenset[str] | None = None) -> Evidence:
    """What can be found out about a flagged result. With ``only``, no causes but these are tried, and no work-arounds."""
    found = flagged.found
    evidence = Evidence(found.verdict.value)
    if found.verdict.value in ("crash", "timeout"):
        return evidence
    scene = _scene(flagged.reference, flagged.outcome, found)
    deadline = time.monotonic() + SECONDS
    if "random" not in flagged.operator.traits:
        evidence = _repeated(flagged, evidence, scene)
    if evidence.other and evidence.within:
        return replace(
            evidence, cause=Cause("nondeterministic", "an answer that changes from run to run", evidence.within / REPEATS)
        )
    if scene is not None and _may_be_ill_conditioned(flagged):
        evidence = _conditioned(flagged, evidence, scene)
    if scene is not None and only != frozenset():
        evidence = replace(evidence, cause=explain(scene, only=only))
    if only is not None:
        return evidence
    if found.verdict.value == "structure" and "was modified" in found.explanation:
        evidence = replace(evidence, cause=Cause("input-modified", "writing to an input", 1.0))
    trials: dict[str, float] = {}
    for words, trial in _trials(flagged):
        if time.monotonic() > deadline:
            break
        outcome = trial()
        if outcome is not None and outcome.status == "ok":
            trials[words] = flagged.rho(outcome)
    wide = _in_float64(flagged, scene, trials)
    same = _error_in_float64(scene, wide) if scene is not None and wide is not None else None
    evidence = replace(evidence, trials=trials, wide=same, company=_company(flagged, scene))
    if evidence.cause is None:
        evidence = replace(evidence, cause=_by_trial(flagged, evidence, scene))
    if evidence.cause is None and scene is not None and wide is not None:
        share = scene.share(wide)
        if share >= ENOUGH:
            evidence = replace(evidence, cause=Cause("approximation", "the formula itself, which errs alike in float64,", share))
    return evidence


def cause_of(reference: Reference, outcome: Outcome, found: Judgement) -> Cause | None:
    """What explains a failing judgement of tensors that came from elsewhere, without running anything there again."""
    scene = _scene(reference, outcome, found)
    return explain(scene) if scene is not None else None


def _scene(reference: Reference, outcome: Outcome, found: Judgement) -> Scene | None:
    """What there is to explain; None for results without comparable numbers."""
    value = found.verdict.value
    if value not in ("divergent", "special-values") or not reference.outputs:
        return None
    special, rho = value == "special-values", found.metrics.get("rho_max", 0.0)
    try:
        return Scene(reference, outcome, found.output, special=special, everywhere=not special and rho <= 1.0)
    except REFUSALS:
        return None


def _repeated(flagged: Flagged, evidence: Evidence, scene: Scene | None) -> Evidence:
    """The same call, three times more: how many gave another answer, and how many passed."""
    other = within = 0
    for _ in range(REPEATS):
        outcome = flagged.again()
        judgement = flagged.judged(compare(outcome, flagged.reference, flagged.baseline))
        passes = not judgement.verdict.fails
        within += passes
        other += passes or judgement.verdict != flagged.found.verdict or _differs(scene, outcome)
    return replace(evidence, repeats=REPEATS, other=other, within=within)


def _differs(scene: Scene | None, outcome: Outcome) -> bool:
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


def _may_be_ill_conditioned(flagged: Flagged) -> bool:
    """Functions of single elements have a right answer to the last bit; sums and factorisations are as good as their data."""
    traits, error = flagged.operator.traits, flagged.operator.error
    floating = flagged.materials.case.dtype in FORMATS
    return floating and error.kind == "accumulated" and "elementwise" not in traits and flagged.found.verdict.value == "divergent"


def _conditioned(flagged: Flagged, evidence: Evidence, scene: Scene) -> Evidence:
    if flagged.found.metrics.get("rho_max", 0.0) <= 1.0:
        return evidence  # only statistics objected, and these no element explains
    guilty, error = scene.guilty, np.abs(scene.actual - scene.expected)
    measure = functools.partial(monte_carlo.in_sigmas, index=scene.index, error=error, guilty=guilty)
    try:
        conditioned = measure(functools.partial(monte_carlo.perturbed, flagged.reference))
    except REFUSALS:
        conditioned = 0.0
    try:
        rounded = measure(functools.partial(monte_carlo.randomly_rounded, flagged.reference))
    except Exception:  # torch's decompositions raise whatever they like; then this was not looked at
        rounded = 0.0
    return replace(evidence, conditioned=conditioned, rounded=rounded)


# Trials: the same numbers, computed otherwise.


def _trials(flagged: Flagged) -> Iterator[tuple[str, Callable[[], Outcome | None]]]:
    tensors = flagged.reference.arguments.tensors
    if any(not t.is_contiguous() or t.storage_offset() for t in tensors) and not flagged.operator.mutates:
        yield ".contiguous() on the inputs", functools.partial(_contiguous, flagged)
    for words, backend in flagged.backend.variants().items():
        yield words, functools.partial(flagged.again, backend)
    if flagged.direction == "forward":
        for words, how in FORMULATIONS.get(flagged.operator.name, ()):
            yield words, functools.partial(flagged.again, _Reformulated(flagged.backend, how))


def _contiguous(flagged: Flagged) -> Outcome:
    return flagged.again(materials=_literal(flagged, lambda tensor: tensor.contiguous()))


def _literal(flagged: Flagged, change: Callable[[torch.Tensor], torch.Tensor]) -> Materials:
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


def _in_float64(flagged: Flagged, scene: Scene | None, trials: dict[str, float]) -> tuple[Output, ...] | None:
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


def _error_in_float64(scene: Scene, wide: tuple[Output, ...]) -> float | None:
    """The largest error in float64 as a share of the largest here, over the guilty elements."""
    seen = wide[scene.index].tensor if scene.index < len(wide) else None
    if seen is None or flat(seen).size != scene.expected.size:
        return None
    where = scene.guilty & scene.finite
    with np.errstate(all="ignore"):
        here = float(np.max(np.abs(scene.actual - scene.expected)[where], initial=0.0))
        there = float(np.max(np.abs(flat(seen) - scene.expected)[where], initial=0.0))
    return there / here if here > 0.0 else None


def _company(flagged: Flagged, scene: Scene | None) -> str:
    """Who else gives this answer, where at least three backends ran: names the one that stands alone."""
    others = {name: o for name, o in flagged.others.items() if name != flagged.backend.name and o.status == "ok"}
    if scene is None or len(others) < 2:
        return ""
    apart = [name for name, outcome in others.items() if _differs(scene, outcome) or flagged.rho(outcome) <= 1.0]
    if not apart:
        return f"all {len(others) + 1} backends give this answer"
    right = [name for name in apart if flagged.rho(others[name]) <= 1.0]
    if len(right) == len(others):
        who = " and ".join(right) if len(right) < 4 else f"{len(right)} others"
        return f"{flagged.backend.name} stands alone, {who} agree with float64"
    same = [name for name in others if name not in apart]
    return f"{' and '.join(same)} {'gives' if len(same) == 1 else 'give'} this answer too" if same else ""


def _by_trial(flagged: Flagged, evidence: Evidence, scene: Scene | None) -> Cause | None:
    """What no suspect explained but a change of circumstances did."""
    if evidence.trials.get(".contiguous() on the inputs", 2.0) <= 1.0:
        return Cause("depends-on-layout", "the layout of the inputs", 1.0)
    if scene is None or flagged.direction != "forward" or flagged.operator.mutates or scene.size < _CLEAR:
        return None
    for name, words, change, back in (
        ("depends-on-position", "the position of an element", _turned, _turned),
        ("depends-on-batch", "the size of the batch", lambda t: t.repeat(2, *[1] * (t.ndim - 1)), lambda t: t[: t.shape[0] // 2]),
    ):
        try:
            if _right_elsewhere(flagged, scene, change, back):
                return Cause(name, words, 1.0)
        except REFUSALS:
            continue
    return None


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    """All the other way round; rows only would leave a vector's tail where it is."""
    return tensor.flip(*range(tensor.ndim))


def _right_elsewhere(
    flagged: Flagged, scene: Scene, change: Callable[[torch.Tensor], torch.Tensor], back: Callable[[torch.Tensor], torch.Tensor]
) -> bool:
    """Whether all guilty elements come out right when the rows (of dimension 0) stand elsewhere.

    Only where rows are independent: the reference itself must give the same there.
    """
    rows = scene.shape[0] if scene.shape else 0
    if rows < 2:
        return False
    materials = _literal(flagged, lambda t: change(t) if t.ndim == len(scene.shape) and t.shape[0] == rows else t)
    truth = Reference(flagged.operator, materials, "forward")
    outcome = flagged.again(materials=materials)
    if outcome.status != "ok" or truth.outcome.status != "ok":
        return False
    moved = back(truth.outputs[scene.index].tensor)  # type: ignore[arg-type]
    seen = truth.observed(outcome.outputs)[scene.index].tensor
    if seen is None or tuple(moved.shape) != scene.shape:
        return False
    with np.errstate(all="ignore"):
        if (np.abs(flat(moved) - scene.expected) > scene.unit)[scene.finite].any():
            return False
        return bool((np.abs(flat(back(seen)) - scene.expected) <= _BEYOND * scene.unit)[scene.guilty].all())
