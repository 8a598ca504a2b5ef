"""A quotient of two tensors that is a whole number is not rounded: the number below is wrong."""

from __future__ import annotations

from typing import Any

import pytest

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

X = TensorRecipe((40,), "float32", ("integers", 60, 62), 500)
Y = TensorRecipe((40,), "float32", ("integers", 61, 61), 900)


class ByTheReciprocal(consistency.Backend):
    """Multiplies by 1 / 61, which is rounded down, before it cuts the fraction off."""

    name = "by-the-reciprocal"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return (args[0] * args[1].reciprocal()).floor()


def judged(case: Case, *backends: consistency.Backend) -> list[Result]:
    return list(evaluate(case, list(backends), load(), directions=("forward",)))


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_a_product_with_the_reciprocal_is_noticed(mode: str) -> None:
    case = Case("div", "float32", (X, Y), {"rounding_mode": mode})
    wrong, right = judged(case, ByTheReciprocal(), resolve("cpu"))
    assert wrong.verdict.fails
    assert right.verdict.value == "exact", right.explanation


def test_beside_a_whole_number_either_one_is_admitted() -> None:
    """A quotient that is rounded may be rounded to the whole number."""
    near = TensorRecipe((40,), "float32", ("near", 3.0, 7.0, 6.1), 500)
    tenths = TensorRecipe((40,), "float32", ("near", 0.1, 0.100001, 0.1), 900)
    case = Case("div", "float32", (near, tenths), {"rounding_mode": "floor"})
    (found,) = judged(case, resolve("cpu"))
    assert not found.verdict.fails, found.explanation
