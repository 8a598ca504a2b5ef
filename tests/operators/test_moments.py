"""Reductions with a correction: a default that is wrong shows where it is worth something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import consistency
from consistency.backends import resolve
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.engine import engine
from consistency.engine.run_options import PROFILES, UNSHIPPED
from consistency.generate.search import batch
from consistency.judge.tolerances import load
from consistency.operators import get

SPREADS = ["var", "std", "var_mean", "std_mean", "var.method", "std.method"]


class BiasedByDefault(consistency.Backend):
    """The CPU, but for a correction of 0 where the call says nothing."""

    name = "biased"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        silent = len(args) == 1 and not kwargs
        return super().call(operator, args, {"correction": 0} if silent else kwargs)


def failing(operator: str, seed: int, dtype: str) -> int:
    config = engine.configure(
        [get(operator)], [BiasedByDefault()], [dtype], ["forward"], examples=PROFILES["quick"],
        seed=seed, long=False, shipped=True,
    )  # fmt: skip
    return sum(
        result.verdict.fails
        for event in engine.run(config)
        for result in getattr(event, "results", ())
        if result.backend == "biased"
    )


@pytest.mark.one_in(18)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("operator", SPREADS)
def test_a_quick_run_notices_a_biased_default_at_every_seed(operator: str, seed: int) -> None:
    assert failing(operator, seed, "float32")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_in_every_dtype(dtype: str) -> None:
    assert [seed for seed in range(3) if not failing("var", seed, dtype)] == []


def test_calls_without_arguments_are_drawn_with_few_elements() -> None:
    cases = [c for seed in range(10) for c in batch(get("var"), "float32", UNSHIPPED, seed)]
    silent = [case for case in cases if not case.kwargs]
    small = [case for case in silent if all(max(t.base, default=1) <= 64 for t in case.tensors)]
    assert len(small) >= len(cases) / 8


class Scaled(consistency.Backend):
    """The CPU, all results and gradients a hundredth too large."""

    name = "scaled"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return super().call(operator, args, kwargs) * 1.01


def fails(case: Case) -> dict[str, bool]:
    """Whether the gradient fails, on the CPU and on the scaled one."""
    operator, backends = get(case.operator), [resolve("cpu"), Scaled()]
    results = judge_case(case, operator, backends, load(), ("backward",))
    return {result.backend: result.verdict.fails for result in results}


def test_the_gradient_of_a_standard_deviation_that_rounding_makes() -> None:
    """Of three equal numbers the mean is rounded: float32 has a deviation, float64 has none."""
    x = TensorRecipe((1,), "float32", ("wide", -10, 10, 1), 5421, (("expand", 3),))
    assert not fails(Case("std", "float32", (x,), {}, 7339))["cpu"]
    ordinary = TensorRecipe((3, 5), "float32", ("uniform", -1.0, 1.0), 5421)
    assert fails(Case("std", "float32", (ordinary, 1), {}, 7339)) == {"cpu": False, "scaled": True}


def test_gradients_of_norms_of_complex_numbers_that_repeat() -> None:
    """Their roundings add up; a hundredth is still too much."""
    x = TensorRecipe((1, 5, 4), "complex64", ("uniform", -1.0, 1.0), 908,
                     (("transpose", 1, 2), ("expand", 305, 4, 5)))  # fmt: skip
    assert fails(Case("norm", "complex64", (x, 3), {}, 1)) == {"cpu": False, "scaled": True}
