"""Runs try numbers around the edges of a function: what is wrong in a narrow interval beside one is
noticed and made small; a healthy backend is left in peace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.backends.numpy.backend import Numpy
from consistency.core.model import Case, Result
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.shrink import minimize
from consistency.engine import engine
from consistency.engine.unit_cases import drawn, undrawn
from consistency.generate import exhaustive
from consistency.generate.materialize import prepare
from consistency.judge import tolerances


class Between(consistency.Backend):
    """The CPU, but for numbers in an interval: there the result is ``value``, or the ``gradient``
    is infinite."""

    name = "between"

    def __init__(self, low: float, high: float, value: float, *, gradient: bool = False) -> None:
        self.low, self.high, self.value, self.gradient = low, high, value, gradient

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        x = args[0]
        result = super().call(operator, args, kwargs)
        wrong = (x.detach() >= self.low) & (x.detach() < self.high)
        if not self.gradient:
            return torch.where(wrong, torch.full_like(result, self.value), result)
        return Infinite.apply(result, wrong)


class Infinite(torch.autograd.Function):
    """The numbers themselves, some of which have an infinite gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(where)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor, None]:
        (where,) = ctx.saved_tensors
        return cotangents[0].masked_fill(where, torch.inf), None


NOTHING_KNOWN = replace(tolerances.load(), expectations=())


def around(name: str, dtype: str) -> Case:
    *_, case = exhaustive.cases(operators.get(name), dtype)
    return case


def results(backend: Any, name: str, dtype: str, direction: str) -> list[Result]:
    """What the new case and the sweeps beside it give."""
    operator = operators.get(name)
    return [
        result
        for case in exhaustive.cases(operator, dtype)
        for result in judge_case(
            case, operator, [backend], NOTHING_KNOWN, (direction,), against="spot"
        )
    ]


FAULTS = {
    "exp2 gradient infinite from 1023.98 on": (
        "exp2", "float64", "backward", Between(1023.98, 1024.0, 0.0, gradient=True),
    ),
    "sigmoid 0 left of -87.3": (
        "sigmoid", "float32", "forward", Between(-87.33, -87.3, 0.0),
    ),
    "sigmoid 0 below -80": (
        "sigmoid", "float32", "forward", Between(-1e30, -80.0, 0.0),
    ),
    "exp infinite from 88.722 on": (
        "exp", "float32", "forward", Between(88.722, 89.0, float("inf")),
    ),
    "tanh 1 from 16.5 on": ("tanh", "float64", "forward", Between(16.5, 19.1, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_narrow_interval_beside_an_edge_is_noticed(fault: str) -> None:
    name, dtype, direction, backend = FAULTS[fault]
    *_, last = results(backend, name, dtype, direction)
    assert last.case == around(name, dtype)
    assert last.verdict.fails, last.explanation


def test_the_gradient_of_exp2_is_infinite_from_1024_on() -> None:
    """pytorch#192407: in float64 torch's own is, where it is finite up to 1024.53; known."""
    exp2, case = operators.get("exp2"), around("exp2", "float64")
    for rules, verdict in (tolerances.load(), "known"), (NOTHING_KNOWN, "special-values"):
        (result,) = judge_case(case, exp2, [Cpu()], rules, ("backward",), against="spot")
        assert result.verdict.value == verdict
        assert verdict != "known" or "192407" in result.explanation


@pytest.mark.parametrize("name", ["exp2", "sigmoid", "exp", "tanh", "expm1", "erfc", "log1p"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_healthy_backend_is_not_accused(name: str, dtype: str) -> None:
    operator, rules = operators.get(name), tolerances.load()
    for result in judge_case(
        around(name, dtype), operator, [Cpu(), Numpy()], rules, against="spot"
    ):
        assert not result.verdict.fails, result.explanation


def test_a_failure_shrinks_to_one_number() -> None:
    name, dtype, direction, backend = FAULTS["exp infinite from 88.722 on"]
    *_, last = results(backend, name, dtype, direction)
    small = minimize(last, operators.get(name), backend, tolerances.load(), seconds=20.0)
    (x,) = prepare(small.result.case).build().tensors
    assert x.numel() == 1
    assert 88.722 <= x.item() < 88.7229


def test_it_comes_after_the_sweep_and_is_no_example() -> None:
    config = engine.configure(["exp"], ["cpu"], ["float32"], examples=3)
    unit = undrawn(config, operators.get("exp"), "float32")
    assert unit.fresh is not None
    further = unit.fresh.further
    fresh = drawn(unit).cases[len(unit.cases) : -len(further)]
    assert len(fresh) <= 3
    case = around("exp", "float32")
    assert case in further
    assert case not in (*fresh, *unit.cases)
    assert [exhaustive.is_exhaustive(c) for c in further[:3]] == [True] * 3
    assert further[2] == case
