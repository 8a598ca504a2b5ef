"""Results within budget whose errors are those of fewer bits: told from other orders of the same
sum, whichever the CPU's is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import consistency
from consistency.core.model import Cause
from consistency.core.verdict import Verdict
from consistency.diagnose import evaluation
from consistency.generate.materialize import case_of
from consistency.judge import tolerances
from consistency.judge.judgment import Judgment
from consistency.judge.reconsideration import exceeds_baseline, unusual, with_cause
from consistency.judge.rule_values import Policy

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Products(consistency.Backend):
    """A backend whose matrix product in float32 is ``how``."""

    def __init__(self, how: Product, name: str = "products") -> None:
        self.how, self.name = how, name

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        played = operator.name == "matmul" and args[0].dtype == torch.float32
        return self.how(*args) if played else super().call(operator, args, kwargs)


def in_order(step: Callable[[torch.Tensor], torch.Tensor], block: int) -> Product:
    """Blocks in float64, the running sum brought to float32 by ``step``."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x, y = a.double(), b.double()
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
        for i in range(0, x.shape[1], block):
            total = step(total + x[:, i : i + block] @ y[i : i + block])
        return total.to(a.dtype)

    return product


def nearest(x: torch.Tensor) -> torch.Tensor:
    return x.float().double()


def toward_zero(x: torch.Tensor) -> torch.Tensor:
    narrow = x.float()
    beyond = narrow.double().abs() > x.abs()
    return torch.where(beyond, torch.nextafter(narrow, torch.zeros(())), narrow).double()


# Kernels of libraries: which one a CPU gets depends on its maker, its instructions, the shape and
# the number of threads.

in_turn = in_order(nearest, 1)


