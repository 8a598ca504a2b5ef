"""Derivatives as operators: what torch computes passes, a second derivative or one along a tangent
that is off is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.core.verdict import VerdictKind
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.generate.shipped import cases as shipped
from consistency.operators import get, registry
from consistency.operators.derivatives import jvp, vjp
from consistency.reference import quiet
from tests.support.running import failures, judged, noticed

pytestmark = pytest.mark.usefixtures("drawn_once")

DERIVATIVES = [operator for operator in registry().values() if operator.derivative_of is not None]
SOME = ("vjp.tanh", "vjp.logit", "vjp.nn.functional.softplus", "vjp.linalg.inv", "vjp.matmul")
ALONG = ("jvp.tanh", "jvp.logsumexp", "jvp.nn.functional.hardtanh", "jvp.var", "jvp.matmul")


class Identity(torch.autograd.Function):
    """The same numbers, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * ctx.factor, None


class Factor(consistency.Backend):
    """Multiplies second derivatives, and derivatives along tangents."""

    name = "factor"

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        result = operator(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            return result * self.factor
        return tuple(Identity.apply(g, self.factor) if g.requires_grad else g for g in result)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("operator", DERIVATIVES, ids=lambda operator: operator.name)
def test_draws_run_in_their_dtype_and_in_float64(operator: consistency.Operator) -> None:
    for case in search.batch(operator, "float32", 3):
        for dtype in (None, "float64"):
            arguments = prepare(case).build(dtype)
            operator(*arguments.args, **arguments.kwargs)


def test_a_gradient_has_one_result_for_each_argument_that_has_one() -> None:
    x, y = torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    gradients = vjp(get("mul"), x, y, torch.ones(3, dtype=torch.float64))
    assert torch.equal(gradients[0], y)
    assert torch.equal(gradients[1], x)
    assert not gradients[0].requires_grad


def test_a_second_derivative_is_the_gradient_of_a_gradient() -> None:
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    (gradient,) = vjp(get("sin"), x, torch.tensor(1.0, dtype=torch.float64))
    assert torch.autograd.grad(gradient, x)[0].item() == pytest.approx(-torch.sin(x).item())


def test_along_tangents_all_arguments_move() -> None:
    x, y = torch.tensor(2.0), torch.tensor(3.0)
    assert jvp(get("mul"), x, y, [torch.tensor(1.0), torch.tensor(10.0)]).item() == 23.0


def test_a_derivative_by_nothing_is_zero() -> None:
    index = torch.tensor([0, 1])
    assert jvp(get("nn.functional.one_hot"), index, []).unique().tolist() == [0]


def test_zeros_have_memory() -> None:
    """Autograd's own have none."""
    x, one = torch.tensor([1.0, -1.0]), torch.ones(2)
    for derivative in (jvp(get("sgn"), x, [one]), *vjp(get("sgn"), x, one)):
        assert not derivative._is_zerotensor()
        assert derivative.numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", [*SOME, *ALONG])
def test_healthy_derivatives_pass(name: str) -> None:
    results = list(judged(name, backends=[Factor(1.0)], examples=10))
    assert results
    assert not [r for r in results if r.verdict.fails]


@pytest.mark.parametrize("name", [*SOME, *ALONG])
def test_one_that_is_off_by_a_hundredth_is_noticed(name: str) -> None:
    assert noticed(name, backends=[Factor(1.01)], examples=10)


def test_only_the_second_derivative_is_blamed() -> None:
    found = failures("vjp.tanh", backends=[Factor(1.01)], examples=10)
    assert {result.direction for result in found} == {"backward"}


@pytest.mark.parametrize("name", ["jvp.linalg.det", "jvp.cholesky_solve", "jvp.logcumsumexp"])
def test_a_wrong_formula_of_torch_excuses_only_who_shares_it(name: str) -> None:
    sharing = list(judged(name, backends=["cpu", Factor(1.0)], examples=10))
    assert not [r for r in sharing if r.verdict.fails]
    assert {r.backend for r in sharing if r.verdict.kind is VerdictKind.KNOWN} >= {"cpu"}
    assert noticed(name, backends=[Factor(1.01)], examples=10)


def test_shipped_calls_are_answered() -> None:
    """Also where the arguments that are differentiated were chosen anew: what raises in float64,
    too, is not accused."""
    for operator in registry().values():
        if operator.family == "derivatives":
            for case in shipped.first_cases(operator, "float32", 2):
                arguments = prepare(case).build()
                with quiet():
                    operator(*arguments.args, **arguments.kwargs)
