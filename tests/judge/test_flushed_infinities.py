"""1/x of a subnormal number is infinite where hardware takes it for 0: admitted where that is
documented, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends.base import Backend
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances

SWEEP = TensorRecipe((65536,), "float32", ("every", 0, 65537))


class Flushing(Backend):
    """Takes subnormal inputs for zero, and writes zeros for subnormal results."""

    name = "flushing"

    def __init__(self, like: str, factor: float = 1.0) -> None:
        self.tolerance_key, self.factor = like, factor

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return self.flushed(operator(self.flushed(args[0]))) * self.factor

    def flushed(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.abs() < torch.finfo(x.dtype).tiny, x * 0.0, x)


@pytest.mark.parametrize(
    ("backend", "fails"),
    [(Flushing("directml"), False), (Flushing("cpu"), True), (Flushing("directml", 1.001), True)],
    ids=["documented", "not documented", "documented, and 0.1% off"],
)
def test_an_infinity_of_a_flushed_number(backend: Backend, fails: bool) -> None:
    case = Case("reciprocal", "float32", (SWEEP,))
    given = judge_case(
        case, operators.get("reciprocal"), [backend], tolerances.load(), ("forward",)
    )
    assert [result.verdict.fails for result in given] == [fails], given[0].explanation
