"""The simulated rounding errors of replayed steps: their size, how they are shared, and that they
are the same each time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from consistency.generate.materialize import case_of, prepare
from consistency.operators import get
from consistency.operators.declare import Operator, call
from consistency.operators.derivatives import second
from consistency.reference import step_noise
from consistency.reference.recorded_steps import RecordedSteps
from consistency.reference.step_noise import SHIFT, StepNoise

REPLAYS = 8
ULP = 2.0**-23  # of float32 numbers in [1, 2)


def errors_of(function: Any, *tensors: torch.Tensor, replays: int = REPLAYS) -> list[torch.Tensor]:
    """(result of a replay − exact result) ÷ 2⁻²⁰, of each replay."""
    operator = Operator(name="mine", family="mine", sample=lambda d: call(), function=function)
    materials = prepare(case_of("mine", "float32", tensors, {}, cotangent=100))
    steps = RecordedSteps(operator, materials, "forward")
    arguments, noise = materials.build("float64"), StepNoise(replays)
    (exact,) = steps.replay(arguments, noise.measured)
    assert exact is not None
    found = [steps.replay(arguments, noise.added)[0] for _ in range(replays)]
    return [(one - exact) / SHIFT for one in found if one is not None]


def exponential(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x)


@pytest.mark.parametrize("at_once", [1 << 15, 0])
def test_an_error_is_at_most_half_an_ulp(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_noise, "_AT_ONCE", at_once)
    errors = errors_of(exponential, torch.linspace(0.01, 0.69, 100))
    assert len(errors) == REPLAYS
    assert all(0.0 < float(error.abs().max()) <= 0.5 * ULP for error in errors)
    assert float(torch.stack(errors).square().mean().sqrt()) > 0.15 * ULP  # uniform: 0.29


def test_a_binade_shares_an_error_in_every_other_replay() -> None:
    errors = errors_of(exponential, torch.linspace(0.01, 0.69, 100))
    assert sum(len(set(error.tolist())) == 1 for error in errors) == REPLAYS // 2


def test_the_sign_of_a_number_is_that_of_its_error_in_every_fourth_replay() -> None:
    x = torch.cat([torch.linspace(0.3, 0.45, 50), -torch.linspace(0.3, 0.45, 50)])
    errors = [error.tolist() for error in errors_of(torch.sinh, x)]
    shared = [error for error in errors if len(set(map(abs, error))) == 1]
    opposite = [error for error in shared if error[0] == -error[-1]]
    assert (len(shared), len(opposite)) == (REPLAYS // 2, REPLAYS // 4)


def test_the_same_numbers_every_time() -> None:
    one, other = (errors_of(exponential, torch.linspace(0.0, 1.0, 9)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("function", "shapes", "terms"),
    [
        (F.conv2d, ((2, 3, 8, 8), (4, 3, 3, 3)), 27),
        (F.conv_transpose1d, ((2, 3, 8), (3, 4, 3)), 9),
        (F.bilinear, ((5, 6), (5, 7), (3, 6, 7)), 42),
    ],
)
def test_a_sum_that_cancels_errs_by_the_size_of_its_terms(
    function: Any, shapes: tuple[tuple[int, ...], ...], terms: int
) -> None:
    """With factors of one size and either sign, S is the number of terms, within the image."""
    tensors = [
        torch.where(torch.arange(torch.Size(shape).numel()).remainder(2) == 0, 1.0, -1.0)
        .mul(1.0 + 2.0**-20)
        .reshape(shape)
        for shape in shapes
    ]
    errors = torch.stack(errors_of(function, *tensors, replays=64))
    largest = float(errors.square().mean(0).sqrt().max())
    # σ = √(4 · 0.039) · u · S, besides what the sum itself adds
    assert 0.35 * 2.0**-24 * terms < largest < 6.0 * 2.0**-24 * terms


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_gradient_of_a_convolution_has_errors(direction: str) -> None:
    operator = second(get("nn.functional.conv1d"))
    x, weight = torch.linspace(-1.0, 1.0, 24).reshape(2, 3, 4), torch.linspace(0.5, 1.0, 18)
    arguments = (x, weight.reshape(3, 3, 2), torch.linspace(-1.0, 2.0, 18).reshape(2, 3, 3))
    materials = prepare(case_of(operator.name, "float32", arguments, {}, cotangent=100))
    steps, noise = RecordedSteps(operator, materials, direction), StepNoise(4)
    float64 = materials.build("float64")
    exact, replayed = steps.replay(float64, noise.measured), steps.replay(float64, noise.added)
    assert len(exact) >= 2
    for one, other in zip(exact, replayed, strict=True):
        assert one is not None
        assert other is not None
        assert 0.0 < float((one - other).abs().max()) < 1e-4 * SHIFT
