"""Sums of float32 numbers: orders and kinds of data, what λ they need, and their errors in modelled
standard deviations."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from matmul_rules import Given

from consistency.diagnose.evaluation import evaluate
from consistency.generate.materialize import case_of
from consistency.judge import tolerances
from consistency.reference.input_numbers import _HEAVY
from consistency.reference.rounding_variance import healthy_variance

from .tables import Array, U, table


def one_by_one(terms: Array) -> Array:
    total = np.zeros(terms.shape[1:], np.float32)
    for row in terms:
        total = total + row
    return total


def in_lanes(terms: Array, lanes: int = 8) -> Array:
    """As a vector unit: ``lanes`` running sums, added up at the end."""
    rest = -terms.shape[0] % lanes
    padded = np.concatenate([terms, np.zeros((rest, *terms.shape[1:]), np.float32)])
    return one_by_one(one_by_one(padded.reshape(-1, lanes, *terms.shape[1:])))


def in_blocks(terms: Array, block: int = 64) -> Array:
    return one_by_one(
        np.stack([one_by_one(terms[i : i + block]) for i in range(0, terms.shape[0], block)])
    )


def by_pairs(terms: Array) -> Array:
    while terms.shape[0] > 1:
        odd = terms[-1:] if terms.shape[0] % 2 else terms[:0]
        even = terms[: terms.shape[0] // 2 * 2]
        terms = np.concatenate([even[0::2] + even[1::2], odd])
    return terms[0]


def truncating(terms: Array) -> Array:
    """One by one, every partial sum rounded toward zero."""
    total = np.zeros(terms.shape[1:])
    for row in terms.astype(np.float64):
        exact = total + row
        near = exact.astype(np.float32)
        total = np.where(
            np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near
        ).astype(np.float64)
    return total.astype(np.float32)


ORDERS: dict[str, Callable[[Array], Array]] = {
    "one by one": one_by_one, "8 lanes": in_lanes, "blocks of 64": in_blocks, "pairs": by_pairs,
}  # fmt: skip


def draw(kind: str, n: int, m: int, random: np.random.Generator) -> Array:
    """(n, m) float32 terms."""
    normal = random.standard_normal((n, m))
    match kind:
        case "constant":
            return np.broadcast_to(random.uniform(1.0, 2.0, m).astype(np.float32), (n, m))
        case "uniform":
            numbers = random.random((n, m))
        case "normal":
            numbers = normal
        case "wide":  # magnitudes over 20 binades
            numbers = normal * np.exp2(random.integers(-10, 11, (n, m)))
        case "binades":  # the project's own class "wide"
            numbers = (
                np.sign(normal)
                * (1.0 + random.random((n, m)))
                * np.exp2(random.integers(-10, 11, (n, m)))
            )
        case "cancelling":  # the second half nearly takes back the first
            half = n // 2
            numbers = normal
            numbers[half : 2 * half] = -normal[:half] * (
                1.0 + 1e-4 * random.standard_normal((half, m))
            )
        case "alternating":  # signs follow the position
            numbers = (1.0 + random.random((n, m)) / 256.0) * np.where(np.arange(n) % 2, 1.0, -1.0)[
                :, None
            ]
        case "large mean":
            numbers = 4096.0 + random.random((n, m))
        case "products" | "wide products":  # of a matrix product: columns share their factors
            side = math.isqrt(m)
            a, b = (
                draw("normal" if kind == "products" else "binades", n, side, random)
                for _ in range(2)
            )
            numbers = (a[:, :, None] * b[:, None, :]).reshape(n, m)
        case _:
            raise ValueError(kind)
    return numbers.astype(np.float32)


def errors_of(terms: Array, total: Array) -> tuple[Array, Array, Array]:
    """(signed error, exact sum, S) in float64."""
    wide = terms.astype(np.float64)
    exact = wide.sum(0)
    return total - exact, exact, np.abs(wide).sum(0)


def growth() -> None:
    """Largest e/(√n·u·S) over 64 sums: the λ that G = √n needs; of the constants also e/(n·u·S)."""
    sizes = (16, 256, 4096, 65536)
    rows: list[Sequence[Any]] = []
    for kind in (
        "uniform",
        "normal",
        "cancelling",
        "alternating",
        "large mean",
        "wide",
        "constant",
    ):
        for name, order in ORDERS.items():
            needs = []
            for n in sizes:
                terms = draw(kind, n, 64, np.random.default_rng(n))
                e, _, s = errors_of(terms, order(terms))
                needs.append(float(np.max(np.abs(e) / s)) / (math.sqrt(n) * U))
            rows.append((kind, name, *needs, needs[-1] / math.sqrt(sizes[-1])))
    table(["data", "order", *(f"n = {n}" for n in sizes), "last, with G = n"], rows)
    print()
    rows = []
    for n in (1 << 10, 1 << 16, 1 << 20, 1 << 22):
        tenth = np.full((n, 1), 0.1, np.float32)
        e, _, s = errors_of(tenth, np.cumsum(tenth, 0, dtype=np.float32)[-1])
        rows.append(
            (
                f"0.1 × {n}, one by one",
                float(np.abs(e / s)[0]) / (math.sqrt(n) * U),
                float(np.abs(e / s)[0]) / (n * U),
            )
        )
    for kind in ("uniform", "large mean", "constant"):
        x = draw(kind, 65536, 64, np.random.default_rng(5))
        k = np.arange(1, 65537)[:, None]
        e = np.abs(
            torch.cumsum(torch.from_numpy(np.ascontiguousarray(x)), 0).double().numpy()
            - np.cumsum(x.astype(np.float64), 0)
        )
        s = np.cumsum(np.abs(x.astype(np.float64)), 0)
        rows.append(
            (
                f"torch.cumsum, {kind}",
                float(np.max(e / s / np.sqrt(k))) / U,
                float(np.max(e / s / k)) / U,
            )
        )
    table(["sequential", "needs λ with G = √n", "with G = n"], rows)


def entropy() -> None:
    """Largest e/(√n·u·S) of 256 sequential sums whose terms are drawn from d numbers, or mostly
    from one."""
    sizes = (32, 64, 256, 4096, 32768)
    rows: list[Sequence[Any]] = []
    for d in (1, 2, 4, 8, 16, 32, 128):
        needs = []
        for n in sizes:
            random = np.random.default_rng(n + d)
            few = random.uniform(0.0, 1.0, (d, 256)).astype(np.float32)
            terms = np.take_along_axis(few, random.integers(0, d, (n, 256)), 0)
            e, _, s = errors_of(terms, one_by_one(terms))
            needs.append(float(np.max(np.abs(e) / s)) / (math.sqrt(n) * U))
        rows.append((f"{d} distinct", *needs))
    for share in (0.05, 0.25, 0.45, 0.75):
        needs = []
        for n in sizes:
            random = np.random.default_rng(n)
            terms = np.where(
                random.random((n, 256)) < share,
                random.random((n, 256)),
                random.uniform(0.0, 1.0, 256)[None],
            ).astype(np.float32)
            e, _, s = errors_of(terms, one_by_one(terms))
            needs.append(float(np.max(np.abs(e) / s)) / (math.sqrt(n) * U))
        rows.append((f"{share:.0%} varied, the rest one number", *needs))
    table(["terms", *(f"n = {n}" for n in sizes)], rows)
    worst = dict.fromkeys(("2 to 8", "9 to 64"), 0.0)
    for n in range(2, 65):
        size = "2 to 8" if n <= 8 else "9 to 64"
        terms = np.broadcast_to(
            np.random.default_rng(n).uniform(1.0, 2.0, 4096).astype(np.float32), (n, 4096)
        )
        e, _, s = errors_of(terms, one_by_one(terms))
        worst[size] = max(worst[size], float(np.max(np.abs(e) / s)) / (math.sqrt(n) * U))
    print(
        f"\nlargest over 258,048 sums of equal numbers: "
        f"{ {size: round(need, 2) for size, need in worst.items()} }\n"
    )
    rules, rows = tolerances.load(), []
    for share in (0.2, 0.3, 0.45, 0.75, 1.0):
        cells = []
        for n in (64, 256, 1024, 4096, 16384):
            hits: Counter[str] = Counter()
            for seed in range(5):
                random = np.random.default_rng(seed)
                terms = np.where(
                    random.random((n, 16)) < share, random.random((n, 16)), random.uniform()
                ).astype(np.float32)
                given = [
                    Given(name, torch.from_numpy(order(terms))) for name, order in ORDERS.items()
                ]
                case = case_of(
                    "sum", "float32", (torch.from_numpy(np.ascontiguousarray(terms.T)), 1), {}
                )
                for result in evaluate(case, given, rules, directions=("forward",)):
                    hits[result.backend] += result.verdict.fails
            cells.append(
                ", ".join(f"{count} {name}" for name, count in hits.items() if count) or "–"
            )
        rows.append((f"{share:.0%}", *cells))
    table(
        [
            "varied; healthy sums failed, of 5 each",
            *(f"n = {n}" for n in (64, 256, 1024, 4096, 16384)),
        ],
        rows,
    )


KINDS = (
    "uniform",
    "normal",
    "products",
    "cancelling",
    "large mean",
    "alternating",
    "wide",
    "binades",
    "wide products",
)


def in_sigmas(
    e: Array, exact: Array, s: Array, n: int, ordered: bool = False, heavy: bool = False
) -> Array:
    """e/σ. ``heavy``: where it is unusual, partial sums as large as S are assumed, as for operands
    with heavy tails."""
    p, q = healthy_variance(n, U, U, ordered=ordered)
    found = np.asarray(e / np.sqrt(p * exact * exact + q * s * s))
    if heavy and (np.mean(found**2) > 2.25 or np.abs(found).max() > 6.0):
        return np.asarray(e / np.sqrt(p * exact * exact + max(p, q) * s * s))
    return found


def heavy_tailed(kind: str, terms: Array) -> bool:
    """As the reference tells, of the operands; those of products are drawn anew."""
    if "products" in kind:
        terms = draw(
            "normal" if kind == "products" else "binades",
            terms.shape[0],
            math.isqrt(terms.shape[1]),
            np.random.default_rng(0),
        )
    size = np.abs(terms.astype(np.float64))
    return float(size.max()) > _HEAVY * float(size.mean())


def sigma() -> None:
    """RMS and largest of e/σ over 20 × 256 sums: one by one in random order it should be about 1,
    otherwise below."""
    rows: list[Sequence[Any]] = []
    for kind in KINDS:
        for n in (16, 256, 4096):
            found: dict[str, list[Array]] = defaultdict(list)
            for seed in range(20 if n < 4096 else 5):
                terms = draw(kind, n, 256, np.random.default_rng([n, seed]))
                for name, order in ORDERS.items():
                    e, exact, s = errors_of(terms, order(terms))
                    found[name].append(in_sigmas(e, exact, s, n, ordered=kind == "alternating"))
            values = {name: np.concatenate(v) for name, v in found.items()}
            rms = [float(np.sqrt(np.mean(values[name] ** 2))) for name in ORDERS]
            rows.append((kind, n, *rms, max(float(np.abs(v).max()) for v in values.values())))
    table(["data", "n", *(f"RMS, {name}" for name in ORDERS), "largest of all"], rows)
