"""Precision scaling: healthy backends are in bounds, degraded float32 and float64 paths and wrong
formulas are not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency
from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import Literal, TensorRecipe
from consistency.diagnose import precision_scaling
from consistency.diagnose.precision_scaling import Scaling, pool
from consistency.engine import engine
from consistency.generate import search
from consistency.generate.materialize import prepare

Deed = Callable[[Callable[..., Any], list[Any], dict[str, Any]], Any]


class Playing(consistency.Backend):
    def __init__(self, name: str, deed: Deed) -> None:
        self.name, self.deed = name, deed

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.deed(operator, list(args), dict(kwargs))


def in_dtype(args: list[Any], dtype: torch.dtype) -> list[Any]:
    return [a.to(dtype) if isinstance(a, Tensor) and a.is_floating_point() else a for a in args]


def plain(run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(*args, **kwargs)


def backwards(run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Another order of summation."""
    return run(args[0].flip(-1), args[1].flip(-2 if args[1].ndim > 1 else -1), **kwargs)


def float64_in_float32(run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    double = any(isinstance(a, Tensor) and a.dtype == torch.float64 for a in args)
    return (
        run(*in_dtype(args, torch.float32), **kwargs).double() if double else run(*args, **kwargs)
    )


def tf32(run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    def short(x: Tensor) -> Tensor:
        return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)

    return run(
        *[short(a) if isinstance(a, Tensor) and a.dtype == torch.float32 else a for a in args],
        **kwargs,
    )


def slightly_wrong(run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A formula that is off by 1e-6: hardly visible in float32, 1e9 × budget in float64."""
    return run(*args, **kwargs) * (1.0 + 1e-6)


def scaled(operator: str, deed: Deed, cases: int = 12) -> Scaling:
    found = operators.get(operator)
    backend = Playing("mine", deed)
    pool = precision_scaling.ScalingPool(found, {"mine": backend})
    rules = engine.configure([operator], [backend]).tolerances
    for case in search.batch(found, "float32", cases):
        pool.add(engine.judge_case(case, found, [backend], rules, ("forward",)))
    (one,) = pool.scalings()
    return one


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "operator",
    ["matmul", "exp", "softmax", "nn.functional.layer_norm", "sum", "nn.functional.conv2d"],
)
def test_healthy_operators_scale_by_about_two_to_the_29(operator: str) -> None:
    one = scaled(operator, plain, 40)
    assert not one.problem
    assert one.pairs >= 2
    assert 2.0**26 < one.ratio < 2.0**32


def test_another_order_of_summation_scales_as_well() -> None:
    assert not scaled("matmul", backwards).problem


def test_a_lucky_float32_result_is_no_measure_of_float64() -> None:
    """A variance in one pass: 23 ulp in float64, where float32 is right to a thirtieth of an ulp by
    chance."""
    numbers = TensorRecipe(
        (263, 2), "float32", values=("sparse", 0.5), stop=7518, view=(("select", 1, 1),)
    )
    case = Case("var", "float32", (numbers,), {"dim": -1, "unbiased": True}, 3717)
    found = operators.get("var")
    for deed, fails in ((plain, False), (float64_in_float32, True)):
        backend = Playing("mine", deed)
        pool = precision_scaling.ScalingPool(found, {"mine": backend})
        pool.add(
            engine.judge_case(
                case,
                found,
                [backend],
                engine.configure(["var"], [backend]).tolerances,
                ("forward",),
            )
        )
        (one,) = pool.scalings()
        assert bool(one.problem) == fails, one.problem


def of_narrow_data(deed: Deed) -> Scaling:
    """Variances of numbers whose spread is 1e-5 of their size."""
    found, backend = operators.get("var"), Playing("mine", deed)
    pool = precision_scaling.ScalingPool(found, {"mine": backend})
    rules = engine.configure(["var"], [backend]).tolerances
    for stop in range(9000, 49000, 4000):
        values = ("uniform", 1000.0, 1000.01)
        numbers = TensorRecipe(
            (1500, 2), "float32", values=values, stop=stop, view=(("select", 1, 1),)
        )
        case = Case("var", "float32", (numbers,), {"dim": -1}, 3)
        pool.add(engine.judge_case(case, found, [backend], rules, ("forward",)))
    (one,) = pool.scalings()
    return one


def test_an_error_that_enters_squared_shrinks_more_and_is_rounding() -> None:
    """Of the mean, in a variance; torch's float32 loses nothing else there."""
    one = of_narrow_data(plain)
    assert one.pairs >= precision_scaling.ENOUGH
    assert one.ratio > precision_scaling.HIGHEST
    assert one.float32_error < 0.01
    assert not one.problem
    assert of_narrow_data(float64_in_float32).problem


def test_sums_in_float64_are_no_degraded_float64() -> None:
    """Where float32 is summed in float64, it has the error of one rounding."""
    found = Scaling("var", "cpu", 12, 12, 2.0**19.8, float64_error=0.4)
    assert not found.problem
    assert "its path is degraded" in replace(found, float64_error=40.0).problem
    again = Scaling.from_json(found.to_json())
    assert (again.float64_error, again.problem) == (0.4, "")


@pytest.mark.parametrize("operator", ["matmul", "softmax", "nn.functional.layer_norm"])
def test_float64_computed_in_float32_does_not_shrink(operator: str) -> None:
    one = scaled(operator, float64_in_float32)
    assert one.violations
    assert "does not shrink as rounding would" in one.problem


def test_a_wrong_formula_does_not_shrink() -> None:
    assert "does not shrink" in scaled("softmax", slightly_wrong).problem


def test_a_degraded_float32_path_shows_in_the_mean() -> None:
    one = scaled("matmul", tf32, 40)
    assert not one.violations
    assert one.ratio > precision_scaling.HIGHEST
    assert "the float32 path is degraded" in one.problem


def test_nothing_over_nothing_says_nothing() -> None:
    assert not Scaling("exp", "cpu").problem
    assert not Scaling("exp", "cpu", 20, 3, 2.0**50).problem, "three pairs make no mean"
    assert Scaling("exp", "cpu", 20, precision_scaling.ENOUGH, 2.0**50).problem
    assert "64 path" not in Scaling("exp", "cpu", 20, 20, 2.0**21).problem
    assert "only 2^10.0 times as precise" in Scaling("exp", "cpu", 20, 20, 2.0**10).problem


def test_a_twin_has_the_same_numbers_with_more_digits() -> None:
    case = Case(
        "matmul",
        "float32",
        (TensorRecipe((4, 4), "float32", stop=900), TensorRecipe((4, 4), "float32", stop=700)),
    )
    other = precision_scaling.float64_counterpart(case)
    assert other is not None
    single, double = (prepare(c).build().tensors[0] for c in (case, other))
    assert double.dtype == torch.float64
    assert not torch.equal(double.float().double(), double), "full mantissas"
    assert (single.double() - double).abs().max() <= 2.0**-24


@pytest.mark.parametrize(
    "values", [("subnormal",), ("tokens", -1.0, 1.0, "max"), ("near", -1.0, 1.0, 0.0)]
)
def test_numbers_of_the_format_have_no_twin(values: tuple[Any, ...]) -> None:
    assert (
        precision_scaling.float64_counterpart(
            Case("exp", "float32", (TensorRecipe((4,), "float32", values),))
        )
        is None
    )
    assert (
        precision_scaling.float64_counterpart(
            Case("exp", "float32", (Literal(b"\0" * 4, "float32", (1,), (1,), 0),))
        )
        is None
    )


@pytest.mark.parametrize(
    "operator", ["relu_", "argmax", "nn.functional.dropout", "floor_divide", "transpose"]
)
def test_data_movement_jumps_and_chance_do_not_scale(operator: str) -> None:
    assert not precision_scaling.applies(operators.registry()[operator])


@pytest.mark.nightly
def test_a_run_reports_and_fails(tmp_path: Path) -> None:
    backends = [Playing("good", plain), Playing("bad", float64_in_float32)]
    run = consistency.run(
        ["matmul"], backends, directions=["forward"], examples=6, out=tmp_path / "b"
    )
    found = {one.backend: one for one in run.scalings}
    assert not found["good"].problem
    assert found["bad"].problem
    pooled = [
        r
        for r in run.failures
        if r.verdict.value == "precision-scaling" and "scaling_pairs" in r.metrics
    ]
    assert [(r.backend, r.dtype) for r in pooled] == [("bad", "float64")]
    rows = [
        json.loads(line)
        for line in (tmp_path / "b" / "scaling.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert {row["backend"]: "problem" in row for row in rows} == {"good": False, "bad": True}
    assert all(math.isfinite(row["ratio"]) for row in rows)


def test_one_precision_alone_is_not_scaled() -> None:
    assert not consistency.run(["matmul"], ["cpu"], ["float32"], ["forward"], examples=4).scalings


def test_errors_without_bounds_have_a_mean_that_float64_holds() -> None:
    """Memory that nobody wrote to holds any number: of 1e300 beside 1e-320 the quotient is
    beyond the format."""
    assert pool._geometric_mean([2060.0, 2050.0], math.nan) == 2.0**1023
    assert pool._geometric_mean([-2060.0], math.nan) == 2.0**-1022
    assert pool._geometric_mean([1.0, 3.0], math.nan) == 4.0
    assert math.isnan(pool._geometric_mean([], math.nan))
