"""Fake quantization: other roundings of halves are noticed, the rounding of the quotient is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import Literal, TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

TENSOR, CHANNEL = "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"
HALVES = TensorRecipe((40,), "float32", ("integers", -9, 9), 500)  # of a scale of 2


class Another(consistency.Backend):
    """Quantizes by another formula, ``position(quotient, zero point)``."""

    name = "another"

    def __init__(self, position: Any) -> None:
        self.position = position

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        x, scale, zero, low, high = args
        return (self.position(x / scale, zero).clamp(low, high) - zero) * scale


def judged(case: Case, backend: consistency.Backend, direction: str = "forward") -> Result:
    return next(iter(evaluate(case, [backend], load(), directions=(direction,))))


def halves_up(quotient: torch.Tensor, zero: int) -> torch.Tensor:
    return torch.floor(quotient + 0.5) + zero


def rounded_last(quotient: torch.Tensor, zero: int) -> torch.Tensor:
    return torch.round(quotient + zero)


def as_documented(quotient: torch.Tensor, zero: int) -> torch.Tensor:
    return torch.round(quotient) + zero


@pytest.mark.parametrize(
    ("position", "zero", "fails"),
    [(halves_up, 0, True), (rounded_last, 1, True), (rounded_last, 2, False),
     (as_documented, 1, False)],
)  # fmt: skip
def test_the_rounding_of_halves(position: Any, zero: int, fails: bool) -> None:
    found = judged(Case(TENSOR, "float32", (HALVES, 2.0, zero, -8, 7)), Another(position))
    assert found.verdict.fails == fails, found.explanation


def test_a_quotient_that_is_rounded_may_fall_on_either_side() -> None:
    """0.05 / 0.1 is a half of the scale in float32, and its product with 1 / 0.1 another number."""
    near = TensorRecipe((40,), "float32", ("near", 0.0, 1.0, 0.05), 500)
    case = Case(TENSOR, "float32", (near, 0.1, 0, -8, 7))
    for position in (as_documented, lambda q, zero: torch.round(q * (1.0 + 2.0**-24)) + zero):
        found = judged(case, Another(position))
        assert not found.verdict.fails, found.explanation


def test_the_gradient_ends_where_the_range_does() -> None:
    x = TensorRecipe((200,), "float32", ("uniform", -20.0, 20.0), 900)
    case = Case(TENSOR, "float32", (x, 0.5, 3, -8, 7), cotangent=4000)
    assert not judged(case, resolve("cpu"), "backward").verdict.fails

    class All(consistency.Backend):
        name = "all"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            result = operator(*args, **kwargs)
            return result.detach() + args[0] - args[0].detach()

    assert judged(case, All(), "backward").verdict.fails


@pytest.mark.parametrize("axis", [0, 1])
def test_channels_have_scales_of_their_own(axis: int) -> None:
    x = TensorRecipe((3, 3), "float32", ("uniform", -20.0, 20.0), 900)
    scale = TensorRecipe((3,), "float32", ("uniform", 0.25, 1.0), 300)
    zero = Literal(bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]), "int32", (3,), (1,))
    case = Case(CHANNEL, "float32", (x, scale, zero, axis, -8, 7))

    class OtherAxis(consistency.Backend):
        name = "other-axis"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            return operator(*args[:3], 1 - args[3], *args[4:])

    assert not judged(case, resolve("cpu")).verdict.fails
    assert judged(case, OtherAxis()).verdict.fails
