"""The rounding of a kernel's own steps, where the kernel is a function of torch's operators on the
CPU: an online softmax rounds where its reference does not, and its gradient more so."""

from __future__ import annotations

import math
from dataclasses import replace

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


def may_be_rounding(result: Result) -> bool:
    """Whether a result is a gradient that errs by no more than other steps might round: what is
    looked into costs as much as judging it again. Forward, a step that amplifies rounding is a
    fault (a variance in one pass), and healthy ones stay within the budget."""
    rho = result.metrics.get("rho_max", math.inf)
    divergent = result.verdict.kind is VerdictKind.DIVERGENT
    return divergent and result.direction == "backward" and rho <= _MOST


def explained_by_own_steps(
    operator: Operator, backend: KernelBackend, case: Case, direction: str
) -> Result | None:
    """The passing judgment of a float32 gradient by the kernel's own steps; None where it fails by
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
        if own_steps.shorter_formats(recorded, case.dtype):
            return None
        model = own_steps.as_composed(kernel, materials)
        if model is None:
            return None
        (judged,) = evaluate(
            case, [backend], _tolerances.load(), directions=(direction,), operator=model
        )
    # What explains numbers explains no NaN.
    return judged if judged.verdict.kind is VerdictKind.ROUNDING else None
