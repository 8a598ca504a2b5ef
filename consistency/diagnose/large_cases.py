"""Evaluation of a large case: every kept repetition of its outcome is judged as an outcome of the
small case, and the worst judgment is that of the large one."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ..backends.base import Backend, attempt
from ..backends.cpu import Cpu
from ..backends.large_outcome import KeptRepetition, repetitions
from ..core.model import DIRECTIONS, Case, Cause, Outcome, Result, Worst
from ..core.recipe import TensorRecipe
from ..core.tiling import Tiling, enlarged
from ..core.verdict import OutcomeStatus
from ..generate.calls.case_operator import operator_of
from ..generate.materialize import Materials, prepare
from ..judge.rules import Rules
from ..operators.declare import Operator
from ..reference import quiet
from . import evaluation
from .diagnosis_budget import DiagnosisBudget

_CPU = Cpu()
_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|bad_alloc", re.I)


def evaluate(
    case: Case,
    backends: Sequence[Backend],
    rules: Rules,
    *,
    directions: Iterable[str] = DIRECTIONS,
    operator: Operator | None = None,
    done: frozenset[tuple[str, str, str]] = frozenset(),
    diagnosis_budget: DiagnosisBudget | None = None,
    against: str = "float64",
) -> list[Result]:
    """Results of one large case on every backend and direction, except for those in ``done``.

    The worst repetition of a failure is diagnosed, as a result of the small case that nobody can
    run again: the large call is not repeated. Raises RecipeError, UsageError.
    """
    operator = operator or operator_of(case)
    tiling = case.tiling
    assert tiling is not None
    materials = prepare(case)
    small = replace(case, tiling=tiling.reduced)
    results: list[Result] = []
    for direction in directions:
        if direction == "backward" and not tiling.backward:
            continue
        requested = [b for b in backends if (case.id, b.name, direction) not in done]
        parts: list[KeptRepetition] = []
        with quiet():
            for backend in requested:
                outcome = attempt(backend, operator, materials, direction)
                if outcome.status == OutcomeStatus.RAISED:
                    outcome = _refused(outcome, operator, materials, direction)
                parts += repetitions(backend, outcome)
        judged = evaluation.evaluate(
            small, parts, rules, directions=(direction,), operator=operator, against=against
        )
        for backend in requested:
            pairs = [
                (part, result)
                for part, result in zip(parts, judged, strict=True)
                if part.name == backend.name
            ]
            part, worst = max(pairs, key=lambda pair: _badness(pair[1]))
            if worst.verdict.fails and diagnosis_budget is not None:
                again = functools.partial(
                    evaluation.evaluate, small, rules=rules, directions=(direction,),
                    operator=operator, against=against,
                )  # fmt: skip
                worst = _diagnosed(again, part, backend, diagnosis_budget)
            results.append(_of_large(case, tiling, part, worst, materials.sha256))
    return results


def _diagnosed(
    again: Callable[..., list[Result]],
    part: KeptRepetition,
    backend: Backend,
    budget: DiagnosisBudget,
) -> Result:
    """The judgment of the worst repetition with its cause. Where nothing reproduces its error, and
    the backend is right for the small case alone, the cause is the size of the call. ``again``
    evaluates the small case on some backends."""
    (result,) = again([part], diagnosis_budget=budget)
    evidence = result.evidence
    if not result.verdict.fails or evidence is None or evidence.cause or backend.is_recorded:
        return result
    (alone,) = again([backend])
    if not alone.verdict.passes:
        return result
    cause = Cause("depends-on-batch", "the size of the call", 1.0)
    text = f"{result.explanation}; {cause}"
    return replace(result, explanation=text, evidence=replace(evidence, cause=cause))


def _refused(outcome: Outcome, operator: Operator, materials: Materials, direction: str) -> Outcome:
    """A call that raised: memory that did not suffice says nothing about numbers, and a size that
    torch's CPU refuses, too, is not offered."""
    message = f"{outcome.exception}: {outcome.message}"
    if outcome.exception in ("MemoryError", "OutOfMemoryError") or _MEMORY.search(message):
        return Outcome(OutcomeStatus.INCONCLUSIVE, message=f"not enough memory: {message}")
    if attempt(_CPU, operator, materials, direction).status == OutcomeStatus.RAISED:
        text = f"torch refuses this size on the CPU, too: {message}"
        return Outcome(OutcomeStatus.UNSUPPORTED, message=text)
    return outcome


def _badness(result: Result) -> tuple[int, float]:
    """Failures, then known divergences, what was not tested, and passes; each by × budget."""
    verdict = result.verdict
    rank = 3 if verdict.fails else 2 if verdict.diverges else 1 if not verdict.tested else 0
    rho = result.metrics.get("rho_max", 0.0)
    return rank, rho if rho == rho else float("inf")


def _of_large(
    case: Case, tiling: Tiling, part: KeptRepetition, result: Result, sha256: str
) -> Result:
    """The judgment of one repetition as that of the large case."""
    text = result.explanation
    if result.verdict.diverges:
        text += f"; {tiling.size:,} along the repeated dimension, of period {tiling.period}"
    worst = result.worst and _moved(result.worst, result.output, tiling, part.position)
    shapes = tuple(str(list(shape)) for shape in _shapes(case, tiling))
    return replace(result, case=case, explanation=text, worst=worst, sha256=sha256, shapes=shapes)


def _shapes(case: Case, tiling: Tiling) -> Iterator[tuple[int, ...]]:
    """The shapes of the tensors."""
    for position, tensor in enumerate(case.tensors):
        dim = tiling.dims[position] if position < len(tiling.dims) else None
        shape = tensor.base if isinstance(tensor, TensorRecipe) else tensor.shape
        yield shape if dim is None else enlarged(shape, dim, tiling)


def _moved(worst: Worst, output: str, tiling: Tiling, position: int) -> Worst:
    """The worst element with its index in the large output."""
    kind, _, place = output.partition("/")
    dims = tiling.outs if kind == "out" else ()
    dim = dims[int(place)] if place.isdigit() and int(place) < len(dims) else None
    if dim is None or dim >= len(worst.index) or position < 0:
        return worst
    index, period = list(worst.index), tiling.period
    # One element or several of the result belong to each of the repeated dimension: only the
    # former is placed exactly.
    if index[dim] < period:
        index[dim] += position * period
    elif index[dim] < tiling.least:
        index[dim] += (tiling.size // period - 1) * period
    return replace(worst, index=tuple(index))
