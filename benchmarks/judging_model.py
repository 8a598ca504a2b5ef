"""The experiments behind docs/judging.md: each prints a small table. Deterministic, one core, under three minutes altogether.

    python benchmarks/judging_model.py [NAME ...]           # without a name: all of them

growth      what sums of n numbers need of λ, by order of summation and kind of data
entropy     the same where few numbers are distinct: the thresholds of low entropy
sigma       errors of healthy sums in units of the modelled standard deviation
statistics  RMS, largest error and signs, of healthy and of truncating sums: false alarms, detections
judged      the judge itself on such matrix products, and on faults in a row or a tile
hull        re-judging from the convex hull, and the bound from the two maxima
apart       how far two healthy answers lie apart, in ulp + G·u·S
zeros       what mostly zero results hide
patterns    how often scattered errors look clustered
second      3σ from 30 samples, on ill-conditioned systems and on a cancelling formula
shares      how much of an error the planted cause explains, and how much the next best one
scaling     float32 error ÷ float64 error of every operator, and the one-sided rule
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from matmul_rules import Given

import consistency
from consistency import dtypes, generate, metrics, monte_carlo, operators, scaling, tolerances
from consistency.attribution import access, calls, explain, formulas, precision, results
from consistency.attribution.scene import REFUSALS, Scene
from consistency.backends.cpu import Cpu
from consistency.evaluate import evaluate
from consistency.materialise import case_of, prepare
from consistency.model import Case, Outcome, Output
from consistency.reference import _HEAVY, Reference, quiet

FLOAT32 = dtypes.FORMATS["float32"]
U = FLOAT32.unit_roundoff
Array = np.ndarray[Any, Any]


def table(heads: Sequence[str], rows: Iterator[Sequence[Any]] | list[Sequence[Any]]) -> None:
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row) + " |", flush=True)


# Sums of float32 numbers down the first dimension, one sum per column.


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
    return one_by_one(np.stack([one_by_one(terms[i : i + block]) for i in range(0, terms.shape[0], block)]))


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
        total = np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near).astype(np.float64)
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
            numbers = np.sign(normal) * (1.0 + random.random((n, m))) * np.exp2(random.integers(-10, 11, (n, m)))
        case "cancelling":  # the second half nearly takes back the first
            half = n // 2
            numbers = normal
            numbers[half : 2 * half] = -normal[:half] * (1.0 + 1e-4 * random.standard_normal((half, m)))
        case "alternating":  # signs follow the position
            numbers = (1.0 + random.random((n, m)) / 256.0) * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
        case "large mean":
            numbers = 4096.0 + random.random((n, m))
        case "products" | "wide products":  # of a matrix product: columns share their factors
            side = math.isqrt(m)
            a, b = (draw("normal" if kind == "products" else "binades", n, side, random) for _ in range(2))
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
    for kind in ("uniform", "normal", "cancelling", "alternating", "large mean", "wide", "constant"):
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
        rows.append((f"0.1 × {n}, one by one", float(np.abs(e / s)[0]) / (math.sqrt(n) * U), float(np.abs(e / s)[0]) / (n * U)))
    for kind in ("uniform", "large mean", "constant"):
        x = draw(kind, 65536, 64, np.random.default_rng(5))
        k = np.arange(1, 65537)[:, None]
        e = np.abs(torch.cumsum(torch.from_numpy(np.ascontiguousarray(x)), 0).double().numpy() - np.cumsum(x.astype(np.float64), 0))
        s = np.cumsum(np.abs(x.astype(np.float64)), 0)
        rows.append((f"torch.cumsum, {kind}", float(np.max(e / s / np.sqrt(k))) / U, float(np.max(e / s / k)) / U))
    table(["sequential", "needs λ with G = √n", "with G = n"], rows)


def entropy() -> None:
    """Largest e/(√n·u·S) of 256 sequential sums whose terms are drawn from d numbers, or mostly from one."""
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
            terms = np.where(random.random((n, 256)) < share, random.random((n, 256)), random.uniform(0.0, 1.0, 256)[None]).astype(
                np.float32
            )
            e, _, s = errors_of(terms, one_by_one(terms))
            needs.append(float(np.max(np.abs(e) / s)) / (math.sqrt(n) * U))
        rows.append((f"{share:.0%} varied, the rest one number", *needs))
    table(["terms", *(f"n = {n}" for n in sizes)], rows)
    worst = dict.fromkeys(("2 to 8", "9 to 64"), 0.0)
    for n in range(2, 65):
        size = "2 to 8" if n <= 8 else "9 to 64"
        terms = np.broadcast_to(np.random.default_rng(n).uniform(1.0, 2.0, 4096).astype(np.float32), (n, 4096))
        e, _, s = errors_of(terms, one_by_one(terms))
        worst[size] = max(worst[size], float(np.max(np.abs(e) / s)) / (math.sqrt(n) * U))
    print(f"\nlargest over 258,048 sums of equal numbers: { {size: round(need, 2) for size, need in worst.items()} }\n")
    rules, rows = tolerances.load(), []
    for share in (0.2, 0.3, 0.45, 0.75, 1.0):
        cells = []
        for n in (64, 256, 1024, 4096, 16384):
            hits: Counter[str] = Counter()
            for seed in range(5):
                random = np.random.default_rng(seed)
                terms = np.where(random.random((n, 16)) < share, random.random((n, 16)), random.uniform()).astype(np.float32)
                given = [Given(name, torch.from_numpy(order(terms))) for name, order in ORDERS.items()]
                case = case_of("sum", "float32", (torch.from_numpy(np.ascontiguousarray(terms.T)), 1), {})
                for result in evaluate(case, given, rules, directions=("forward",)):
                    hits[result.backend] += result.verdict.fails
            cells.append(", ".join(f"{count} {name}" for name, count in hits.items() if count) or "–")
        rows.append((f"{share:.0%}", *cells))
    table(["varied; healthy sums failed, of 5 each", *(f"n = {n}" for n in (64, 256, 1024, 4096, 16384))], rows)


KINDS = ("uniform", "normal", "products", "cancelling", "large mean", "alternating", "wide", "binades", "wide products")


def in_sigmas(e: Array, exact: Array, s: Array, n: int, ordered: bool = False, heavy: bool = False) -> Array:
    """e/σ. ``heavy``: where it is unusual, partial sums as large as S are assumed, as for operands with heavy tails."""
    p, q = metrics.healthy_variance(n, U, U, ordered=ordered)
    found = np.asarray(e / np.sqrt(p * exact * exact + q * s * s))
    if heavy and (np.mean(found**2) > 2.25 or np.abs(found).max() > 6.0):
        return np.asarray(e / np.sqrt(p * exact * exact + max(p, q) * s * s))
    return found


def heavy_tailed(kind: str, terms: Array) -> bool:
    """As the reference tells, of the operands; those of products are drawn anew."""
    if "products" in kind:
        terms = draw(
            "normal" if kind == "products" else "binades", terms.shape[0], math.isqrt(terms.shape[1]), np.random.default_rng(0)
        )
    size = np.abs(terms.astype(np.float64))
    return float(size.max()) > _HEAVY * float(size.mean())


def sigma() -> None:
    """RMS and largest of e/σ over 20 × 256 sums: one by one in random order it should be about 1, otherwise below."""
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


def statistics() -> None:
    """Per sum statistics over m = 256 elements, each relative to its own limit (above 1 is flagged), without a baseline."""
    m, rule = 256, tolerances.load().rule("matmul", "float32", family="matmul")
    limit, most, lean_most = rule.rmse_ratio * metrics.scatter(m), 3.0 * rule.scaled_ratio, rule.sign_bias
    print(f"limits: RMS {limit:.3g} σ, largest {most:.3g} σ, sign bias {lean_most:.3g}\n")
    flagged: Counter[str] = Counter()
    healthy: dict[str, list[float]] = defaultdict(list)
    rows: list[Sequence[Any]] = []
    for kind in KINDS:
        for n in (16, 64, 256, 2048):
            hits: Counter[str] = Counter()
            leans: list[float] = []
            trials = 100 if n < 2048 else 25
            for seed in range(trials):
                terms = draw(kind, n, m, np.random.default_rng([n, seed]))
                for name, order in (*ORDERS.items(), ("truncating", truncating)):
                    e, exact, s = errors_of(terms, order(terms))
                    bare = in_sigmas(e, exact, s, n, ordered=kind == "alternating")
                    z = in_sigmas(e, exact, s, n, ordered=kind == "alternating", heavy=heavy_tailed(kind, terms))
                    rms, peak = float(np.sqrt(np.mean(z * z))), float(np.abs(z).max())
                    signed = max(np.count_nonzero(e), 1)
                    outward = np.count_nonzero(e * exact > 0)
                    lean = max(abs(2 * np.count_nonzero(e > 0) - signed), abs(2 * outward - signed)) / math.sqrt(signed)
                    lean = float(lean) if signed >= 256 else 0.0
                    if name != "truncating":
                        healthy["RMS"].append(rms / limit)
                        flagged[f"{kind}, RMS"] += rms > limit
                        healthy["largest"].append(peak / most)
                        healthy["largest, heavy tails not told apart"].append(float(np.abs(bare).max()) / most)
                        flagged[f"{kind}, largest"] += peak > most
                        healthy["sign bias"].append(lean / lean_most if rms > 1.0 else 0.0)
                        healthy["sign bias, whatever the RMS"].append(lean / lean_most)
                        leans.append(lean)
                        continue
                    hits["RMS"] += rms > limit
                    hits["peak"] += peak > most
                    hits["bias"] += lean > lean_most and rms > 1.0
                    hits["any"] += rms > limit or peak > most or (lean > lean_most and rms > 1.0)
                    hits["bias alone"] += lean > lean_most
            shares = (f"{100 * hits[name] / trials:.0f}%" for name in ("RMS", "peak", "bias", "any", "bias alone"))
            rows.append((kind, n, *shares, max(leans)))
    heads = ["RMS", "largest", "signs", "any of them", "signs, whatever the RMS", "healthy: largest sign bias"]
    table(["truncating sums of", "n", *heads], rows)
    print()
    counts = {name: (len(v), sum(x > 1.0 for x in v), max(v)) for name, v in healthy.items()}
    table(["healthy sums, all kinds and orders", "tensors", "flagged", "largest ÷ limit"], [(k, *v) for k, v in counts.items()])
    print(f"of these: { {kind: count for kind, count in flagged.items() if count} }")
    leans = []
    for seed in range(30):  # errors of a matrix product share factors
        terms = draw("products", 64, 4096, np.random.default_rng(seed))
        e, exact, _ = errors_of(terms, one_by_one(terms))
        outward, signed = np.count_nonzero(e * exact > 0), np.count_nonzero(e)
        leans += [(2 * np.count_nonzero(e > 0) - signed) / math.sqrt(signed), (2 * outward - signed) / math.sqrt(signed)]
    spread, most = np.std(leans), np.abs(leans).max()
    print(f"sign bias of 30 healthy 64 × 64 matrix products: standard deviation {spread:.2f}, largest {most:.2f}")


def judged() -> None:
    """The judge itself, with its baseline: float32 matrix products, 16 × 16, by the orders above and truncating."""
    rules = tolerances.load()
    rows: list[Sequence[Any]] = []
    for kind in ("uniform", "normal", "large mean", "wide", "binades"):
        for n in (16, 64, 256, 1024):
            hits: Counter[str] = Counter()
            for seed in range(25):
                random = np.random.default_rng([n, seed])
                a, b = draw(kind, n, 16, random), draw(kind, n, 16, random)
                terms = (a[:, :, None] * b[:, None, :]).reshape(n, 256)
                given = [Given(k, torch.from_numpy(o(terms)).reshape(16, 16)) for k, o in ORDERS.items()]
                given.append(Given("truncating", torch.from_numpy(truncating(terms)).reshape(16, 16)))
                case = case_of("matmul", "float32", (torch.from_numpy(a.T.copy()), torch.from_numpy(b)), {})
                for result in evaluate(case, given, rules, directions=("forward",)):
                    hits["truncating" if result.backend == "truncating" else "healthy"] += result.verdict.fails
                    hits["past budget"] += result.backend == "truncating" and result.metrics["rho_max"] > 1.0
            rows.append((kind, n, f"{hits['healthy']} of 100", f"{hits['truncating']} of 25", f"{hits['past budget']} of 25"))
    table(["operands", "n", "healthy failed", "truncating failed", "of these by the budget"], rows)
    print()
    rows = []
    for n in (16, 64, 256):
        found: Counter[str] = Counter()
        for seed in range(20):
            random = np.random.default_rng([n, seed])
            a, b = random.standard_normal((n, 61)).astype(np.float32), random.standard_normal((n, 61)).astype(np.float32)
            terms = (a[:, :, None] * b[:, None, :]).reshape(n, 61 * 61)
            sound, cut = one_by_one(terms).reshape(61, 61), truncating(terms).reshape(61, 61)
            given = [Given("healthy", torch.from_numpy(sound)), Given("everywhere", torch.from_numpy(cut))]
            places = {"a row": np.s_[30], "a tile": np.s_[16:32, 32:48], "last 5 of 61": np.s_[:, 56:], "one element": np.s_[7, 9]}
            for name, place in places.items():
                part = sound.copy()
                part[place] = cut[place]
                given.append(Given(name, torch.from_numpy(part)))
            case = case_of("matmul", "float32", (torch.from_numpy(a.T.copy()), torch.from_numpy(b)), {})
            for result in evaluate(case, given, rules, directions=("forward",)):
                found[result.backend] += result.verdict.fails
        rows.append((n, *(f"{found[backend.name]} of 20" for backend in given)))
    table(["n, 61 × 61, truncating in", *(backend.name for backend in given)], rows)


def hull() -> None:
    """1,000 tensors × 20 rules: max ρ from the hull against max ρ over all elements; corners; the bound from the two maxima."""
    random = np.random.default_rng(0)
    off, corners, loose, wrong = 0.0, [], [], 0
    for _ in range(1000):
        m = int(random.integers(1, 5000))
        e = np.abs(random.standard_normal(m)) * np.exp2(random.integers(-3, 4, m)) * U
        e[random.random(m) < 0.2] = 0.0
        ulp, scale = np.exp2(random.integers(-20, 20, m)) * U, np.exp2(random.uniform(-20, 20, m)) * U
        found, _ = metrics.hull(e, ulp, scale)
        corners.append(len(found))
        for _ in range(20):
            c, lam = float(np.exp2(random.uniform(-10, 10))), float(np.exp2(random.uniform(-10, 10)))
            budget = c * ulp + lam * scale
            direct, fast = float(np.max(e / budget)), metrics.rho(found, c, lam)[0]
            off = max(off, abs(direct - fast) / max(direct, 1e-300))
            if direct > 0.0:
                bound = 1.0 / (c / float(np.max(e / ulp)) + lam / float(np.max(e / scale)))
                wrong += bound < direct * (1.0 - 1e-12)
                loose.append(bound / direct)
    quartiles = np.percentile(loose, [50, 95])
    print(f"largest relative difference {off:.1e}; corners: median {np.median(corners):.0f}, most {max(corners)}")
    print(
        f"bound from two maxima ÷ max ρ: median {quartiles[0]:.3g}, 95th percentile {quartiles[1]:.3g}; below max ρ: {wrong} times"
    )


def apart() -> None:
    """Largest |x − y|/(ulp + √n·u·S) of two healthy sums of the same numbers, and largest |x − exact| in that unit."""
    rows: list[Sequence[Any]] = []
    for kind in KINDS:
        two, one = 0.0, 0.0
        for n in (4, 16, 256, 4096):
            for seed in range(10 if n < 4096 else 3):
                terms = draw(kind, n, 256, np.random.default_rng([n, seed]))
                totals = [order(terms).astype(np.float64) for order in ORDERS.values()]
                _, exact, s = errors_of(terms, totals[0])
                unit = dtypes.spacing(exact, FLOAT32, np.empty_like(exact)) + math.sqrt(n) * U * s
                two = max(two, *(float(np.max(np.abs(x - y) / unit)) for x in totals for y in totals))
                one = max(one, *(float(np.max(np.abs(x - exact) / unit)) for x in totals))
        rows.append((kind, two, one))
    table(["data", "two healthy sums apart", "one from the exact sum"], rows)


def zeros() -> None:
    """A matrix product of which some rows of the first factor are zero: is a wrong one noticed? 40 products, 16 × 64 × 16."""
    rules, rows = tolerances.load(), list[Sequence[Any]]()
    for share in (0.0, 0.5, 0.625, 0.6875, 0.75, 0.875, 0.9375):
        hits: Counter[str] = Counter()
        for seed in range(40):
            generator = torch.Generator().manual_seed(seed)
            a, b = torch.randn(16, 64, generator=generator), torch.randn(64, 16, generator=generator)
            a[: int(16 * share)] = 0.0
            short = (precision.rounded(a.double(), 11) @ precision.rounded(b.double(), 11)).float()
            cut = torch.from_numpy(truncating((a.T.unsqueeze(-1) * b.unsqueeze(-2)).numpy().reshape(64, -1)).reshape(16, 16))
            wrong = {"TF32": short, "one argument shifted": a @ b.roll(1, 0), "truncating": cut, "healthy": by_pairs_of(a, b)}
            backends = [Given(name, result) for name, result in wrong.items()]
            for result in evaluate(case_of("matmul", "float32", (a, b), {}), backends, rules, directions=("forward",)):
                hits[result.backend] += result.verdict.fails
                hits["undecidable"] += result.backend == "healthy" and result.verdict.value == "undecidable"
        names = ("TF32", "one argument shifted", "truncating", "healthy", "undecidable")
        rows.append((f"{share:.0%}", *(f"{hits[name] / 0.4:.0f}%" for name in names)))
    table(["zeros", "TF32 flagged", "shifted flagged", "truncating flagged", "healthy flagged", "healthy undecidable"], rows)


def by_pairs_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(by_pairs((a.T.unsqueeze(-1) * b.unsqueeze(-2)).numpy()))


def patterns() -> None:
    """Share of 2,000 arrays of scattered errors in which a pattern is seen, and of those with a planted one in which it is."""
    random = np.random.default_rng(0)
    rows: list[Sequence[Any]] = []
    for shape in ((16,), (64,), (8, 8), (16, 16), (64, 64), (4, 8, 16)):
        size, last = math.prod(shape), shape[-1]
        every = np.abs(random.standard_normal((2000, size)))
        heavy = every * np.exp2(random.integers(-6, 7, (2000, size)))
        few = np.where(random.random((2000, size)) < 0.05, 100.0, 1.0) * every
        row = every.reshape(2000, *shape).copy()
        row[..., last // 2] += 30.0
        lane = every.reshape(2000, *shape).copy()
        lane[..., 3::8] += 30.0
        found = (
            sum(bool(metrics.pattern_of(e, shape)) for e in errors.reshape(2000, size)) / 20.0
            for errors in (every, heavy, few, row, lane)
        )
        rows.append(("×".join(map(str, shape)), *(f"{share:.1f}%" for share in found)))
    heads = ["half-normal", "over 12 binades", "5% large", "planted: one position", "planted: one of 8 lanes"]
    table(["shape", *heads], rows)


# The second look.


def excuses(case: Case, result: torch.Tensor, only: int | None = None) -> tuple[float, float, float]:
    """(× budget, error in 3σ of ±½ ulp, error in 3σ of random roundings) with all elements, or one, taken as flagged."""
    with quiet():
        reference = Reference(operators.get(case.operator), prepare(case), "forward")
        expected = reference.outputs[0].tensor
        assert expected is not None
        error = np.abs(result.double().numpy().reshape(-1) - expected.double().numpy().reshape(-1))
        guilty = np.ones(error.size, dtype=bool) if only is None else np.arange(error.size) == only
        measure = functools.partial(monte_carlo.in_sigmas, index=0, error=error, guilty=guilty)
        found = evaluate(case, [Given("given", result)], tolerances.load(), directions=("forward",))[0]
        inputs = measure(functools.partial(monte_carlo.perturbed, reference))
        steps = measure(functools.partial(monte_carlo.randomly_rounded, reference))
    return found.metrics.get("rho_max", math.inf), inputs, steps


def matrix(n: int, condition: float, generator: torch.Generator) -> torch.Tensor:
    q, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))
    r, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))
    return (q * torch.logspace(0, -math.log10(condition), n, dtype=torch.float64) @ r).float()


def second() -> None:
    random = np.random.default_rng(0)
    spread = np.std(random.standard_normal((20000, 30)), axis=1, ddof=1)
    exceeds = float(np.mean(np.abs(random.standard_normal(20000)) > 3.0 * spread))
    low, high = np.percentile(spread, [5, 95])
    print(f"σ from 30 samples ÷ σ: 5th to 95th percentile {low:.2f} to {high:.2f}; a normal error beyond 3 of it: {exceeds:.2%}")
    for m in (16, 256, 4096):
        beyond = np.mean([np.any(np.abs(random.standard_normal(m)) > 3.0 * random.choice(spread, m)) for _ in range(500)])
        print(f"  one of {m} such errors beyond: {beyond:.0%}")
    print()
    rows: list[Sequence[Any]] = []
    for n in (4, 16, 32):
        for condition in (1e2, 1e4, 1e6):
            scores: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
            for seed in range(10):
                generator = torch.Generator().manual_seed(seed)
                a, b = matrix(n, condition, generator), torch.randn(n, 2, generator=generator)
                case = case_of("linalg.solve", "float32", (a, b), {})
                short = torch.linalg.solve(precision.rounded(a.double(), 11), precision.rounded(b.double(), 11)).float()
                factor = torch.linalg.solve(a.double(), b.double()).float() * 1.001
                for name, result in (("healthy", torch.linalg.solve(a, b)), ("TF32", short), ("×1.001", factor)):
                    scores[name].append(excuses(case, result))
            for name, found in scores.items():
                excused = sum(min(inputs, steps) <= 1.0 for _, inputs, steps in found)
                middle = [float(np.median(column)) for column in zip(*found, strict=True)]
                rows.append((f"{n}", f"{condition:.0e}", name, *middle, f"{excused} of {len(found)}"))
    heads = ["linalg.solve, n", "condition", "result", "× budget", "in 3σ of ±½ ulp", "in 3σ of random roundings", "excused"]
    table(heads, rows)
    print("(medians of 10 systems; a hopeless 3σ is given up after 4 samples, from 20 on)\n")
    rows = []
    for name in ("logsumexp", "log_softmax"):
        function = getattr(torch, name)
        for low in (-10.0, -15.0, -20.0):
            x = torch.tensor([[0.0, low]])
            got, exact = function(x, 1), function(x.double(), 1)
            found = excuses(case_of(name, "float32", (x, 1), {}), got, 0)
            rows.append((f"{name}([0, {low:g}])", *(f"{v.reshape(-1)[0].item():.6g}" for v in (exact, got)), *found))
    table(["first element of", "exact", "float32", "× budget", "in 3σ of ±½ ulp", "in 3σ of random roundings"], rows)
    whole, stepped = [], 0
    for name, operator in operators.registry().items():
        if operator.error.kind == "accumulated" and "elementwise" not in operator.traits and "float32" in operator.dtypes:
            steps = _steps(operator)
            stepped += steps > 1
            whole += [name] if steps == 1 else []
    print(f"\noperators whose decomposition rounds more than once: {stepped}; once, at the end: {len(whole)}: {', '.join(whole)}")


def _steps(operator: operators.Operator) -> int:
    """How many results Monte Carlo arithmetic rounds on the way to the outputs of one case."""
    counted = 0

    class Counting(monte_carlo._Rounding):
        def _round(self, value: Any) -> Any:
            nonlocal counted
            counted += isinstance(value, torch.Tensor) and value.dtype == torch.float64
            return value

    original, monte_carlo._Rounding = monte_carlo._Rounding, Counting  # type: ignore[misc]
    try:
        with quiet():
            reference = Reference(operator, prepare(generate.batch(operator, "float32", 1, 3)[0]), "forward")
            monte_carlo.randomly_rounded(reference, torch.Generator())
    except Exception:  # whatever a decomposition raises: then the second look does not look
        return 0
    finally:
        monte_carlo._Rounding = original  # type: ignore[misc]
    return counted


# Attribution.


def planted() -> Iterator[tuple[str, Case, torch.Tensor]]:
    """(cause, case, wrong result), float32, the fault played in float64 and rounded, or in a float32 of its own."""
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        for m, k in ((2, 64), (8, 64), (16, 256)):
            a, b = torch.randn(m, k, generator=generator), torch.randn(k, m, generator=generator)
            case = case_of("matmul", "float32", (a, b), {})
            x, y = a.double(), b.double()
            for name, bits in (("tf32-inputs", 11), ("bfloat16-inputs", 8)):
                yield name, case, (precision.rounded(x, bits).float() @ precision.rounded(y, bits).float())
            yield "float16-inputs", case, a.half().float() @ b.half().float()
            terms = (a.T.unsqueeze(-1) * b.unsqueeze(-2)).numpy()
            yield "truncating-accumulator", case, torch.from_numpy(truncating(terms))
            yield "bfloat16-accumulator", case, (x @ y).bfloat16().float()
            yield "terms-dropped", case, a[:, :-4] @ b[:-4]
            yield "shifted", case, a @ b.roll(1, 0)
            yield "negated", case, -(a @ b)
            yield "scaled", case, (a @ b) * 1.01
            yield "transposed", case, (a @ b).T.contiguous()
        for rows, n in ((4, 32), (16, 256)):
            x32 = torch.randn(rows, n, generator=generator) + 100.0
            mean, square = x32.mean(1, keepdim=True), (x32 * x32).mean(1, keepdim=True)
            case = case_of("nn.functional.layer_norm", "float32", (x32, [n]), {})
            yield "one-pass-variance", case, (x32 - mean) / torch.sqrt((square - mean * mean).clamp_min(0.0) + 1e-5)
            small = 0.01 * torch.randn(rows, n, generator=generator)
            spread = small.var(1, keepdim=True, unbiased=False)
            case = case_of("nn.functional.layer_norm", "float32", (small, [n]), {})
            yield "eps-misplaced", case, (small - small.mean(1, keepdim=True)) / (spread.sqrt() + 1e-5)


ROOMS = (precision.suspects, formulas.suspects, access.suspects, results.suspects, calls.suspects, results.fitted)
# Names for what is nearly the same: both have 11 bits; −1 is a factor; an order is a shift; eps = 0 is an argument …
ALIKE = (
    {"tf32-inputs", "float16-inputs"}, {"negated", "scaled"}, {"transposed", "shifted", "flipped"},
    {"eps-misplaced", "argument-ignored"}, {"bfloat16-accumulator", "float16-accumulator"},
)  # fmt: skip


def scene_of(case: Case, result: torch.Tensor) -> Scene:
    reference = Reference(operators.get(case.operator), prepare(case), "forward")
    outcome = Outcome("ok", (Output("out", result, "float32"),))
    return Scene(reference, outcome, reference.outputs[0].name, special=False, everywhere=False)


def shares_of(scene: Scene) -> dict[str, float]:
    """The largest share of each cause."""
    best: dict[str, float] = {}
    for room in ROOMS:
        for suspect in room(scene):
            try:
                share = scene.share(suspect.play())
            except REFUSALS:
                continue
            if int(scene.guilty.sum()) >= 2 * suspect.fitted:
                best[suspect.name] = max(best.get(suspect.name, -math.inf), share)
    return best


def shares() -> None:
    """The share of the planted cause, and the largest share of any unlike one, over all flagged faults."""
    named: Counter[str] = Counter()
    own: dict[str, list[float]] = defaultdict(list)
    other: dict[str, list[tuple[float, str]]] = defaultdict(list)
    rules, wrongly = tolerances.load(), 0
    for cause, case, result in planted():
        with quiet():
            if not evaluate(case, [Given("given", result)], rules, directions=("forward",))[0].verdict.fails:
                continue
            scene = scene_of(case, result)
            best = shares_of(scene)
            found = explain(scene)
        alike = {cause}.union(*(names for names in ALIKE if cause in names))
        named[cause] += found is not None and found.name in alike
        wrongly += found is not None and found.name not in alike
        own[cause].append(best.get(cause, 0.0))
        other[cause].append(max((share, name) for name, share in best.items() if name not in alike))
    rows: list[Sequence[Any]] = []
    for cause, many in own.items():
        share, name = max(other[cause])
        rows.append((cause, len(many), min(many), float(np.median(many)), named[cause], share, name))
    table(["planted", "flagged", "its share: least", "median", "named", "most of any unlike", "which"], rows)
    every = [s for found in own.values() for s in found]
    rest = [s for found in other.values() for s, _ in found]
    for limit in (0.5, 0.7, 0.8, 0.9, 0.95, 0.99):
        enough, rival = sum(s >= limit for s in every), sum(s >= limit for s in rest)
        print(f"at {limit}: the planted cause passes in {enough} of {len(every)}, an unlike one in {rival}")
    print(f"an unlike cause named: {wrongly}\n")
    rows = []
    for wrong in (1, 2, 3, 4, 6, 8, 12):
        nine, needed = 0, 0
        for seed in range(40):
            generator = torch.Generator().manual_seed(100 * seed + wrong)
            a, b = torch.randn(1, 64, generator=generator), torch.randn(64, wrong, generator=generator)
            factors = 1.0 + torch.randn(wrong, generator=generator) * 0.1
            scene = scene_of(case_of("matmul", "float32", (a, b), {}), (a @ b) * factors)
            nine += max(shares_of(scene).values()) >= 0.9
            needed += explain(scene) is not None
        rows.append((wrong, f"{nine} of 40", f"{needed} of 40"))
    table(["elements, each with an error of its own", "some cause explains 0.9", "a cause is named"], rows)


# Precision scaling.


class Pairs(scaling.Pool):
    """Keeps the pairs of errors: (float32, float64, float64 ÷ (eps·max S))."""

    def __init__(self, operator: operators.Operator, backends: Any) -> None:
        super().__init__(operator, backends)
        self.pairs: list[tuple[float, float, float]] = []

    def _record(self, name: str, case: Case, single: Any, double: Any, reference: Reference) -> None:
        super()._record(name, case, single, double, reference)
        for index, (narrow, wide) in enumerate(zip(single.outputs, double.outputs, strict=True)):
            if narrow.special or wide.special or not wide.elements or wide.dtype != "float64":
                continue
            e32, e64 = (max((span.abs_max for span in o.spans), default=0.0) for o in (narrow, wide))
            largest = scaling._largest(reference, index)
            self.pairs.append((e32, e64, e64 / (2.0**-52 * largest) if largest else 0.0))


class Shorter(consistency.Backend):
    """float32 from TF32 inputs, or float64 from float32 arithmetic."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.name, self.dtype = "TF32" if dtype == torch.float32 else "float64 in float32", dtype

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.dtype != self.dtype:
                return value
            return precision.rounded(value.double(), 11).float() if self.dtype == torch.float32 else value.float()

        changed = [change(arg) for arg in args]
        result = super().call(operator, changed, {name: change(value) for name, value in kwargs.items()})
        return result.to(args[0].dtype)


