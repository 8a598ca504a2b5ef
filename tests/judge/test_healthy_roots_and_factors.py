"""Healthy results of roots of signed sums, LU factors and singular vectors that were once called
failures, and faults of the same operators that still are."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

rules = functools.cache(load)
UNIFORM = ("uniform", -1.0, 1.0)


class TooLarge(consistency.Backend):
    """Every number of every result is too large by 2⁻¹⁰, and so is its gradient."""

    name = "too large"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        if isinstance(result, torch.Tensor):
            return result * (1.0 + 2.0**-10)
        *others, last = result
        return (*others, last * (1.0 + 2.0**-10))


def judged(case: Case, backend: Any, direction: str = "forward") -> Result:
    backend = resolve(backend) if isinstance(backend, str) else backend
    (result,) = evaluate(case, [backend], rules(), directions=(direction,))
    return result


def pooled(p: float, *, stop: int = 10921, size: int = 14) -> Case:
    x = TensorRecipe((3, 5, size, size), "float32", UNIFORM, stop)
    return Case("nn.functional.lp_pool2d", "float32", (x, p, 4), {"stride": 2})


CASES = {
    "a sum of reciprocals that cancels": pooled(-1.0),
    "a sum of signed numbers that cancels": pooled(1.0),
    "a sum of squares": pooled(2.0),
    "pivots grow to 22 times the matrix": Case(
        "linalg.lu", "float32", (TensorRecipe((257, 257), "float32", UNIFORM, 144893),)
    ),
    "complex factors": Case(
        "linalg.lu", "complex64", (TensorRecipe((2, 9, 5), "complex64", UNIFORM, 4893),)
    ),
}


@pytest.mark.parametrize("why", CASES)
def test_rounding_is_no_failure(why: str) -> None:
    result = judged(CASES[why], "cpu")
    assert result.verdict.tested
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("why", CASES)
def test_a_thousandth_more_is_a_failure(why: str) -> None:
    result = judged(CASES[why], TooLarge())
    assert result.verdict.fails, result.explanation


@pytest.mark.parametrize("stop", [3299, 5299])
def test_float64_singular_vectors_err_by_the_convergence_test_of_lapack(stop: int) -> None:
    """bdsqr takes what is below 99 u for 0: proved values differ by as much."""
    x = TensorRecipe((2, 3, 7), "float64", UNIFORM, stop)
    case = Case("linalg.svdvals", "float64", (x,), cotangent=12)
    assert not judged(case, "cpu", "backward").verdict.fails
    assert judged(case, TooLarge(), "backward").verdict.fails


@pytest.mark.parametrize("argument", ["weight", "target"])
def test_a_number_in_place_of_weights_or_labels(argument: str) -> None:
    x, t = (TensorRecipe((5, 4), "float32", UNIFORM, stop) for stop in (3584, 3919))
    case = Case(
        "nn.functional.multilabel_soft_margin_loss",
        "float32",
        (x, t) if argument == "weight" else (x, 1),
        {"weight": -1.5} if argument == "weight" else {},
    )
    result = judged(case, "cpu")
    assert result.verdict.tested, result.explanation
    assert not result.verdict.fails, result.explanation
