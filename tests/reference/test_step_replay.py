"""Recorded steps replayed in float64: the numbers of the function itself, whatever views, writes
and layouts it uses, and as often as they are replayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from consistency.generate.materialize import Arguments, case_of, prepare
from consistency.operators.declare import Operator, call
from consistency.reference.recorded_steps import RecordedSteps
from consistency.reference.step_replay import RecordedStep

X = torch.linspace(0.1, 2.3, 12).reshape(3, 4)


def written_in_place(x: torch.Tensor) -> torch.Tensor:
    result = x.exp()
    result[:, 1].mul_(3.0)
    return result.add_(x)


def seen_through_a_transpose(x: torch.Tensor) -> torch.Tensor:
    other = x.t().exp()  # keeps the strides of its argument
    other[0] = x[:, 1]
    return (other @ x).sin()


def with_zeros_made_inside(x: torch.Tensor) -> torch.Tensor:
    padded = torch.zeros(3, 6)
    padded[:, 1:5] = x.cos()
    return padded.cumsum(1)


def with_a_number_made_inside(x: torch.Tensor) -> torch.Tensor:
    return x.exp() + torch.zeros(()) * torch.full((4,), 0.5)


def of_parts(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([part.exp() for part in x.split(1)], dim=1)


def its_own_argument(x: torch.Tensor) -> torch.Tensor:
    return x.exp_().sqrt()


def several_results(x: torch.Tensor) -> torch.Tensor:
    values, places = x.exp().sort(descending=True)
    return values.gather(1, places).log()


FUNCTIONS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    written_in_place, seen_through_a_transpose, with_zeros_made_inside, with_a_number_made_inside,
    of_parts, its_own_argument, several_results, F.softmax,
]  # fmt: skip


def steps_of(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor = X
) -> tuple[RecordedSteps, Arguments]:
    operator = Operator(name="mine", family="mine", sample=lambda d: call(), function=function)
    materials = prepare(case_of("mine", "float32", (x,), {}, cotangent=100))
    return RecordedSteps(operator, materials, "forward"), materials.build("float64")


@pytest.mark.filterwarnings("ignore:Implicit dimension choice:UserWarning")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [X, X.t().contiguous().t(), torch.ones(9, 8)[::3, ::2] * X])
def test_the_numbers_of_the_function(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> None:
    steps, arguments = steps_of(function, x)
    torch.set_default_dtype(torch.float64)  # of zeros that the function makes itself
    try:
        expected = function(x.double())
    finally:
        torch.set_default_dtype(torch.float32)
    for _ in range(2):  # a replay changes neither the arguments nor the next one
        (found,) = steps.replay(arguments)
        assert found is not None
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=0.0)
    assert torch.equal(arguments.tensors[0], x.double())


@pytest.mark.filterwarnings("ignore:Implicit dimension choice:UserWarning")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_rounding_result_is_changed_once(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    steps, arguments = steps_of(function)
    seen: list[str] = []

    def copied(step: RecordedStep, number: int, value: torch.Tensor, given: Any) -> torch.Tensor:
        seen.append(step.name)
        return value * 1.0

    def moved(step: RecordedStep, number: int, value: torch.Tensor, given: Any) -> torch.Tensor:
        return value + 2.0**-30

    (exact,), (same,) = steps.replay(arguments), steps.replay(arguments, copied)
    assert exact is not None
    assert same is not None
    assert torch.equal(exact, same)
    assert seen == [step.name for step in steps.steps if step.rounds]
    (other,) = steps.replay(arguments, moved)
    assert other is not None
    assert 2.0**-33 < float((other - exact).abs().max()) < 2.0**-20
