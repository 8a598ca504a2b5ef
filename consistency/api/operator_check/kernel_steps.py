"""The rounding of a kernel's own steps, where the kernel is a function of torch's operators on the
CPU: an online softmax rounds where its reference does not, and its gradient more so."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from ...core.model import Case, Result
from ...core.verdict import VerdictKind
from ...diagnose.evaluation import evaluate
from ...generate.materialize import prepare
from ...judge import tolerances as _tolerances
from ...operators.declare import Operator
from ...reference import own_steps, quiet
from ...reference.recorded_steps import RecordedSteps, UntraceableError
from .kernel_backend import KernelBackend, PureCall

# × budget of other steps: a healthy online softmax has up to 4.3 in its gradient.
_MOST = 32.0
_FORMATS = (torch.float32, torch.float64)  # a step in a shorter one is what a check is to find


def may_be_rounding(result: Result) -> bool:
    """Whether a result errs by no more than other steps might round: what is looked into costs as
    much as judging it again."""
    rho = result.metrics.get("rho_max", math.inf)
    return result.verdict.kind is VerdictKind.DIVERGENT and rho <= _MOST


def explained_by_own_steps(
    operator: Operator, backend: KernelBackend, case: Case, direction: str
) -> Result | None:
    """The passing judgment of a float32 result by the kernel's own steps; None where it fails by
    these, too, where a step is in half precision, and where they cannot be recorded.

    ``operator`` is the one whose function is the reference.
    """
    if case.dtype != "float32" or backend.name != "cpu" or isinstance(backend.kernel, PureCall):
        return None
    kernel = replace(operator, function=backend.kernel, reference=operator.callable)
    materials = prepare(case)
    with quiet():
        try:
            recorded = RecordedSteps(kernel, materials, direction)
        except UntraceableError:
            return None
        results = [r for step in recorded.steps for r in step.results if r is not None]
        if any(r.is_floating_point() and r.dtype not in _FORMATS for r in results):
            return None
        model = own_steps.as_composed(kernel, materials)
        if model is None:
            return None
        (judged,) = evaluate(
            case, [backend], _tolerances.load(), directions=(direction,), operator=model
        )
    # What explains numbers explains no NaN.
    return judged if judged.verdict.kind is VerdictKind.ROUNDING else None
