"""Bytes that are resized, and which pixel is the nearest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import consistency
from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import evaluation
from consistency.generate.variations import is_possible
from consistency.judge import tolerances

INTERPOLATE = operators.get("nn.functional.interpolate")
SMOOTH: dict[str, dict[str, Any]] = {
    mode: {"size": [12, 18], "mode": mode} for mode in ("bilinear", "bicubic")
}
NEAREST: dict[str, Any] = {"size": [16, 18], "mode": "nearest"}


class Moved(consistency.Backend):
    """Every pixel of the right result, in floats, moved by ``step`` and rounded as told."""

    def __init__(self, name: str, step: float) -> None:
        self.name, self.step = name, step

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        exact = F.interpolate(args[0].double(), **kwargs)
        return (exact + self.step).round().clamp(0, 255).to(torch.uint8)


def case(options: dict[str, Any], dtype: str = "uint8") -> Case:
    image = TensorRecipe((2, 3, 8, 9), dtype, ("integers", 96, 159), 4001)
    return Case("nn.functional.interpolate", dtype, (image,), options)


def judged(options: dict[str, Any], step: float) -> consistency.Result:
    (result,) = evaluation.evaluate(
        case(options), [Moved("moved", step)], tolerances.load(), directions=("forward",)
    )
    return result


@pytest.mark.parametrize("mode", SMOOTH)
@pytest.mark.parametrize("step", [-0.5, 0.0, 0.5])
def test_weights_of_few_bits_are_healthy(mode: str, step: float) -> None:
    result = judged(SMOOTH[mode], step)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("mode", SMOOTH)
@pytest.mark.parametrize("step", [-2.0, 2.0])
def test_more_is_not(mode: str, step: float) -> None:
    assert judged(SMOOTH[mode], step).verdict.fails


@pytest.mark.parametrize("step", [-1.0, 1.0])
def test_the_nearest_pixel_is_what_it_is(step: float) -> None:
    assert not judged(NEAREST, 0.0).verdict.fails
    assert judged(NEAREST, step).verdict.fails


@pytest.mark.parametrize(
    ("width", "options", "certain"),
    [
        (300, {"size": [8, 9], "mode": "nearest-exact"}, False),  # 1.5 × 300 / 9 is 50
        (300, {"size": [8, 100], "mode": "nearest-exact"}, True),
        (300, {"size": [8, 9], "mode": "bilinear"}, True),
        (8, {"scale_factor": 2.0}, True),
        (8, {"scale_factor": [2.0, 2.0], "recompute_scale_factor": True}, True),
    ],
)
def test_no_variation_hangs_on_the_rounding_of_a_coordinate(
    width: int, options: dict[str, Any], certain: bool
) -> None:
    image = TensorRecipe((2, 3, 8, width), "float32", ("integers", -4, 4), 4001)
    drawn = replace(case(options, "float32"), args=(image,))
    assert is_possible(INTERPOLATE, drawn) is certain
