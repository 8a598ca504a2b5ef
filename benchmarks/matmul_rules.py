"""The table of docs on judging: an emulated float32 matmul, how often each rule flags healthy
results and four faults.

K = 16, 256, 2048 × four kinds of data (uniform, normal, magnitudes over 20 binades, sums that
cancel), results of 16 × 16. Healthy are sums one after another, in blocks of 8 and of 64, by pairs,
and torch's own. ``python benchmarks/verdicts.py --table``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from verdict_rules import close, same_as_dynamo, ulp_distance

import consistency
from consistency.diagnose import evaluation
from consistency.generate.materialize import case_of
from consistency.judge import tolerances
from tests.support.catalog import precision

SIZES = (16, 256, 2048)
SIDE = 16
KINDS = ("uniform", "normal", "wide", "cancelling")
FAULTS = ("truncating accumulator", "TF32", "bf16×3", "one element ×1.001")


class Given(consistency.Backend):
    """Returns the result it was given."""

    def __init__(self, name: str, result: Tensor) -> None:
        self.name, self.result = name, result

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if (
            args[0].dtype != torch.float32
        ):  # a second look in another precision: there is no such result
            raise consistency.Unsupported("one result in float32 is all there is")
        return self.result.clone()


def operands(kind: str, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    def draw(*shape: int) -> Tensor:
        x = torch.rand(shape, generator=generator)
        if kind == "uniform":
            return x
        normal = torch.randn(shape, generator=generator)
        if kind == "wide":
            return normal * torch.exp2(torch.randint(-10, 11, shape, generator=generator).float())
        return normal

    a, b = draw(SIDE, k), draw(k, SIDE)
    if kind == "cancelling":  # the second half of the terms nearly takes back the first
        half = k // 2
        a[:, half:] = -a[:, :half] * (1.0 + 1e-4 * torch.randn(SIDE, half, generator=generator))
        b[half:] = b[:half]
    return a, b


def in_blocks(a: Tensor, b: Tensor, block: int, round_to: Callable[[Tensor], Tensor]) -> Tensor:
    """Products and blocks in float64, every partial sum rounded."""
    x, y = a.double(), b.double()
    total = round_to(x[:, :block] @ y[:block])
    for i in range(block, x.shape[1], block):
        total = round_to(total + round_to(x[:, i : i + block] @ y[i : i + block]))
    return total.float()


def by_pairs(a: Tensor, b: Tensor) -> Tensor:
    terms = a.T.unsqueeze(-1) * b.unsqueeze(-2)
    while terms.shape[0] > 1:
        terms = terms[0::2] + terms[1::2]
    return terms[0]


def healthy(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    single = precision.nearest(torch.float32)
    yield a @ b
    yield by_pairs(a, b)
    for block in (1, 8, 64):
        yield in_blocks(a, b, block, single)


def faulty(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    yield in_blocks(a, b, 1, precision.toward_zero)
    yield (precision.to_bits(a, 11).double() @ precision.to_bits(b, 11).double()).float()
    high_a, high_b = precision.to_bits(a, 8), precision.to_bits(b, 8)
    low_a, low_b = precision.to_bits(a - high_a, 8), precision.to_bits(b - high_b, 8)
    yield high_a @ high_b + high_a @ low_b + low_a @ high_b
    wrong = a @ b
    wrong[SIDE // 2, SIDE // 2] *= 1.001
    yield wrong


def verdicts(a: Tensor, b: Tensor, results: list[Tensor]) -> list[dict[str, bool]]:
    """Per result, which rules flag it."""
    wide, cpu, k = a.double() @ b.double(), a @ b, a.shape[1]
    spread = a.double().abs() @ b.double().abs()
    u = 2.0**-24
    backends = [Given(str(i), result) for i, result in enumerate(results)]
    case = case_of("matmul", "float32", (a, b), {})
    ours = evaluation.evaluate(case, backends, tolerances.load(), directions=("forward",))
    found = []
    for result, judged in zip(results, ours, strict=True):
        error = (result.double() - wide).abs()
        found.append(
            {
                "torch.testing.assert_close defaults": not close(result, wide),
                "2K ULP (WebNN)": ulp_distance(result, wide.float()) > 2 * k,
                "rtol=atol=1e-3": not close(result, wide, rtol=1e-3, atol=1e-3),
                "fp64-RMSE ratio (dynamo same)": not same_as_dynamo(cpu, result, wide),
                "γ_K·|A||B|": bool((error > k * u / (1.0 - k * u) * spread).any()),
                "cosine < 0.99999": _cosine(result, wide) < 0.99999,
                "ours": judged.verdict.fails,
            }
        )
    return found


def _cosine(x: Tensor, wide: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(x.double().reshape(-1), wide.reshape(-1), 0))


def shares(repeats: int) -> list[dict[str, Any]]:
    """One line a rule: healthy results flagged (a count), and the share in which each fault was
    caught."""
    generator = torch.Generator().manual_seed(0)
    flagged: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    for k in SIZES:
        for kind in KINDS:
            for _ in range(repeats):
                a, b = operands(kind, k, generator)
                sound, wrong = list(healthy(a, b)), list(faulty(a, b))
                names = ["healthy"] * len(sound) + list(FAULTS)
                for name, rules in zip(names, verdicts(a, b, [*sound, *wrong]), strict=True):
                    total[name] += 1
                    for rule, hit in rules.items():
                        flagged.setdefault(rule, Counter())[name] += hit
    lines = []
    for rule, hits in flagged.items():
        line: dict[str, Any] = {
            "rule": rule,
            "healthy results flagged": f"{hits['healthy']}/{total['healthy']}",
        }
        lines.append(line | {fault: f"{100 * hits[fault] / total[fault]:.0f}%" for fault in FAULTS})
    return lines
