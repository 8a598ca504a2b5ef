"""Results within budget that err more than the CPU: fewer bits are told from another order of the same sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import consistency
from consistency import evaluate, tolerances
from consistency.judge import Judgement, convicted, suspicious
from consistency.materialise import case_of
from consistency.model import Cause, Verdict
from consistency.tolerances import Policy

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Products(consistency.Backend):
    """A backend whose matrix product is ``how``."""

    name = "products"

    def __init__(self, how: Product) -> None:
        self.how = how

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        return self.how(*args) if operator.name == "matmul" else super().call(operator, args, kwargs)


def bfloat(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def three_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    high_a, high_b = bfloat(a), bfloat(b)
    low_a, low_b = bfloat(a - high_a), bfloat(b - high_b)
    return high_a @ high_b + high_a @ low_b + low_a @ high_b


def in_order(step: Callable[[torch.Tensor], torch.Tensor], block: int) -> Product:
    """Blocks in float64, the running sum brought to float32 by ``step``."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x, y = a.double(), b.double()
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
        for i in range(0, x.shape[1], block):
            total = step(total + x[:, i : i + block] @ y[i : i + block])
        return total.to(a.dtype)

    return product


def toward_zero(x: torch.Tensor) -> torch.Tensor:
    narrow = x.float()
    beyond = narrow.double().abs() > x.abs()
    return torch.where(beyond, torch.nextafter(narrow, torch.zeros(())), narrow).double()


def positive(k: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(16, k, generator=generator), torch.rand(k, 16, generator=generator)


def judged(how: Product, k: int, seed: int) -> consistency.Result:
    case = case_of("matmul", "float32", positive(k, seed), {})
    return evaluate.evaluate(case, [Products(how)], tolerances.load(), directions=("forward",))[0]


@pytest.mark.parametrize("k", [256, 2048])
def test_three_products_of_bfloat16_within_budget_are_found_by_what_they_leave_out(k: int) -> None:
    for seed in range(5):
        result = judged(three_products, k, seed)
        assert result.verdict.value == "reduced-precision", result.explanation
    assert result.metrics["rho_max"] <= 1.0
    assert "times the CPU's: bfloat16 inputs in three parts (bf16×3) explain" in result.explanation


@pytest.mark.parametrize("block", [16, 32])
def test_truncation_between_blocks_is_found_within_budget(block: int) -> None:
    result = judged(in_order(toward_zero, block), 1024, 0)
    assert result.verdict.fails, result.explanation


@pytest.mark.parametrize("k", [64, 256, 2048])
@pytest.mark.parametrize("block", [1, 8, 64])
def test_a_healthy_sum_in_order_is_suspected_but_not_convicted(k: int, block: int) -> None:
    ratios = []
    for seed in range(10):
        result = judged(in_order(lambda x: x.float().double(), block), k, seed)
        assert result.verdict.passes, result.explanation
        ratios.append(result.metrics["rmse_ratio"])
    if k == 2048 and block == 1:
        assert max(ratios) > 4.0, "the plain ratio would have called this a fault"


def test_suspicion_needs_a_ratio_and_elements() -> None:
    def found(value: str, ratio: float, differing: int) -> Judgement:
        return Judgement(Verdict(value), "", {"rmse_ratio": ratio, "differing": float(differing), "rho_max": 0.3})

    assert suspicious(found("rounding", 1.5, 128))
    assert not suspicious(found("rounding", 1.3, 1000))
    assert not suspicious(found("rounding", 9.0, 127))
    assert not suspicious(found("divergent", 9.0, 1000)), "the second look is for these"
    assert not suspicious(found("undecidable", 9.0, 1000))


def test_conviction_is_a_warning_where_reduced_precision_was_asked_for() -> None:
    found = Judgement(Verdict("rounding"), "", {"rmse_ratio": 9.0, "differing": 100.0, "rho_max": 0.3})
    cause = Cause("tf32-inputs", "TF32 inputs", 0.97)
    assert convicted(found, None, Policy()) is found
    assert convicted(found, cause, Policy()).verdict.fails
    assert not convicted(found, cause, Policy(reduced_precision=True)).verdict.fails
    assert convicted(found, Cause("truncating-accumulator", "a truncating accumulator", 0.9), Policy()).verdict.value == "divergent"
