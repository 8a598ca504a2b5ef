"""Gradients over many steps of weights that enlarge what they are given: an early rounding grows as
the gradients do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

HIDDEN = 8


class Torch(consistency.Backend):
    """torch's CPU; ``factor``: of what the gradients of the inputs are."""

    name = "torch"

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        x = args[0]
        back = x.detach() + self.factor * (x - x.detach())  # the same numbers, other gradients
        return operator(back, *args[1:], **kwargs)


def arguments(steps: int, width: float) -> tuple[Any, ...]:
    stops = iter(range(3000, 90000, 1999))

    def normal(*shape: int, scale: float = width) -> TensorRecipe:
        return TensorRecipe(shape, "float32", ("normal", 0.0, scale), next(stops))

    flat = [normal(HIDDEN, 4), normal(HIDDEN, HIDDEN), normal(HIDDEN), normal(HIDDEN)]
    x, state = normal(steps, 2, 4, scale=1.0), normal(1, 2, HIDDEN, scale=1.0)
    return x, state, flat, True, 1, 0.0, True, False, False


def judged(steps: int, width: float, factor: float = 1.0) -> Result:
    case = Case("rnn_tanh", "float32", arguments(steps, width), {}, 1 << 20)
    (result,) = evaluate(case, [Torch(factor)], load(), directions=("backward",))
    return result


@pytest.mark.parametrize(("steps", "width"), [(100, 1.0), (60, 0.5), (100, 0.2), (3, 1.0)])
def test_the_cpu_is_not_accused_and_one_percent_is_noticed(steps: int, width: float) -> None:
    healthy = judged(steps, width)
    assert not healthy.verdict.fails, healthy.explanation
    assert judged(steps, width, 1.01).verdict.fails


def test_what_amplifies() -> None:
    backward = operators.get("rnn_tanh").error.backward
    assert callable(backward)
    gradients = (torch.ones(3),)
    wide, narrow = (
        [torch.full((HIDDEN, HIDDEN), value), torch.zeros(HIDDEN)] for value in (0.5, 0.1)
    )
    x, state = torch.zeros(40, 2, 4), torch.zeros(1, 2, HIDDEN)
    rest = (True, 1, 0.0, True, False)
    assert backward((x, state, wide, *rest, False), {}, gradients) == "normwise"
    assert backward((x, state, narrow, *rest, False), {}, gradients) == 6.0
    assert backward((x[:16], state, wide, *rest, False), {}, gradients) == 6.0  # few steps
    assert backward((x, state, wide, *rest, True), {}, gradients) == 6.0  # of 40 sequences
    assert backward((x[0], state[0], *wide), {}, gradients) == 6.0  # a single step
