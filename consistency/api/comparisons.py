"""The function :func:`compare`, which judges tensors that were computed elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from .. import operators
from ..core import dtypes as _dtypes
from ..core.model import Case, Comparison, Evidence, Outcome, Output, Result
from ..core.trees import flatten
from ..core.verdict import OutcomeStatus
from ..diagnose.diagnosis import cause_of
from ..diagnose.evaluation import _shapes
from ..errors import UsageError
from ..generate.materialize import case_of, prepare
from ..judge import tolerances as _tolerances
from ..judge.compare import compare as _compare
from ..judge.judge import judge
from ..judge.reconsideration import reconsider
from ..judge.tolerances import Tolerances
from ..operators.declare import Operator
from ..reference import Reference, quiet
from .user_operators import HOOK_ERRORS, by_sensitivity


def compare(
    actual: Any,
    expected_float64: Any = None,
    operator: str | Operator = "",
    args: Sequence[Any] = (),
    dtype: str | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    tolerances: str | Path | Tolerances | None = None,
    backend: str = "given",
) -> Result:
    """Judge tensors that were computed elsewhere.

    ``actual`` is what a backend returned for ``operator(*args, **kwargs)``; ``expected_float64``
    the float64 result, or None to compute it here from ``args``. ``dtype`` is the tested dtype
    (default: that of ``actual``). S and n come from ``args``. Raises UsageError when
    ``expected_float64`` is not in float64, or not of the shape that the operator gives for
    ``args``.
    """
    model = operators.get(operator) if isinstance(operator, str) else operator
    got = [item for item in flatten(actual) if isinstance(item, torch.Tensor)]
    dtype = dtype or (_dtypes.name_of(got[0].dtype) if got else "float32")
    case = case_of(model.name, dtype, tuple(args), dict(kwargs or {}))
    outputs = tuple(
        Output(f"out/{i}", t.detach().cpu(), _dtypes.name_of(t.dtype)) for i, t in enumerate(got)
    )
    expected = (
        None
        if expected_float64 is None
        else [t for t in flatten(expected_float64) if isinstance(t, torch.Tensor)]
    )
    with quiet():
        try:
            reference, comparison = _compared(model, case, outputs, expected)
        except HOOK_ERRORS as error:
            reference, comparison = _compared(by_sensitivity(model, error), case, outputs, expected)
    loaded = _tolerances.load(tolerances)
    rule = loaded.rule(model.name, dtype, family=model.family, backend=backend)
    policy = loaded.policy(backend, operator=model.name, dtype=dtype)
    judgment, evidence = judge(comparison, None, rule, policy), None
    if judgment.verdict.fails:
        with quiet():
            evidence = Evidence(
                judgment.verdict.value,
                cause=cause_of(reference, Outcome(OutcomeStatus.OK, outputs), judgment),
            )
        judgment = reconsider(judgment, evidence, policy)
    numbers = MappingProxyType({k: v for k, v in judgment.metrics.items() if not math.isnan(v)})
    return Result(
        case, backend, "forward", judgment.verdict, judgment.explanation, numbers, model.family,
        judgment.worst, judgment.output,
        _shapes(reference), comparison, reference.materials.sha256, evidence,
    )  # fmt: skip


def _compared(
    model: Operator,
    case: Case,
    outputs: tuple[Output, ...],
    expected: Sequence[torch.Tensor] | None,
) -> tuple[Reference, Comparison]:
    reference = Reference(model, prepare(case), "forward")
    if expected is not None:
        _replace_reference(reference, expected)
    return reference, _compare(Outcome(OutcomeStatus.OK, outputs), reference)


def _replace_reference(reference: Reference, expected: Sequence[torch.Tensor]) -> None:
    shapes = [list(o.tensor.shape) for o in reference.outcome.outputs if o.tensor is not None]
    if [list(t.shape) for t in expected] != shapes:
        raise UsageError(
            f"expected_float64 has shapes {[list(t.shape) for t in expected]}, the operator "
            f"gives {shapes}"
        )
    for t in expected:
        if t.layout != torch.strided:
            raise UsageError(f"expected_float64 is a {t.layout} tensor; give a dense one")
        if t.dtype in (torch.float32, torch.float16, torch.bfloat16, torch.complex64):
            raise UsageError(
                f"expected_float64 is {_dtypes.name_of(t.dtype)}; compute it in float64, or "
                f"leave it out"
            )
    outputs = tuple(
        Output(f"out/{i}", t.detach().cpu(), _dtypes.name_of(t.dtype))
        for i, t in enumerate(expected)
    )
    reference.outcome = Outcome(OutcomeStatus.OK, outputs)
    reference.outputs = reference.observed(outputs)
