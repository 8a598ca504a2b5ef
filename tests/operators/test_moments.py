"""Reductions with a correction: a default that is wrong shows where it is worth something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import consistency
from consistency.engine import engine
from consistency.engine.run_options import PROFILES, UNSHIPPED
from consistency.generate.search import batch
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
