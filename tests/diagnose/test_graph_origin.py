"""The translation's errors are told from the runtime's: planted ones on both sides, and twins
without a fault."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pytest

from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.core.model import Outcome, Result
from consistency.core.verdict import OutcomeStatus, VerdictKind
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.diagnose.evaluation import evaluate
from consistency.errors import Unsupported
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


class _Silent(OnnxRuntime):
    """Gives no answer in time."""

    def run(self, *_: object, **__: object) -> Outcome:
        return Outcome(OutcomeStatus.TIMEOUT, message="no answer within 30 s", seconds=30.0)


@pytest.mark.parametrize(("exported", "stage"), [(True, "runtime"), (False, None)])
def test_no_answer_is_the_runtimes_where_the_graph_is_evaluated_without_it(
    exported: bool, stage: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> NoReturn:
        raise Unsupported("no answer of the exporter either")

    backend = _Silent()
    if not exported:
        monkeypatch.setattr(backend._translator, "translate", refused)
    result = judged(GRAPH_FAULTS[0], backend)
    assert result.verdict.kind is VerdictKind.TIMEOUT
    origin = result.evidence.origin if result.evidence else None
    assert (origin.stage if origin else None) == stage
