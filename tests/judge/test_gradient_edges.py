"""The gradient of grid_sample steps where a sampling point crosses into the next pixel: either side
is right for a point that the operator's own rounding moves across, and for no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import consistency
from consistency import backends, operators
from consistency.core.model import Case, Outcome
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances

# Of 1,204,518 coordinates one lies 1e-6 pixels beside the center of a pixel, on which float32
# rounds it: the slope there is that of the next pixels, 6,694 x budget from the one in float64.
CASE = Case(
    "nn.functional.grid_sample", "float32",
    (
        TensorRecipe((2, 1, 17, 17, 2), "float32", ("integers", -4, 16), 3786),
        TensorRecipe((2, 7, 7, 4097, 3), "float32", ("uniform", -1.0, 1.0), 2406894),
    ),
    {"mode": "bilinear", "padding_mode": "reflection", "align_corners": False},
    cotangent=1 << 20, cotangent_layout="expanded",
)  # fmt: skip


class OneOff(consistency.Backend):
    """One coordinate's gradient times a factor."""

    name = "one-off"

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def run(self, *args: Any, **kwargs: Any) -> Outcome:
        outcome = super().run(*args, **kwargs)
        image, grid = outcome.outputs
        assert grid.tensor is not None
        changed = grid.tensor.clone()
        changed.view(-1)[changed.numel() // 3] *= self.factor
        return replace(outcome, outputs=(image, replace(grid, tensor=changed)))


def judged(backend: consistency.Backend) -> consistency.Result:
    operator = operators.get(CASE.operator)
    (found,) = judge_case(CASE, operator, [backend], tolerances.load(), ("backward",))
    return found


def test_the_slope_beyond_the_edge_is_admitted() -> None:
    found = judged(backends.resolve("cpu"))
    assert found.verdict.value == "rounding", found.explanation
    assert found.metrics["rho_max"] < 0.1


@pytest.mark.parametrize("factor", [1.01, -1.0, 0.0])
def test_another_slope_is_not(factor: float) -> None:
    assert judged(OneOff(factor)).verdict.value == "divergent"
