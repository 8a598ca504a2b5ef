"""The terms of a distance whose rows are spread: S and n are those of the rows of both operands."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances
from consistency.operators import distances
from tests.support.catalog.model import Call, Played

NUMBER = TensorRecipe((1,), "float32", ("integers", -4, 4), 4554)
ROWS = TensorRecipe((24, 228), "float32", ("wide", -8, 2, 1), 13234)


def verdicts(deed: Any) -> list[str]:
    operator = operators.get("nn.functional.pairwise_distance")
    case = Case(operator.name, "float32", (NUMBER, ROWS))
    results = judge_case(case, operator, [Played("played", deed)], tolerances.load(), ("forward",))
    return [result.verdict.value for result in results]


def one_after_the_other(call: Call) -> torch.Tensor:
    """The squares of a row summed in float32, one after the other: healthy."""
    x, y = call.args[:2]
    squares = (x - y + 1e-6).square()
    total = torch.zeros(squares.shape[:-1])
    for column in squares.unbind(-1):
        total = total + column
    return total.sqrt()


def without_the_last(call: Call) -> torch.Tensor:
    x, y = call.args[:2]
    result: torch.Tensor = torch.nn.functional.pairwise_distance(x, y[..., :-1])
    return result


def test_rows_beside_a_single_number() -> None:
    assert verdicts(one_after_the_other) in (["rounding"], ["exact"])
    assert verdicts(without_the_last) == ["divergent"]


def test_the_length_is_that_of_the_longer_operand() -> None:
    one, many = torch.zeros(1), torch.zeros(3, 7)
    assert distances.row_length(one, many) == distances.row_length(many, one) == 7
    assert distances.row_length(many, 0.25) == 7  # pdist: the other is no tensor


@pytest.mark.parametrize(
    ("p", "factor"), [(0.25, 3.0), (0.5, 1.0), (2.0, 1.0), (float("inf"), 1.0)]
)
def test_slopes_of_small_orders_amplify_the_sum(p: float, factor: float) -> None:
    gradients = (torch.tensor([1.0, -3.0]),)
    (size,) = distances.of_slopes((torch.zeros(2, 3),), {"p": p}, gradients)
    assert size == factor * 2.0 * (3.0 + 1.0)
