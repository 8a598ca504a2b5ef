"""Correlations: what is wrong is noticed either way, and rows without variance say nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

NORMAL = "normal", 0.0, 1.0


class Another(consistency.Backend):
    """Computes correlations by another formula."""

    name = "another"

    def __init__(self, formula: Any) -> None:
        self.formula = formula

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return self.formula(args[0])


def judged(x: TensorRecipe, backend: consistency.Backend, direction: str) -> Result:
    case = Case("corrcoef", "float32", (x,), {}, 4000)
    return next(iter(evaluate(case, [backend], load(), directions=(direction,))))


def by_norms(x: torch.Tensor) -> torch.Tensor:
    apart = x - x.mean(1, keepdim=True)
    apart = apart / apart.norm(dim=1, keepdim=True)
    return apart @ apart.T


def without_the_mean(x: torch.Tensor) -> torch.Tensor:
    rows = x / x.norm(dim=1, keepdim=True)
    return rows @ rows.T


def with_a_fixed_deviation(x: torch.Tensor) -> torch.Tensor:
    """Right going forward; its gradient leaves out what a deviation depends on."""
    covariances = torch.cov(x)
    deviations = covariances.detach().diagonal().sqrt()
    return covariances / deviations[:, None] / deviations


@pytest.mark.parametrize(
    ("formula", "direction", "fails"),
    [
        (by_norms, "forward", False),
        (by_norms, "backward", False),
        (without_the_mean, "forward", True),
        (with_a_fixed_deviation, "forward", False),
        (with_a_fixed_deviation, "backward", True),
    ],
)
def test_other_formulas(formula: Any, direction: str, fails: bool) -> None:
    found = judged(TensorRecipe((5, 60), "float32", NORMAL, 900), Another(formula), direction)
    assert found.verdict.fails == fails, found.explanation


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_rows_without_variance_say_nothing(direction: str) -> None:
    equal = TensorRecipe((5, 1), "float32", NORMAL, 900, view=(("expand", 5, 60),))
    for backend in (resolve("cpu"), Another(by_norms)):
        assert not judged(equal, backend, direction).verdict.fails
