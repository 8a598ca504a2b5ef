"""Whether a derivative is the slope of its function: torch's right ones and kinks are not accused,
wrong formulas are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from consistency.core.model import Case
from consistency.generate.materialize import case_of, prepare
from consistency.operators import get
from consistency.operators.declare import Operator, call
from consistency.operators.derivatives import forward, second
from consistency.reference import Reference
from consistency.reference.invariances.slopes import Slope, slopes

POINTS = torch.linspace(-1.9, 2.0, 7)  # without 0
ONES = torch.linspace(0.5, 1.5, 7)


class Cube(torch.autograd.Function):
    """x³, whose second derivative is wrong by a factor."""

    factor = 1.0

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, cotangent: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        scaled = x * Cube.factor + (x - x * Cube.factor).detach()
        return cotangent * 3.0 * scaled**2

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return tangent * 3.0 * x**2 * Cube.factor


def found(
    derive: Callable[[Operator], Operator],
    function: Callable[..., Any],
    x: torch.Tensor,
    monkeypatch: pytest.MonkeyPatch,
    factor: float = 1.0,
) -> list[Slope]:
    monkeypatch.setattr(Cube, "factor", factor)
    original = Operator(
        name="given", family="unary", sample=lambda _: call(), function=function,
        dtypes=("float32",),
    )  # fmt: skip
    operator = derive(original)
    last: Any = ONES[: len(x)] if derive is second else [ONES[: len(x)]]
    case: Case = case_of(operator.name, "float32", (x, last), {}, cotangent=100)
    materials = prepare(case)
    direction = "backward" if derive is second else "forward"
    reference = Reference(operator, materials, direction)
    assert reference.outcome.ok, reference.outcome.message
    return list(slopes(operator, materials, direction, reference.outcome.outputs))


SMOOTH: list[Callable[..., Any]] = [torch.sin, torch.exp, torch.sigmoid, torch.tanh, Cube.apply]
KINKED: list[Callable[..., Any]] = [
    torch.relu, torch.abs, torch.nn.functional.hardswish, torch.nn.functional.softshrink,
]  # fmt: skip


@pytest.mark.parametrize("derive", [second, forward])
@pytest.mark.parametrize("function", SMOOTH)
def test_right_formulas_are_not_accused(
    derive: Any, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not found(derive, function, POINTS, monkeypatch)


@pytest.mark.parametrize("derive", [second, forward])
@pytest.mark.parametrize("factor", [1.05, 0.0, -1.0])
def test_wrong_formulas_are(derive: Any, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    (slope,) = found(derive, Cube.apply, POINTS, monkeypatch, factor)
    x = float(POINTS[slope.place])
    if derive is forward:
        assert slope.slope == pytest.approx(3.0 * x**2 * float(ONES[slope.place]))


@pytest.mark.parametrize("derive", [second, forward])
@pytest.mark.parametrize("function", KINKED)
@pytest.mark.parametrize("at", [0.0, 3.0, 0.5])
def test_a_kink_has_no_slope(
    derive: Any, function: Any, at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not found(derive, function, torch.full((3,), at), monkeypatch)


@pytest.mark.parametrize("derive", [second, forward])
def test_what_rounding_hides_is_not_accused(derive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside 2⁵⁰ a quotient of differences has few digits left."""
    assert not found(derive, lambda x: torch.sin(x) + 2.0**50 * x, POINTS, monkeypatch)


@pytest.mark.parametrize("derive", [second, forward])
def test_details_finer_than_the_distances_are_not_accused(
    derive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not found(derive, lambda x: torch.sin(x * 2.0**20), POINTS, monkeypatch)
    assert not found(derive, lambda x: x / (x.abs() + 1e-9), POINTS * 1e-9, monkeypatch)


@pytest.mark.parametrize("derive", [second, forward])
def test_nan_and_infinity_are_not_accused(derive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, 1e-30])
    assert not found(derive, torch.exp, special, monkeypatch)


def test_the_slope_of_a_power_at_an_exponent_of_zero_is_found() -> None:
    """torch says 0 (docs/findings-gradients.md)."""
    exponents = torch.zeros(1)
    case = case_of("vjp.pow", "float32", (POINTS[4:5], exponents, ONES[:1]), {}, cotangent=100)
    operator, materials = get("vjp.pow"), prepare(case)
    reference = Reference(operator, materials, "backward")
    (slope,) = slopes(operator, materials, "backward", reference.outcome.outputs)
    assert slope.index == 1  # by the exponent
    assert abs(slope.slope) > 2.0**-20
