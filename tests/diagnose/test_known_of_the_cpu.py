"""What torch's CPU is known to give wrongly is known of a backend that gives the same, and of no
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import torch

from consistency.backends.base import Backend, TorchBackend
from consistency.backends.cpu import Cpu
from consistency.core.model import Case, Result
from consistency.core.verdict import VerdictKind
from consistency.diagnose.case_runner import judge_case
from consistency.generate.materialize import case_of
from consistency.judge import tolerances
from consistency.operators import get
from consistency.operators.declare import Operator


class Mine(TorchBackend):
    """torch's kernels under a name that no entry has."""

    def __init__(self, wrong: float = 1.0) -> None:
        super().__init__("mine", "cpu")
        self.wrong = wrong

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return operator(*args, **kwargs) * self.wrong


def judged(case: Case, backend: Backend, direction: str) -> Result:
    (result,) = judge_case(
        case, get(case.operator), [backend], tolerances.load(), (direction,), against="each"
    )
    return result


def matrix_exponential() -> tuple[Case, str]:
    x = torch.tensor([[-0.049, -0.0], [-0.0, -0.049]], dtype=torch.float64)
    return case_of("linalg.matrix_exp", "float64", (x,), {}, cotangent=100), "forward"


def overflowing_product() -> tuple[Case, str]:
    x = torch.full((50,), 1000.0)
    x[1] = 0.0
    return case_of("prod", "float32", (x,), {}, cotangent=100), "backward"


@pytest.mark.parametrize("of", [matrix_exponential, overflowing_product])
def test_the_same_numbers_as_the_cpu(of: Any) -> None:
    case, direction = of()
    known = judged(case, Cpu(), direction)
    assert known.verdict.kind is VerdictKind.KNOWN
    assert "as torch's CPU" not in known.explanation
    mine = judged(case, Mine(), direction)
    assert mine.verdict.kind is VerdictKind.KNOWN
    assert mine.explanation.startswith("known (as torch's CPU: ")
    assert mine.known is not None
    assert known.known is not None
    assert mine.known.entry == known.known.entry


def test_other_numbers_fail() -> None:
    case, direction = matrix_exponential()
    mine = judged(case, Mine(1.01), direction)
    assert mine.verdict.fails
    assert "known" not in mine.explanation


def test_an_entry_that_has_expired_excuses_nobody() -> None:
    case, direction = matrix_exponential()
    rules = tolerances.load()
    old = tuple(
        replace(entry, expires=date(2020, 1, 1), since=None) for entry in rules.expectations
    )
    rules = replace(rules, expectations=old)
    (result,) = judge_case(case, get(case.operator), [Mine()], rules, (direction,), against="each")
    assert result.verdict.fails
