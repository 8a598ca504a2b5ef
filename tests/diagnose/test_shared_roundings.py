"""Steps of half precision that are rounded one by one: what all elements of a row share is no sign
of inputs with fewer bits, and inputs with fewer bits are told from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency.diagnose import evaluation
from consistency.diagnose.attribution.shared_factors import least_share
from consistency.generate.materialize import case_of
from consistency.judge import tolerances

U = 2.0**-11  # of float16
SHAPES = [(1, 324), (1, 517), (1, 1000), (3, 400), (40, 64)]


class RoundedLength(torch.autograd.Function):
    """The cosine, whose gradient is divided by lengths that are off, one of each row."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, away: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        ctx.away = away
        cosine = torch.nn.functional.cosine_similarity(x.double(), y.double(), dim=-1)
        return cosine.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        with torch.enable_grad():
            x, y = (t.double().detach().requires_grad_() for t in ctx.saved_tensors)
            cosine = torch.nn.functional.cosine_similarity(x, y, dim=-1)
        slopes = torch.autograd.grad(cosine, (x, y), gradients[0].double())
        first, second = ((slope * (1.0 + ctx.away[:, None])).to(torch.float16) for slope in slopes)
        return first, second, None


class Cosines(consistency.Backend):
    """``away``: how much the lengths are off at most, with random signs; ``short``: whether inputs
    are brought to bfloat16."""

    def __init__(self, name: str, away: float = 0.0, short: bool = False) -> None:
        self.name, self.away, self.short = name, away, short

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        x, y = (a.to(torch.bfloat16).to(a.dtype) for a in args[:2]) if self.short else args[:2]
        generator = torch.Generator().manual_seed(len(x))
        away = self.away * torch.randint(-1, 2, (len(x),), generator=generator).double()
        if len(x) == 1:
            away = torch.tensor([self.away], dtype=torch.float64)
        return RoundedLength.apply(x, y, away)  # type: ignore[no-untyped-call]


def judged(backend: consistency.Backend, rows: int, length: int) -> list[consistency.Result]:
    generator = torch.Generator().manual_seed(length)
    x, y = (torch.randn(rows, length, generator=generator).half() for _ in range(2))
    case = case_of("nn.functional.cosine_similarity", "float16", (x, y), {"dim": -1})
    return evaluation.evaluate(replace(case, cotangent=4001), [backend], tolerances.load())


@pytest.mark.parametrize(("rows", "length"), SHAPES)
@pytest.mark.parametrize("away", [-U, U])
def test_a_length_rounded_for_a_whole_row_is_healthy(rows: int, length: int, away: float) -> None:
    for result in judged(Cosines("rounded", away), rows, length):
        assert not result.verdict.fails, f"{result.direction}: {result.explanation}"


@pytest.mark.parametrize(("rows", "length"), SHAPES)
def test_inputs_of_bfloat16_are_found(rows: int, length: int) -> None:
    results = judged(Cosines("short", short=True), rows, length)
    found = [r for r in results if r.verdict.fails]
    assert any("bfloat16" in r.explanation for r in found), [r.explanation for r in results]


def test_shares_beyond_factors() -> None:
    generator = np.random.default_rng(0)
    numbers, own = generator.normal(size=(2, 40, 64))
    factors = generator.normal(size=(40, 1)) * numbers
    shape, flat = numbers.shape, (numbers.ravel(), numbers.shape)
    assert least_share(own.ravel(), own.ravel(), *flat) == pytest.approx(1.0)
    for error in (factors, 3.0 * numbers):  # of each row, of all
        noise = error + 1e-3 * generator.normal(size=shape)
        assert least_share(noise.ravel(), error.ravel(), *flat) < 0.01
    assert least_share((own + factors).ravel(), own.ravel(), *flat) < 0.6
    assert least_share(np.zeros(4), np.ones(4), np.ones(4), (2, 2)) == 0.0
