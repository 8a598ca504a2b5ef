"""Linear systems with so many right sides that each is proved as a system of its own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import VerdictKind
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances
from consistency.reference.certified.entries import linear_systems
from tests.reference.certified.enclosing import enclosed, enclosed_gradients

SOLVE = torch.linalg.solve
ROWS: dict[str, Callable[..., torch.Tensor]] = {
    "solve": SOLVE,
    "solve from the right": lambda a, b: SOLVE(a, b.mT, left=False).mT,
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a.tril()),
}


def systems(is_complex: bool, batch: tuple[int, ...]) -> list[torch.Tensor]:
    """Two regular 2 × 2 matrices, or one for both, and five right sides of each."""
    dtype = torch.complex128 if is_complex else torch.float64
    drawn = torch.Generator().manual_seed(5)
    a = torch.randn(*batch, 2, 2, dtype=dtype, generator=drawn) + 3 * torch.eye(2, dtype=dtype)
    return [a, torch.randn(2, 2, 5, dtype=dtype, generator=drawn)]


@pytest.mark.parametrize("batch", [(2,), ()], ids=["batch", "one matrix for all"])
@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("name", ROWS)
def test_columns_on_their_own_are_the_solutions_of_all(
    name: str, is_complex: bool, batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = systems(is_complex, batch)
    cotangents = [given[1].flip(-1)]
    values = functools.partial(enclosed, ROWS[name], *given)
    gradients = functools.partial(enclosed_gradients, ROWS[name], cotangents, *given)
    for found in (values, gradients):
        together: Any = found()
        with monkeypatch.context() as patch:
            patch.setattr(linear_systems, "MOST_ENTRIES", 6)
            apart: Any = found()
        assert all(
            one.overlaps(other) and one.rel_accuracy_bits() > 40
            for part, whole in zip(apart, together, strict=True)
            for one, other in zip(part, whole, strict=True)
        )


class Grown(consistency.Backend):
    """The right solutions, of which one is 1% too large."""

    name = "grown"

    def __init__(self, place: int | None) -> None:
        self.place = place

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs).contiguous()
        if self.place is not None:
            result.view(-1)[self.place] *= 1.01
        return result


def test_of_many_right_sides_one_wrong_number_is_proved_wrong() -> None:
    shape = (2, 2, 20_000)  # 40,000 numbers: more than a matrix whose inverse is enclosed
    matrices = TensorRecipe((2, 2, 2), "float32", ("diagonal", 2, 2.0), 8)
    right = TensorRecipe(shape, "float32", ("uniform", -1.0, 1.0), 100 + math.prod(shape))
    case = Case("linalg.solve", "float32", (matrices, right))
    operator = operators.get("linalg.solve")
    verdicts: list[consistency.Result] = []
    for place in (None, 2 * 20_000 + 777):
        verdicts += judge_case(case, operator, [Grown(place)], tolerances.load(), ("forward",))
    healthy, wrong = verdicts
    assert healthy.verdict.passes
    assert wrong.verdict.kind is VerdictKind.DIVERGENT
    assert "proved" in wrong.explanation
