"""Infinite derivatives at the ends of a domain, which are proved, and the signs of NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import Literal, TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from consistency.reference import Reference
from consistency.reference.certified import poles
from tests.support.catalog.model import Call, Played

from .certified.tracing_calls import traced

FLOATS = ("float32", "float16", "bfloat16")
ENDS = [(name, end) for name, ends in poles._POLES.items() for end in ends]


def literal(numbers: list[float], dtype: str = "float32") -> Literal:
    values = torch.tensor(numbers, dtype=getattr(torch, dtype))
    data = values.view(torch.uint8).numpy().tobytes()
    return Literal(data, dtype, (len(numbers),), (1,))


def at(name: str, numbers: list[float], arriving: list[float], dtype: str = "float32") -> Case:
    against = (literal(arriving, dtype),)
    return Case(name, dtype, (literal(numbers, dtype),), cotangents=against)


def proved(case: Case, direction: str) -> list[Any]:
    """The proved values of all elements of the first output; None where there is none."""
    operator = operators.get(case.operator)
    reference = Reference(operator, prepare(case), direction)
    count = prepare(case).build().tensors[0].numel()
    reference.proofs.settle(0, list(range(count)))
    found = [reference.proofs.certificates.get((0, place)) for place in range(count)]
    return [certificate and certificate.high for certificate in found]


@pytest.mark.parametrize(("name", "end"), ENDS)
def test_the_limit_times_what_arrives(name: str, end: float) -> None:
    if operators.get(name).callable is None:
        pytest.skip("this torch lacks the operator")
    sign = poles._POLES[name][end]
    found = proved(at(name, [end, end, end], [0.5, -3.0, 0.0]), "backward")
    assert found[:2] == [sign * math.inf, -sign * math.inf]
    assert found[2] is None  # 0 times infinite


@pytest.mark.parametrize(("name", "end"), ENDS)
def test_it_is_the_limit_of_derivatives_inside_of_the_domain(name: str, end: float) -> None:
    if operators.get(name).callable is None:
        pytest.skip("this torch lacks the operator")
    inside = -1.0 if end == 1.0 and name not in ("acosh", "arccosh") else 1.0
    steps = torch.tensor([2.0**-10, 2.0**-20, 2.0**-40], dtype=torch.float64)
    x = (end + inside * steps).requires_grad_()
    (slopes,) = torch.autograd.grad(operators.get(name)(x).sum(), x)
    growing = slopes * poles._POLES[name][end]
    assert (growing > 0).all()
    assert (growing.diff() > 0).all()


def test_the_other_side_of_zero_is_not_proved() -> None:
    """By 1/√x³ the gradient of 1/√x at −0 is infinite of the other sign, by 1/(x·√x) it is not."""
    assert proved(at("rsqrt", [-0.0], [1.0]), "backward") == [None]
    assert proved(at("sqrt", [-0.0], [1.0]), "backward") == [None]


def verdicts(case: Case, deed: Any, direction: str) -> list[str]:
    backend = Played("played", deed)
    operator = operators.get(case.operator)
    results = judge_case(case, operator, [backend], tolerances.load(), (direction,))
    return [result.verdict.value for result in results]


def plain(call: Call) -> Any:
    return call.run()


def with_gradient(gradient: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """A deed that gives 1/√x; ``gradient`` is asked with x and what arrives."""

    class Rsqrt(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.rsqrt()

        @staticmethod
        def backward(ctx: Any, *arriving: Tensor) -> Tensor:
            return gradient(ctx.saved_tensors[0], arriving[0])

    return lambda call: Rsqrt.apply(call.args[0])


def upwards(x: Tensor, arriving: Tensor) -> Tensor:
    """The gradient, but +∞ at 0, whatever arrives."""
    right = -0.5 * arriving * x.rsqrt() ** 3
    return torch.where(x == 0, right.abs(), right)


def quotient(x: Tensor, arriving: Tensor) -> Tensor:
    """−g·y/(2x) in place of −g·y³/2."""
    return -0.5 * arriving * (x.rsqrt() / x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_an_infinity_of_the_other_sign_fails(dtype: str) -> None:
    case = at("rsqrt", [0.0, 1.0, 4.0], [2.0, 1.0, -1.0], dtype)
    assert verdicts(case, with_gradient(upwards), "backward") == ["special-values"]
    assert verdicts(case, plain, "backward") in (["exact"], ["rounding"])


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_other_formula_of_the_gradient_passes(dtype: str) -> None:
    case = at("rsqrt", [0.0, 1.0, 4.0], [2.0, 1.0, -1.0], dtype)
    assert verdicts(case, with_gradient(quotient), "backward") == ["exact"]


def _not_for_nan(call: Call) -> Tensor:
    result: Tensor = call.run()
    return result & ~call.args[0].isnan()


@pytest.mark.parametrize("dtype", [*FLOATS, "float64"])
def test_the_sign_bit_of_a_given_nan(dtype: str) -> None:
    x = TensorRecipe((4,), dtype, ("uniform", 0.5, 1.0), 2001, special=((0, "-nan"), (1, "nan")))
    case = Case("signbit", dtype, (x,))
    assert proved(case, "forward") == [True, False, False, False]
    assert verdicts(case, _not_for_nan, "forward") == ["divergent"]
    assert verdicts(case, plain, "forward") == ["exact"]


def test_copysign_takes_it() -> None:
    x = TensorRecipe((3,), "float32", ("integers", 2, 2), 2001)
    sign = TensorRecipe((3,), "float32", ("uniform", 0.5, 1.0), 3001,
                        special=((0, "-nan"), (1, "nan")))  # fmt: skip
    assert proved(Case("copysign", "float32", (x, sign)), "forward") == [-2.0, 2.0, 2.0]


def test_that_of_a_computed_nan_is_not_known() -> None:
    x = torch.tensor([math.inf, 1.0])
    (found,) = traced(lambda x: torch.signbit(x - x), x)
    assert found.tolist()[0] is None
