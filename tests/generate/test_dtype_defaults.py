"""Defaults that depend on the dtype: float64 is given those of the tested dtype, and a wrong one is
noticed."""

from __future__ import annotations

import pytest
import torch

import consistency
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine.engine import judge_case
from consistency.generate import dtype_defaults
from consistency.generate.calls.case_operator import operator_of
from consistency.judge.tolerances import load


def small(*shape: int, dtype: str = "float32", scale: float = 2.0**-10) -> TensorRecipe:
    return TensorRecipe(shape, dtype, ("uniform", -scale, scale), 1 << 20)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("args", [(), (None,), (None, None)])
def test_rms_norm_adds_its_own_epsilon(dtype: str, args: tuple[None, ...]) -> None:
    case = Case("nn.functional.rms_norm", dtype, (small(3, 64, dtype=dtype), [64], *args))
    (result,) = judge_case(
        case, operator_of(case), [consistency.TorchBackend("cpu", "cpu")], load(), ("forward",)
    )
    assert result.verdict.passes, result.explanation


class Float64Epsilon(consistency.TorchBackend):
    """What was wrong with the reference, planted: an epsilon of another dtype."""

    def __init__(self) -> None:
        super().__init__("other-eps", "cpu")

    def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
        return torch.nn.functional.rms_norm(*args, eps=torch.finfo(torch.float64).eps)


def test_another_epsilon_is_noticed() -> None:
    case = Case("nn.functional.rms_norm", "float32", (small(3, 64), [64]))
    (result,) = judge_case(case, operator_of(case), [Float64Epsilon()], load(), ("forward",))
    assert result.verdict.fails


def test_infinities_become_the_limits_of_the_dtype_in_a_watched_program_too() -> None:
    x = torch.tensor([1.0, float("inf"), -float("inf"), float("nan")])
    with consistency.watch(backends=["cpu"]) as w:
        torch.nan_to_num(x)
        x.clone().nan_to_num_(nan=2.0)
    assert w.results
    assert not w.failures, str(w)


@pytest.mark.parametrize("name", ["linalg.pinv", "linalg.matrix_rank"])
def test_what_is_cut_off_is_cut_off_in_float64(name: str) -> None:
    kept = {"rtol": 0.5}
    args, kwargs = [torch.zeros(4, 3, dtype=torch.float64)], dict(kept)
    dtype_defaults.give(name, "float32", args, kwargs)
    assert kwargs == kept
    dtype_defaults.give(name, "float32", args, found := {})
    assert found == {"rtol": 4 * torch.finfo(torch.float32).eps}


def test_what_was_said_stays() -> None:
    x = torch.zeros(2)
    args, kwargs = [x, 0.0, None], {"neginf": -1.0}
    dtype_defaults.give("aten.nan_to_num.default", "float16", args, kwargs)
    assert args[2] == 65504.0
    assert kwargs == {"neginf": -1.0}
    for name in ("aten.add.Tensor", "exp", "", "aten"):
        dtype_defaults.give(name, "float32", args, kwargs)
    assert len(args) == 3


def test_a_tolerance_that_is_a_flag_is_kept() -> None:
    """By name and by position True is the number 1: all singular values of this matrix lie below
    it."""
    x = torch.full((2, 2), 0.25, dtype=torch.float64)
    assert not torch.linalg.matrix_rank(x, True).item()
    for args, kwargs in (([x], {"rtol": True}), ([x, True], {})):
        kept = dict(kwargs)
        dtype_defaults.give("linalg.pinv", "float32", args, kwargs)
        assert kwargs == kept
