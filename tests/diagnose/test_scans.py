"""Running sums in float32 are healthy, however long; those of inputs with fewer bits are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import operators
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import evaluation
from consistency.diagnose.attribution.fewer_bits import rounded
from consistency.judge import tolerances

DIMS = {"rows": ((3, 4099), 1), "columns": ((4099, 3), 0), "one": ((20_000,), 0)}


class OneByOne(consistency.Backend):
    """Adds one number after the other in float32."""

    name = "one by one"

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        x, dim = self.read(args[0]), args[1]
        return torch.from_numpy(np.cumsum(x.numpy(), axis=dim, dtype=np.float32))

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return x


class OfFewBits(OneByOne):
    """Reads 11 bits of every number."""

    name = "of few bits"

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return rounded(x.double(), 11, truncate=False).float()


def judged(backend: consistency.Backend, shape: tuple[int, ...], dim: int, seed: int) -> Result:
    count = int(np.prod(shape))
    numbers = TensorRecipe(shape, "float32", ("uniform", 0.0, 1.0), (seed + 1) * 50_000 + count)
    case = Case("cumsum", "float32", (numbers, dim))
    (result,) = evaluation.evaluate(
        case,
        [backend],
        tolerances.load(),
        directions=("forward",),
        operator=operators.get("cumsum"),
        diagnosis_budget=evaluation.DiagnosisBudget(),
    )
    return result


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", DIMS)
def test_sums_one_after_the_other_are_not_accused(kind: str, seed: int) -> None:
    result = judged(OneByOne(), *DIMS[kind], seed)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("seed", [8, 9, 10])
def test_two_long_walks_do_not_follow_one_another(seed: int) -> None:
    """Compared number by number, the errors of two of these seem to be those of TF32."""
    result = judged(OneByOne(), (2, 262_147), 1, seed)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("kind", DIMS)
def test_inputs_of_few_bits_are_noticed(kind: str) -> None:
    result = judged(OfFewBits(), *DIMS[kind], 0)
    assert result.verdict.fails
    assert result.cause == "tf32-inputs"
