"""Losses of no rows: torch returns memory that nobody wrote to, and is not the reference there."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import consistency
from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances

NAMES = ("nn.functional.multi_margin_loss", "nn.functional.multilabel_margin_loss")


def of_no_rows(name: str, **options: Any) -> Case:
    scores = TensorRecipe((0, 5), "float32", ("uniform", -1.0, 1.0), 90)
    shape = (0,) if name == NAMES[0] else (0, 5)
    target = TensorRecipe(shape, "int64", ("integers", 0, 4), 90)
    return Case(name, "float32", (scores, target), options, 7)


class Gives(consistency.Backend):
    """One number, whatever is asked."""

    name = "mine"

    def __init__(self, number: float) -> None:
        self.number = number

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return torch.tensor(self.number)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("reduction", "right"), [("mean", math.nan), ("sum", 0.0)])
def test_a_backend_that_is_right_is_not_accused(name: str, reduction: str, right: float) -> None:
    operator, case = operators.get(name), of_no_rows(name, reduction=reduction)
    for number in (right, 7.5):
        (result,) = judge_case(case, operator, [Gives(number)], tolerances.load(), ("forward",))
        assert result.verdict.fails is (number == 7.5), result.explanation


@pytest.mark.parametrize("name", NAMES)
def test_the_cpu_is_expected_to_be_wrong(name: str) -> None:
    (result,) = judge_case(
        of_no_rows(name), operators.get(name), [Cpu()], tolerances.load(), ("forward",)
    )
    assert result.verdict.value in ("known", "exact")


def test_with_rows_it_is_torchs_own() -> None:
    reference = operators.get(NAMES[0]).reference
    assert reference is not None
    x, target = torch.tensor([[0.1, 0.5, 0.2]]), torch.tensor([1])
    for options in ({}, {"reduction": "sum"}, {"reduction": "none"}):
        expected = F.multi_margin_loss(x, target, **options)  # type: ignore[arg-type]
        assert torch.equal(reference(x, target, **options), expected)
    assert reference(x[:0], target[:0], reduction="none").shape == (0,)
