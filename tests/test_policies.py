"""Policies: what one backend is free to answer is a failure of another, and what nobody is free to answer always is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency

Change = Callable[[str, Tensor], Tensor]


class Changing(consistency.Backend):
    """The CPU, with every floating tensor changed on the way in."""

    def __init__(self, name: str, change: Change) -> None:
        self.name, self.change = name, change

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        floats = [isinstance(a, Tensor) and a.is_floating_point() for a in args]
        changed = [self.change(operator.name, a) if float_ else a for a, float_ in zip(args, floats, strict=True)]
        return super().call(operator, changed, kwargs)


def verdicts(name: str, change: Change, operator: str) -> set[str]:
    run = consistency.run(
        operators=[operator], backends=[Changing(name, change)], dtypes=["float32"], directions=["forward"], examples=150
    )
    return {r.verdict.value for r in run.results if r.verdict.tested}


def never_chosen(operator: str, x: Tensor) -> Tensor:
    """D3D's min and max: a NaN counts as the number that loses."""
    return torch.where(x.isnan(), math.inf if operator == "minimum" else -math.inf, x)


def some_number(operator: str, x: Tensor) -> Tensor:
    """No choice among the other numbers gives this one."""
    return torch.where(x.isnan(), 2.0**100, x)


PICKING = ["maximum", "minimum", "clamp", "amax", "max", "cummax", "nn.functional.relu", "nn.functional.max_pool1d"]


@pytest.mark.parametrize("operator", PICKING)
def test_nan_may_be_left_out_of_a_choice_only_where_the_policy_says_so(operator: str) -> None:
    assert verdicts("directml", never_chosen, operator) <= {"exact", "rounding"}
    assert "special-values" in verdicts("mine", never_chosen, operator)


@pytest.mark.parametrize("operator", ["maximum", "amax", "nn.functional.relu"])
def test_a_number_from_nowhere_in_place_of_nan_is_no_choice(operator: str) -> None:
    assert "special-values" in verdicts("directml", some_number, operator)


def test_the_sentence_tells_a_dropped_nan_from_a_wrong_one() -> None:
    run = consistency.run(
        operators=["maximum"], backends=[Changing("mine", never_chosen)], dtypes=["float32"], directions=["forward"], examples=150
    )
    assert any("NaN is left out and the other number returned" in failure.explanation for failure in run.failures)