def pool(name: str, backend: Any, examples: int, seed: int = 11) -> Pairs:
    operator = operators.get(name)
    kept = Pairs(operator, {backend.name: backend})
    rules = tolerances.load()
    for case in generate.batch(operator, "float32", examples, seed):
        if scaling.twin(case) is not None:
            kept.add(evaluate(case, [backend], rules, directions=("forward",)))
    return kept


def scaled() -> None:
    """Every operator that the rule applies to, 24 cases each, on the CPU; then two degraded backends on some operators."""
    ratios, few, pairs, violations, measured = [], [], list[tuple[float, float, float]](), list[str](), 0
    for name, operator in operators.registry().items():
        if not scaling.applies(operator) or "float32" not in operator.dtypes or "float64" not in operator.dtypes:
            continue
        kept = pool(name, Cpu(), 24)
        pairs += kept.pairs
        for found in kept.scalings():
            measured += found.measured
            if found.violations:
                violations.append(f"{name} ({len(found.violations)} of {found.measured})")
            if found.pairs:
                (ratios if found.pairs >= scaling.ENOUGH else few).append(found.ratio)
    logs = np.log2(ratios)
    quantiles = np.percentile(logs, [0, 5, 50, 95, 100])
    text = ", ".join(f"2^{q:.1f} ({2**q:.2g})" for q in quantiles)
    print(f"{measured} cases; pooled ratio of {len(ratios)} operators with at least 8 pairs: least, 5%, median, 95%, most: {text}")
    outside = sum(r < scaling.LOWEST or r > scaling.HIGHEST for r in ratios)
    both = [p for p in pairs if p[0] > 0.0 and p[1] > 0.0]
    window = sum(not 1e6 <= a / b <= 1e10 for a, b, _ in both) + sum((a == 0.0) != (b == 0.0) for a, b, _ in pairs)
    exact = sum(a == 0.0 and b == 0.0 for a, b, _ in pairs)
    only = sum(a > 0.0 and b == 0.0 for a, b, _ in pairs)
    also = sum(r < scaling.LOWEST or r > scaling.HIGHEST for r in few)
    print(f"pooled window [2^20, 2^34]: {outside} outside (with fewer pairs: {also} of {len(few)})")
    print(f"single pairs: {len(pairs)}; exact in both {exact}, in float64 only {only}; outside of [1e6, 1e10] or 0/e: {window}")
    print(f"one-sided rule: {len(violations)} operators break it: {', '.join(violations) or 'none'}")
    quotients = sorted(b / a for a, b, _ in both)
    floors = sorted(s for _, b, s in pairs if b > 0.0)
    print(f"e64/e32 where both err: median {quotients[len(quotients) // 2]:.2g}, largest {quotients[-1]:.2g}")
    middle, high = floors[len(floors) // 2], floors[int(0.99 * len(floors))]
    print(f"e64/(eps64·max S): median {middle:.2g}, 99% {high:.2g}, largest {floors[-1]:.2g}")
    alone = [sum(b > limit * a for a, b, _ in pairs) for limit in (1e-8, 1e-7, 1e-6, 1e-5)]
    print(f"pairs beyond 1e-8, 1e-7, 1e-6, 1e-5 · e32, were there no floor: {alone}\n")
    rows: list[Sequence[Any]] = []
    for name in ("matmul", "sum", "exp", "nn.functional.layer_norm"):
        for dtype in (torch.float32, torch.float64):
            rows += [
                (name, found.backend, found.pairs, scaling.power(found.ratio), found.problem.split("(")[0].strip() or "–")
                for found in pool(name, Shorter(dtype), 16).scalings()
            ]
    table(["operator", "backend", "pairs", "pooled ratio", "what the rule says"], rows)


EXPERIMENTS: dict[str, Callable[[], None]] = {
    "growth": growth, "entropy": entropy, "sigma": sigma, "statistics": statistics, "judged": judged, "hull": hull, "apart": apart,
    "zeros": zeros, "patterns": patterns, "second": second, "shares": shares, "scaling": scaled,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    names = parser.parse_args().names or list(EXPERIMENTS)
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(EXPERIMENTS)}")
    torch.set_num_threads(1)
    for name in names:
        began = time.monotonic()
        print(f"== {name}", flush=True)
        with np.errstate(all="ignore"):
            EXPERIMENTS[name]()
        print(f"({time.monotonic() - began:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
