"""The translation's errors are told from the runtime's: planted ones on both sides, and twins
without a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.core.model import Result
from consistency.diagnose.diagnosis import DiagnosisBudget
from consistency.diagnose.evaluation import evaluate
from consistency.judge import tolerances
from tests.support.planted_graphs import GRAPH_FAULTS, RUNTIME_FAULTS, Planted

for _name in OnnxRuntime.PACKAGES:
    pytest.importorskip(_name, reason=f'{_name} is not installed: pip install ".[onnxruntime]"')

RULES = replace(tolerances.load(), expectations=())


def judged(planted: Planted, backend: OnnxRuntime) -> Result:
    (result,) = evaluate(
        planted.case,
        [backend],
        RULES,
        directions=("forward",),
        diagnosis_budget=DiagnosisBudget(),
    )
    return result


@pytest.mark.parametrize(
    ("planted", "stage"),
    [
        *(pytest.param(p, "translation", id=f"graph: {p.name}") for p in GRAPH_FAULTS),
        *(pytest.param(p, "runtime", id=f"result: {p.name}") for p in RUNTIME_FAULTS),
    ],
)
def test_a_planted_fault_is_that_of_its_stage(planted: Planted, stage: str) -> None:
    result = judged(planted, planted.backend())
    assert result.verdict.fails
    assert result.evidence is not None
    assert result.evidence.origin is not None, result.explanation
    assert result.evidence.origin.stage == stage, result.explanation


@pytest.mark.parametrize("planted", GRAPH_FAULTS, ids=lambda planted: planted.name)
def test_nobody_is_accused_without_a_fault(planted: Planted) -> None:
    result = judged(planted, OnnxRuntime())
    assert not result.verdict.fails, result.explanation
    assert result.evidence is None or result.evidence.origin is None