def without_fma(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total = total + a[:, k, None] * b[k]
    return total


def from_behind(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return in_turn(a.flip(1), b.flip(0))


def by_pairs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    terms = a.T.unsqueeze(-1) * b.unsqueeze(-2)
    while terms.shape[0] > 1:
        terms = terms[0::2] + terms[1::2]
    return terms[0]


def in_lanes(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functools.reduce(torch.add, [in_turn(a[:, i::8], b[i::8]) for i in range(8)])


def in_parts(size: int) -> Product:
    """Running sums over so many terms, added up one after another."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functools.reduce(torch.add, map(in_turn, a.split(size, 1), b.split(size)))

    return product


KERNELS: dict[str, Product] = {
    "this machine's": torch.matmul,
    "in turn": in_turn,
    "without FMA": without_fma,
    "from behind": from_behind,
    "parts of 192": in_parts(192),
    "parts of 384": in_parts(384),
    "8 lanes": in_lanes,
    "by pairs": by_pairs,
}


@pytest.fixture(params=KERNELS)
def cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The CPU's product is made by another kernel."""
    monkeypatch.setattr(evaluation, "_CPU", Products(KERNELS[request.param], "cpu"))
    return str(request.param)


def bfloat(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def three_products(kernel: Product) -> Product:
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        high_a, high_b = bfloat(a), bfloat(b)
        low_a, low_b = bfloat(a - high_a), bfloat(b - high_b)
        return kernel(high_a, high_b) + kernel(high_a, low_b) + kernel(low_a, high_b)

    return product


def one_chain(kernel: Product) -> Product:
    """The three products as one sum that is three times as long."""

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        high_a, high_b = bfloat(a), bfloat(b)
        low_a, low_b = bfloat(a - high_a), bfloat(b - high_b)
        return kernel(torch.cat([high_a, high_a, low_a], 1), torch.cat([high_b, low_b, high_b]))

    return product


def operands(
    k: int, seed: int, draw: Callable[..., torch.Tensor] = torch.rand
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return draw(16, k, generator=generator), draw(k, 16, generator=generator)


def judged(ways: dict[str, Product], *factors: torch.Tensor) -> list[consistency.Result]:
    case = case_of("matmul", "float32", factors, {})
    backends = [Products(how, name) for name, how in ways.items()]
    return evaluation.evaluate(case, backends, tolerances.load(), directions=("forward",))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", [256, 2048])
def test_three_products_of_bfloat16_within_budget_are_found_whatever_the_cpu_errs(
    cpu: str, k: int
) -> None:
    for seed in range(2):
        (result,) = judged({"mine": three_products(in_parts(192))}, *operands(k, seed))
        assert result.verdict.value == "reduced-precision", result.explanation
        assert result.metrics["rho_max"] <= 1.0
        assert "bfloat16 inputs in three parts (bf16×3) explain" in result.explanation


@pytest.mark.one_in(2)
def test_three_products_are_found_whatever_their_own_order(cpu: str) -> None:
    """At K = 2048 a kernel that adds all terms in turn errs several times more than bf16×3 leaves
    out: there nothing can tell."""
    ways = {own: three_products(kernel) for own, kernel in KERNELS.items()}
    for result in judged(ways, *operands(256, 0)):
        assert result.verdict.value == "reduced-precision", (
            f"{result.backend}: {result.explanation}"
        )
    for result in judged(
        {own: one_chain(kernel) for own, kernel in KERNELS.items() if own != "by pairs"},
        *operands(256, 0),
    ):
        assert result.verdict.fails, (
            f"{result.backend}: {result.explanation}"
        )  # of a sum three times as long


@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("k", [512, 1024])
def test_truncation_between_blocks_is_found_within_budget(cpu: str, k: int, block: int) -> None:
    (result,) = judged({"mine": in_order(toward_zero, block)}, *operands(k, 0))
    assert result.verdict.fails, result.explanation


def _given(result: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
    return result


@functools.cache
def healthy(k: int, seed: int, draw: Callable[..., torch.Tensor]) -> dict[str, torch.Tensor]:
    kernels = KERNELS | {f"exact blocks of {block}": in_order(nearest, block) for block in (8, 64)}
    return {name: kernel(*operands(k, seed, draw)) for name, kernel in kernels.items()}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
@pytest.mark.parametrize("k", [64, 256, 2048])
def test_healthy_kernels_are_not_convicted(
    cpu: str, k: int, draw: Callable[..., torch.Tensor]
) -> None:
    ways = {name: functools.partial(_given, result) for name, result in healthy(k, 0, draw).items()}
    for result in judged(ways, *operands(k, 0, draw)):
        assert result.verdict.passes, f"{result.backend}: {result.explanation}"


def large_mean(*shape: int, generator: torch.Generator) -> torch.Tensor:
    return 4096.0 + torch.rand(*shape, generator=generator)


@pytest.mark.parametrize("k", [16, 32, 64])
def test_sums_of_numbers_that_are_alike_may_lean_where_the_cpu_s_do_not(cpu: str, k: int) -> None:
    """Added in turn with FMA three quarters of the errors have one sign; without FMA, by pairs and
    in lanes fewer."""
    ways = {
        name: functools.partial(_given, result)
        for name, result in healthy(k, 0, large_mean).items()
    }
    for result in judged(ways, *operands(k, 0, large_mean)):
        assert result.verdict.passes, f"{result.backend}: {result.explanation}"
    (result,) = judged({"mine": in_order(toward_zero, 1)}, *operands(k, 0, large_mean))
    assert result.verdict.fails


def test_a_healthy_order_may_err_many_times_as_much_as_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation, "_CPU", Products(by_pairs, "cpu"))
    (result,) = judged({"mine": in_turn}, *operands(2048, 0))
    assert result.verdict.passes, result.explanation
    assert result.metrics["rmse_ratio"] > 4.0, "the plain ratio would have called this a fault"


def found(
    value: str, ratio: float, differing: int, ulp: float = 0.9, leans: float = 0.0
) -> Judgment:
    numbers = {"rmse_ratio": ratio, "differing": float(differing), "rho_max": 0.3, "ulp_max": ulp}
    return Judgment(Verdict(value), "", numbers, leans=leans)


def test_suspicion_needs_more_than_the_last_rounding_and_elements() -> None:
    assert exceeds_baseline(found("rounding", 1.5, 128))
    assert not exceeds_baseline(found("rounding", 1.3, 1000))
    assert exceeds_baseline(found("rounding", 0.7, 1000, ulp=1.1)), "however much the CPU errs"
    assert exceeds_baseline(found("rounding", 0.7, 1000, leans=7.0))
    assert not exceeds_baseline(found("rounding", 9.0, 127, ulp=9.0, leans=7.0))
    assert not exceeds_baseline(found("divergent", 9.0, 1000)), "the second look is for these"
    assert not exceeds_baseline(found("inconclusive", 9.0, 1000))


def test_only_what_errs_more_than_the_cpu_or_to_one_side_is_looked_at_in_full() -> None:
    assert unusual(found("rounding", 1.5, 128))
    assert unusual(found("rounding", 0.7, 300, leans=7.0))
    assert not unusual(found("rounding", 1.3, 1000, ulp=20.0, leans=4.0))


def test_conviction_is_a_warning_where_reduced_precision_was_asked_for() -> None:
    passed = found("rounding", 9.0, 100)
    cause = Cause("tf32-inputs", "TF32 inputs", 0.97)
    assert with_cause(passed, None, Policy()) is passed
    assert with_cause(passed, cause, Policy()).verdict.fails
    assert (
        "its RMS error is 9.0 times the CPU's: TF32 inputs"
        in with_cause(passed, cause, Policy()).explanation
    )
    assert (
        "its errors are not random: TF32 inputs"
        in with_cause(found("rounding", 0.9, 100), cause, Policy()).explanation
    )
    assert not with_cause(passed, cause, Policy(reduced_precision=True)).verdict.fails
    assert (
        with_cause(
            passed, Cause("truncating-accumulator", "a truncating accumulator", 0.9), Policy()
        ).verdict.value
        == "divergent"
    )
