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


class Scan(torch.autograd.Function):
    """A running sum, and one of the cotangents from the last to the first, of what ``read``
    gives."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, read: Any) -> torch.Tensor:
        ctx.dim, ctx.read = dim, read
        return one_by_one(read(x), dim)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        arrived = ctx.read(cotangents[0].contiguous()).flip(ctx.dim)
        return one_by_one(arrived, ctx.dim).flip(ctx.dim), None, None


def one_by_one(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.from_numpy(np.cumsum(x.detach().numpy(), axis=dim, dtype=np.float32))


class OneByOne(consistency.Backend):
    """Adds one number after the other in float32."""

    name = "one by one"

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        return Scan.apply(args[0], args[1], self.read)

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return x


class OfFewBits(OneByOne):
    """Reads 11 bits of every number."""

    name = "of few bits"

    def read(self, x: torch.Tensor) -> torch.Tensor:
        return rounded(x.double(), 11, truncate=False).float()


def judged(
    backend: consistency.Backend,
    shape: tuple[int, ...],
    dim: int,
    seed: int,
    direction: str = "forward",
) -> Result:
    count = int(np.prod(shape))
    numbers = TensorRecipe(shape, "float32", ("uniform", 0.0, 1.0), (seed + 1) * 50_000 + count)
    case = Case("cumsum", "float32", (numbers, dim), cotangent=(seed + 2) * 90_000 + count)
    (result,) = evaluation.evaluate(
        case,
        [backend],
        tolerances.load(),
        directions=(direction,),
        operator=operators.get("cumsum"),
        diagnosis_budget=evaluation.DiagnosisBudget(),
    )
    return result


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", DIMS)
def test_sums_one_after_the_other_are_not_accused(kind: str, seed: int, direction: str) -> None:
    result = judged(OneByOne(), *DIMS[kind], seed, direction)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("seed", [8, 9, 10])
def test_two_long_walks_do_not_follow_one_another(seed: int) -> None:
    """Compared number by number, the errors of two of these seem to be those of TF32."""
    result = judged(OneByOne(), (2, 262_147), 1, seed)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", DIMS)
def test_inputs_of_few_bits_are_noticed(kind: str, direction: str) -> None:
    result = judged(OfFewBits(), *DIMS[kind], 0, direction)
    assert result.verdict.fails
    assert result.cause == "tf32-inputs"
