"""budget ÷ max|ref| of the shipped cases, without reading a tolerance.

The CPU's result is given an error in one element, and the judge says how many budgets that error
is. The error is three quarters of max|ref|, the largest finite element of the reference, toward the
other sign: so it never leaves the format, and makes no zero, which may stand for what underflows.
budget ÷ max|ref| is then ¾ ÷ (× budget).
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from consistency import backends, operators
from consistency.core.model import Case, Outcome, Output
from consistency.diagnose import evaluation
from consistency.diagnose.backend_rules import judgment
from consistency.errors import ConsistencyError
from consistency.generate.materialize import prepare
from consistency.generate.shipped.cases import cases
from consistency.judge.compare import compare
from consistency.judge.judgment import Judgment
from consistency.judge.tolerances import Tolerances, load
from consistency.operators.declare import Operator
from consistency.reference import Reference, perturbation, quiet
from consistency.reference.proofs import spots
from tests.support.paths import ROOT

ELEMENTS = 3  # of every output of a case
ERROR = 0.75  # × max|ref|
SAMPLES = 6  # of inputs and of steps that are rounded at random
# budget ÷ max|ref| beyond which a case is looked into; half precision has 2⁻¹¹ or 2⁻⁸ for one
# rounding
LIMITS = {"float32": 2.0**-8, "float16": 0.5, "bfloat16": 0.5}
CPU = backends.resolve("cpu")
_NO_ERROR = 1e-300  # of an error that no budget notices
Fact = dict[str, Any]
Doubles = npt.NDArray[np.float64]

rules = functools.cache(lambda: load(ROOT / "tolerances.yaml"))


def entries(patterns: list[str]) -> Iterator[tuple[Operator, str, str]]:
    """Every operator × dtype × direction with a budget; forms of an operator have its rules."""
    for operator in operators.registry().values():
        if operator.callable is None or operator.form_of is not None:
            continue
        if operator.error.kind in ("exact", "structure"):
            continue
        if patterns and not any(fnmatch.fnmatchcase(operator.name, p) for p in patterns):
            continue
        for dtype in LIMITS:
            if dtype in operator.dtypes:
                yield operator, dtype, "forward"
                if evaluation.differentiates(operator, dtype):
                    yield operator, dtype, "backward"


def measured(operator: Operator, dtype: str, direction: str) -> Fact:
    """The row of an entry: of each case the facts about the element with the largest budget."""
    found: list[Fact] = []
    problem = ""
    for case in cases(operator, dtype):
        with quiet():
            try:
                facts = list(budgets(operator, case, direction, rules()))
            except (ConsistencyError, RuntimeError, LookupError, ValueError, TypeError) as error:
                problem = f"{type(error).__name__}: {str(error)[:120]}"
                continue
        if facts:
            found.append(max(facts, key=lambda fact: fact["ratio"]) | {"case": case.id})
    return {"operator": operator.name, "family": operator.ruled_by[1], "dtype": dtype,
    "direction": direction, "cases": found, "problem": problem}  # fmt: skip


def budgets(operator: Operator, case: Case, direction: str, rules: Tolerances) -> Iterator[Fact]:
    """Facts about some elements of each floating-point output: ``ratio`` is budget ÷ max|ref|, and
    ``largest`` max|ref|. Beyond the limit, in the same unit: ``error``, the largest error of the
    CPU in this output; ``rounding``, how far it moves where every input, or every step, is rounded
    at random; ``magnitude``, the element's S, None where it has no bound. ``terms`` is n, a number;
    ``judged``: whether the change of the element changes × budget; ``flushed``: whether the changed
    element is right where subnormal inputs are taken for zero; ``stated``: whether the rule has a
    bound of its own, with its source."""
    reference = Reference(operator, prepare(case), direction)
    outcome = CPU.run(operator, reference.materials, direction)
    if not outcome.ok or not reference.outcome.ok:
        return
    name, family = operator.ruled_by
    rule = rules.rule(name, case.dtype, family=family, direction=direction, backend="cpu")
    for index, output in enumerate(outcome.outputs):
        wanted = reference.outcome.outputs[index].tensor if index < len(reference.outputs) else None
        if output.tensor is None or wanted is None or wanted.shape != output.tensor.shape:
            continue
        if output.dtype not in LIMITS or not wanted.numel():
            continue
        numbers = _flat(wanted)
        finite = np.flatnonzero(np.abs(numbers) <= float(torch.finfo(output.tensor.dtype).max))
        scale = float(np.abs(numbers[finite]).max(initial=0.0))
        if scale == 0.0:
            continue
        for place in spots(case.digest, index, finite.size, ELEMENTS):
            position = int(finite[place])
            error = (-ERROR if numbers[position] > 0.0 else ERROR) * scale
            wrong = numbers[position] + error
            judged = judged_with(outcome, index, position, wrong, reference, rules)
            found = ratio(judged)
            fact: Fact = {"ratio": found, "largest": scale, "output": index}
            if found > LIMITS[output.dtype]:
                fact["stated"] = rule.absolute is not None or bool(rule.ranges)
                fact["error"] = largest_change([output], numbers, 0) / scale
                fact["rounding"] = rounded_at_random(reference, index, numbers) / scale
                size = magnitude(reference, index, position)
                fact["magnitude"] = None if size is None else size / scale
                fact["terms"] = reference.terms(index)
                fact["flushed"] = not judged.metrics.get("rho_max") and "flushed" in judged.metrics
                unchanged = ratio(judged_with(outcome, index, position, None, reference, rules))
                fact["judged"] = abs(found / unchanged - 1.0) > 1e-9 if unchanged else True
            yield fact


def magnitude(reference: Reference, index: int, position: int) -> float | None:
    """S of an element, 0 where the error model has none; None where it is not finite."""
    found = reference.magnitudes[index] if index < len(reference.magnitudes) else None
    if isinstance(found, torch.Tensor):
        numbers = _flat(found)
        found = float(numbers[position]) if position < numbers.size else None
    found = 0.0 if found is None else found
    return found if np.isfinite(found) else None


def _flat(tensor: torch.Tensor) -> Doubles:
    return tensor.detach().to(torch.float64).reshape(-1).numpy()


def largest_change(outputs: Sequence[Output], numbers: Doubles, index: int) -> float:
    """max|output − numbers| over its finite elements; 0 where it has another shape."""
    tensor = outputs[index].tensor if index < len(outputs) else None
    if tensor is None or tensor.numel() != numbers.size:
        return 0.0
    with np.errstate(all="ignore"):
        change = np.abs(_flat(tensor) - numbers)
    return float(np.nan_to_num(change, nan=0.0, posinf=0.0).max(initial=0.0))


def rounded_at_random(reference: Reference, index: int, numbers: Doubles) -> float:
    """How far an output moves where its inputs, or its steps, are rounded at random."""
    moved = 0.0
    for sample in (perturbation.with_perturbed_inputs, perturbation.with_random_rounding):
        generator = perturbation.seeded_generator()
        for _ in range(SAMPLES):
            try:
                outputs = sample(reference, generator)
            except (RuntimeError, LookupError, ValueError, TypeError, NotImplementedError):
                break  # a step that has no decomposition, or inputs that it refuses
            moved = max(moved, largest_change(outputs, numbers, index))
    return moved


def judged_with(
    outcome: Outcome, index: int, position: int, value: float | None, reference: Reference,
    rules: Tolerances,
) -> Judgment:  # fmt: skip
    """The judgment of the outcome with ``value`` at one position of output ``index``; of the
    unchanged one without."""
    output = outcome.outputs[index]
    assert output.tensor is not None
    changed = output.tensor.detach().clone(memory_format=torch.contiguous_format)
    if value is not None:
        changed.view(-1)[position] = value
    outputs = list(outcome.outputs)
    outputs[index] = replace(output, tensor=changed)
    baseline = compare(outcome, reference)
    return judgment(
        reference.operator, CPU, reference.direction, baseline, reference, rules,
        compare(replace(outcome, outputs=tuple(outputs)), reference),
    )  # fmt: skip


def ratio(judged: Judgment) -> float:
    """¾ ÷ (× budget)."""
    if judged.verdict.fails and not judged.metrics.get("rho_max"):
        return 0.0  # noticed without a budget: as a special value, or by its structure
    return ERROR / max(judged.metrics.get("rho_max", 0.0), _NO_ERROR)
