"""Gradients at an edge, healthy and wrong. That of grid_sample steps where a sampling point crosses
into the next pixel: either side is right for a point that the operator's own rounding moves across,
and for no other. That of gather adds cotangents one by one; where all are the same number their
rounding errors add up, and are no fault."""

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


def judged(backend: consistency.Backend, case: Case = CASE) -> consistency.Result:
    operator = operators.get(case.operator)
    (found,) = judge_case(case, operator, [backend], tolerances.load(), ("backward",))
    return found


def test_the_slope_beyond_the_edge_is_admitted() -> None:
    found = judged(backends.resolve("cpu"))
    assert found.verdict.value == "rounding", found.explanation
    assert found.metrics["rho_max"] < 0.1


@pytest.mark.one_in(3)
@pytest.mark.parametrize("factor", [1.01, -1.0, 0.0])
def test_another_slope_is_not(factor: float) -> None:
    assert judged(OneOff(factor)).verdict.value == "divergent"


# 32,768 times the same number in each of two elements: an error of 4,465 ulp, added one by one.
EQUAL_TERMS = Case(
    "gather", "float32",
    (
        TensorRecipe((2,), "float32", ("uniform", -1.0, 1.0), 1852), 0,
        TensorRecipe((65537,), "int64", ("integers", 0, 1), 131070),
    ),
    cotangent=3057, cotangent_layout="expanded",
)  # fmt: skip


class Scaled(consistency.Backend):
    """Gradients times a factor."""

    name = "scaled"

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def run(self, *args: Any, **kwargs: Any) -> Outcome:
        outcome = super().run(*args, **kwargs)
        outputs = (
            replace(output, tensor=output.tensor * self.factor)
            for output in outcome.outputs
            if output.tensor is not None
        )
        return replace(outcome, outputs=tuple(outputs))


# A transform whose length has the prime factor 241, of one number 4,097 times: MKL's error is 15.6
# unit roundoffs of the largest result. Higham's bound for log2(n) steps is some 100.
TRANSFORM = Case(
    "fft.rfftn", "float32", (TensorRecipe((4097,), "float32", ("normal", 0.0, 1.0), 8216),),
    cotangent=14, cotangent_layout="expanded",
)  # fmt: skip


def test_a_transform_of_equal_cotangents_has_errors_that_add_up() -> None:
    assert judged(backends.resolve("cpu"), TRANSFORM).verdict.value == "rounding"


@pytest.mark.parametrize("factor", [1.001, 0.5])
def test_a_wrong_transform_of_equal_cotangents_is_noticed(factor: float) -> None:
    assert judged(Scaled(factor), TRANSFORM).verdict.value == "divergent"


def test_equal_cotangents_are_added_with_the_errors_of_equal_terms() -> None:
    assert judged(backends.resolve("cpu"), EQUAL_TERMS).verdict.value == "rounding"
    varied = replace(EQUAL_TERMS, cotangent_layout="")
    assert judged(backends.resolve("cpu"), varied).verdict.value == "rounding"


@pytest.mark.parametrize("factor", [1.01, -1.0, 0.5])
def test_a_wrong_sum_of_equal_cotangents_is_noticed(factor: float) -> None:
    assert judged(Scaled(factor), EQUAL_TERMS).verdict.value == "divergent"


def test_varied_cotangents_keep_the_budget_of_varied_terms() -> None:
    varied = replace(EQUAL_TERMS, cotangent=1 << 20, cotangent_layout="")
    assert judged(Scaled(1.01), varied).verdict.value == "divergent"
