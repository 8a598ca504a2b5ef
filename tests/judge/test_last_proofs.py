"""Where nothing but torch's float64 computes a result and a spot check's work is not enough, one
element of each output is proved with more."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from consistency import backends
from consistency.core.model import Case, Result
from consistency.diagnose.evaluation import evaluate
from consistency.generate import materialize
from consistency.judge.tolerances import load
from consistency.reference import high_precision
from consistency.reference.high_precision import ITSELF_OFF
from tests.support.wrong_float64 import WrongFloat64

RULES = replace(load(), expectations=())


def long_softmax() -> Case:
    """Half of the sum is the last element, whose gradient is by far the largest."""
    x = torch.zeros(8000, dtype=torch.float64)
    x[-1] = 9.0
    return materialize.case_of("softmax", "float64", (x, 0), {}, 4000)


def result(case: Case) -> Result:
    (found,) = evaluate(
        case, [backends.resolve("cpu")], RULES, directions=["backward"], against="spot"
    )
    return found


def test_what_is_right_is_no_longer_without_anything_to_compare_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert result(long_softmax()).verdict.value in ("rounding", "exact")
    monkeypatch.setattr(high_precision, "LAST_WORK", high_precision.WORK)
    assert result(long_softmax()).verdict.value == "inconclusive"


def test_what_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with WrongFloat64(["_softmax_backward_data"], 1e-6) as plant:
        found = result(long_softmax())
    assert plant.done
    assert found.verdict.fails
    assert found.explanation.startswith(ITSELF_OFF)
    assert found.proof is not None
    monkeypatch.setattr(high_precision, "LAST_WORK", high_precision.WORK)
    with WrongFloat64(["_softmax_backward_data"], 1e-6):
        assert result(long_softmax()).verdict.value == "inconclusive"


def test_one_output_that_cannot_be_proved_ends_it() -> None:
    """A gradient by a number that is multiplied with an infinity."""
    x = torch.tensor([1.0, float("inf"), 3.0], dtype=torch.float64)
    case = materialize.case_of("mul", "float64", (x, torch.ones((), dtype=torch.float64)), {}, 4000)
    assert result(case).verdict.value in ("inconclusive", "exact", "rounding")
