"""Whole numbers are not rounded: a device that computes them otherwise, and always alike, gives a
wrong result and no other one each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.core.trees import map_tensors
from tests.support.running import unshrunk


def through_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32) if tensor.dtype == torch.int64 else tensor


class ThroughFloat32(consistency.Backend):
    """Computes int64 in float32; ``changing`` adds a number that differs from call to call."""

    name = "float32-integers"

    def __init__(self, changing: bool = False) -> None:
        self.changing, self.calls = changing, 0

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        self.calls += 1
        out = operator(
            *map_tensors(through_float32, tuple(args)),
            **map_tensors(through_float32, dict(kwargs)),
        ).to(torch.int64)
        return out + self.calls if self.changing else out


@pytest.mark.one_in(3)
@pytest.mark.parametrize("operator", ["matmul", "bmm", "nn.functional.linear"])
@pytest.mark.parametrize("changing", [False, True], ids=["same each time", "changing"])
def test_integers_through_float32(operator: str, changing: bool) -> None:
    run = unshrunk(
        [operator],
        [ThroughFloat32(changing)],
        ["int64"],
        ["forward"],
        examples=20,
        reference="float64",
    )
    failing = [r for r in run.results if r.verdict.fails]
    assert failing
    unsteady = sum(r.verdict.value == "nondeterministic" for r in failing)
    if changing:
        assert unsteady == len(failing)
        return
    assert unsteady == 0
    named = [r for r in failing if r.cause == "float32-integers"]
    assert len(named) >= 0.9 * len(failing)


def test_whole_numbers_that_a_call_creates() -> None:
    """There is no tensor whose numbers could have been cut off."""

    class Begins(consistency.Backend):
        name = "begins"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            result = operator(*args, **kwargs)
            return result - 1 if result.dtype == torch.int64 else result

    run = unshrunk(["linspace"], [Begins()], dtypes=["int64"], examples=8)
    assert run.failures
    assert not any("harness itself" in r.explanation for r in run.results)
