"""Many sums judged: false alarms and detections by the statistics and by the judge, hulls,
distances, zeros, patterns."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matmul_rules import Given

from consistency.core import dtypes
from consistency.diagnose.attribution import fewer_bits
from consistency.diagnose.evaluation import evaluate
from consistency.generate.materialize import case_of
from consistency.judge import error_places, metrics, pareto, tolerances

from .sums import (
    KINDS,
    ORDERS,
    by_pairs,
    draw,
    errors_of,
    heavy_tailed,
    in_sigmas,
    one_by_one,
    truncating,
)
from .tables import FLOAT32, U, table


def statistics() -> None:
    """Per sum statistics over m = 256 elements, each relative to its own limit (above 1 is
    flagged), without a baseline."""
    m, rule = 256, tolerances.load().rule("matmul", "float32", family="matmul")
    limit, most, lean_most = (
        rule.rmse_ratio * metrics.scatter(m),
        3.0 * rule.scaled_ratio,
        rule.sign_bias,
    )
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
                    z = in_sigmas(
                        e,
                        exact,
                        s,
                        n,
                        ordered=kind == "alternating",
                        heavy=heavy_tailed(kind, terms),
                    )
                    rms, peak = float(np.sqrt(np.mean(z * z))), float(np.abs(z).max())
                    signed = max(np.count_nonzero(e), 1)
                    outward = np.count_nonzero(e * exact > 0)
                    lean = max(
                        abs(2 * np.count_nonzero(e > 0) - signed), abs(2 * outward - signed)
                    ) / math.sqrt(signed)
                    lean = float(lean) if signed >= 256 else 0.0
                    if name != "truncating":
                        healthy["RMS"].append(rms / limit)
                        flagged[f"{kind}, RMS"] += rms > limit
                        healthy["largest"].append(peak / most)
                        healthy["largest, heavy tails not told apart"].append(
                            float(np.abs(bare).max()) / most
                        )
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
            shares = (
                f"{100 * hits[name] / trials:.0f}%"
                for name in ("RMS", "peak", "bias", "any", "bias alone")
            )
            rows.append((kind, n, *shares, max(leans)))
    heads = [
        "RMS",
        "largest",
        "signs",
        "any of them",
        "signs, whatever the RMS",
        "healthy: largest sign bias",
    ]
    table(["truncating sums of", "n", *heads], rows)
    print()
    counts = {name: (len(v), sum(x > 1.0 for x in v), max(v)) for name, v in healthy.items()}
    table(
        ["healthy sums, all kinds and orders", "tensors", "flagged", "largest ÷ limit"],
        [(k, *v) for k, v in counts.items()],
    )
    print(f"of these: { {kind: count for kind, count in flagged.items() if count} }")
    leans = []
    for seed in range(30):  # errors of a matrix product share factors
        terms = draw("products", 64, 4096, np.random.default_rng(seed))
        e, exact, _ = errors_of(terms, one_by_one(terms))
        outward, signed = np.count_nonzero(e * exact > 0), np.count_nonzero(e)
        leans += [
            (2 * np.count_nonzero(e > 0) - signed) / math.sqrt(signed),
            (2 * outward - signed) / math.sqrt(signed),
        ]
    spread, most = np.std(leans), np.abs(leans).max()
    print(
        f"sign bias of 30 healthy 64 × 64 matrix products: standard deviation {spread:.2f}, "
        f"largest {most:.2f}"
    )


def judged() -> None:
    """The judge itself, with its baseline: float32 matrix products, 16 × 16, by the orders above
    and truncating."""
    rules = tolerances.load()
    rows: list[Sequence[Any]] = []
    for kind in ("uniform", "normal", "large mean", "wide", "binades"):
        for n in (16, 64, 256, 1024):
            hits: Counter[str] = Counter()
            for seed in range(25):
                random = np.random.default_rng([n, seed])
                a, b = draw(kind, n, 16, random), draw(kind, n, 16, random)
                terms = (a[:, :, None] * b[:, None, :]).reshape(n, 256)
                given = [
                    Given(k, torch.from_numpy(o(terms)).reshape(16, 16)) for k, o in ORDERS.items()
                ]
                given.append(
                    Given("truncating", torch.from_numpy(truncating(terms)).reshape(16, 16))
                )
                case = case_of(
                    "matmul", "float32", (torch.from_numpy(a.T.copy()), torch.from_numpy(b)), {}
                )
                for result in evaluate(case, given, rules, directions=("forward",)):
                    hits["truncating" if result.backend == "truncating" else "healthy"] += (
                        result.verdict.fails
                    )
                    hits["past budget"] += (
                        result.backend == "truncating" and result.metrics["rho_max"] > 1.0
                    )
            rows.append(
                (
                    kind,
                    n,
                    f"{hits['healthy']} of 100",
                    f"{hits['truncating']} of 25",
                    f"{hits['past budget']} of 25",
                )
            )
    table(["operands", "n", "healthy failed", "truncating failed", "of these by the budget"], rows)
    print()
    rows = []
    for n in (16, 64, 256):
        found: Counter[str] = Counter()
        for seed in range(20):
            random = np.random.default_rng([n, seed])
            a, b = (
                random.standard_normal((n, 61)).astype(np.float32),
                random.standard_normal((n, 61)).astype(np.float32),
            )
            terms = (a[:, :, None] * b[:, None, :]).reshape(n, 61 * 61)
            sound, cut = one_by_one(terms).reshape(61, 61), truncating(terms).reshape(61, 61)
            given = [
                Given("healthy", torch.from_numpy(sound)),
                Given("everywhere", torch.from_numpy(cut)),
            ]
            places = {
                "a row": np.s_[30],
                "a tile": np.s_[16:32, 32:48],
                "last 5 of 61": np.s_[:, 56:],
                "one element": np.s_[7, 9],
            }
            for name, place in places.items():
                part = sound.copy()
                part[place] = cut[place]
                given.append(Given(name, torch.from_numpy(part)))
            case = case_of(
                "matmul", "float32", (torch.from_numpy(a.T.copy()), torch.from_numpy(b)), {}
            )
            for result in evaluate(case, given, rules, directions=("forward",)):
                found[result.backend] += result.verdict.fails
        rows.append((n, *(f"{found[backend.name]} of 20" for backend in given)))
    table(["n, 61 × 61, truncating in", *(backend.name for backend in given)], rows)


def pareto_front() -> None:
    """1,000 tensors × 20 rules: max ρ from the hull against max ρ over all elements; corners; the
    bound from the two maxima."""
    random = np.random.default_rng(0)
    off, corners, loose, wrong = 0.0, [], [], 0
    for _ in range(1000):
        m = int(random.integers(1, 5000))
        e = np.abs(random.standard_normal(m)) * np.exp2(random.integers(-3, 4, m)) * U
        e[random.random(m) < 0.2] = 0.0
        ulp, scale = (
            np.exp2(random.integers(-20, 20, m)) * U,
            np.exp2(random.uniform(-20, 20, m)) * U,
        )
        found, _ = pareto.pareto_front(e, ulp, scale)
        corners.append(len(found))
        for _ in range(20):
            c, lam = (
                float(np.exp2(random.uniform(-10, 10))),
                float(np.exp2(random.uniform(-10, 10))),
            )
            budget = c * ulp + lam * scale
            direct, fast = float(np.max(e / budget)), pareto.rho(found, c, lam)[0]
            off = max(off, abs(direct - fast) / max(direct, 1e-300))
            if direct > 0.0:
                bound = 1.0 / (c / float(np.max(e / ulp)) + lam / float(np.max(e / scale)))
                wrong += bound < direct * (1.0 - 1e-12)
                loose.append(bound / direct)
    quartiles = np.percentile(loose, [50, 95])
    print(
        f"largest relative difference {off:.1e}; corners: median {np.median(corners):.0f}, most "
        f"{max(corners)}"
    )
    print(
        f"bound from two maxima ÷ max ρ: median {quartiles[0]:.3g}, 95th percentile "
        f"{quartiles[1]:.3g}; below max ρ: {wrong} times"
    )


def apart() -> None:
    """Largest |x − y|/(ulp + √n·u·S) of two healthy sums of the same numbers, and largest |x −
    exact| in that unit."""
    rows: list[Sequence[Any]] = []
    for kind in KINDS:
        two, one = 0.0, 0.0
        for n in (4, 16, 256, 4096):
            for seed in range(10 if n < 4096 else 3):
                terms = draw(kind, n, 256, np.random.default_rng([n, seed]))
                totals = [order(terms).astype(np.float64) for order in ORDERS.values()]
                _, exact, s = errors_of(terms, totals[0])
                unit = dtypes.spacing(exact, FLOAT32, np.empty_like(exact)) + math.sqrt(n) * U * s
                two = max(
                    two, *(float(np.max(np.abs(x - y) / unit)) for x in totals for y in totals)
                )
                one = max(one, *(float(np.max(np.abs(x - exact) / unit)) for x in totals))
        rows.append((kind, two, one))
    table(["data", "two healthy sums apart", "one from the exact sum"], rows)


def zeros() -> None:
    """A matrix product of which some rows of the first factor are zero: is a wrong one noticed? 40
    products, 16 × 64 × 16."""
    rules, rows = tolerances.load(), list[Sequence[Any]]()
    for share in (0.0, 0.5, 0.625, 0.6875, 0.75, 0.875, 0.9375):
        hits: Counter[str] = Counter()
        for seed in range(40):
            generator = torch.Generator().manual_seed(seed)
            a, b = (
                torch.randn(16, 64, generator=generator),
                torch.randn(64, 16, generator=generator),
            )
            a[: int(16 * share)] = 0.0
            short = (
                fewer_bits.rounded(a.double(), 11) @ fewer_bits.rounded(b.double(), 11)
            ).float()
            cut = torch.from_numpy(
                truncating((a.T.unsqueeze(-1) * b.unsqueeze(-2)).numpy().reshape(64, -1)).reshape(
                    16, 16
                )
            )
            wrong = {
                "TF32": short,
                "one argument shifted": a @ b.roll(1, 0),
                "truncating": cut,
                "healthy": by_pairs_of(a, b),
            }
            backends = [Given(name, result) for name, result in wrong.items()]
            for result in evaluate(
                case_of("matmul", "float32", (a, b), {}), backends, rules, directions=("forward",)
            ):
                hits[result.backend] += result.verdict.fails
                hits["inconclusive"] += (
                    result.backend == "healthy" and result.verdict.value == "inconclusive"
                )
        names = ("TF32", "one argument shifted", "truncating", "healthy", "inconclusive")
        rows.append((f"{share:.0%}", *(f"{hits[name] / 0.4:.0f}%" for name in names)))
    table(
        [
            "zeros",
            "TF32 flagged",
            "shifted flagged",
            "truncating flagged",
            "healthy flagged",
            "healthy inconclusive",
        ],
        rows,
    )


def by_pairs_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(by_pairs((a.T.unsqueeze(-1) * b.unsqueeze(-2)).numpy()))


def patterns() -> None:
    """Share of 2,000 arrays of scattered errors in which a pattern is seen, and of those with a
    planted one in which it is."""
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
            sum(bool(error_places.pattern_of(e, shape)) for e in errors.reshape(2000, size)) / 20.0
            for errors in (every, heavy, few, row, lane)
        )
        rows.append(("×".join(map(str, shape)), *(f"{share:.1f}%" for share in found)))
    heads = [
        "half-normal",
        "over 12 binades",
        "5% large",
        "planted: one position",
        "planted: one of 8 lanes",
    ]
    table(["shape", *heads], rows)
