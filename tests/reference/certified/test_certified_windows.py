"""Pooling, resampling, grids and bags of rows: compared with sums over Python's fractions."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.reference.certified.tracing_calls import (
    enclosure_tests,
    fractions,
    numbers,
    slopes,
    traced,
)

Row = Callable[[random.Random], tuple[Any, Any]]
HALF = Fraction(1, 2)


def pooled(
    call: Callable[..., Any],
    window: Callable[[int, int, int], list[int]],
    of: Callable[..., Any],
    rank: int = 2,
) -> Row:
    """``window(i, n, m)`` names positions along an axis of n elements for result i of m; others are
    padding."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        x = numbers(
            rng, (2, *(rng.randint(5, 9) for _ in range(rank))), rng.choice(("wide", "few"))
        )
        found = traced(call, x)[0]
        exact, truth = fractions(x), np.empty(found.shape, dtype=object)
        for at in np.ndindex(found.shape):
            axes = [
                window(i, n, m)
                for i, n, m in zip(at[1:], x.shape[1:], found.shape[1:], strict=True)
            ]
            size = math.prod(map(len, axes))
            axes = [
                [j for j in axis if 0 <= j < n] for axis, n in zip(axes, x.shape[1:], strict=True)
            ]
            values = [exact[(at[0], *p)] for p in itertools.product(*axes)]
            truth[at] = of(values, size)
        return [found], [truth]

    return row


def mean(values: list[Fraction], size: int) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def mean_with_padding(values: list[Fraction], size: int) -> Fraction:
    return sum(values, Fraction(0)) / size


def adaptive(i: int, n: int, m: int) -> list[int]:
    return list(range(math.floor(Fraction(i * n, m)), math.ceil(Fraction((i + 1) * n, m))))


def weighted(mode: str, weight: Callable[[Fraction], Fraction], aligned: bool, clamp: bool) -> Row:
    """Along the last axis Σ weight(x − j)·pixel j, pixels beyond the border being those at it."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        n, m = rng.randint(2, 9), rng.randint(1, 11)
        two = mode in ("bilinear", "bicubic")
        x = numbers(rng, (1, 2, 1, n) if two else (1, 2, n))
        options: dict[str, Any] = {} if mode.startswith("nearest") else {"align_corners": aligned}
        found = traced(
            lambda a: F.interpolate(a, size=(1, m) if two else m, mode=mode, **options), x
        )[0].reshape(2, m)
        exact, truth = fractions(x).reshape(2, n), np.empty((2, m), dtype=object)
        for i in range(m):
            scale = (
                (Fraction(n - 1, m - 1) if m > 1 else Fraction(0)) if aligned else Fraction(n, m)
            )
            place = i * scale if aligned or mode == "nearest" else (i + HALF) * scale - HALF
            place = max(place, Fraction(0)) if clamp else place
            for k in range(2):
                taps = range(math.floor(place) - 3, math.floor(place) + 5)
                truth[k, i] = sum(
                    (weight(place - j) * exact[k, min(max(j, 0), n - 1)] for j in taps), Fraction(0)
                )
        return [found], [truth]

    return row


def box(d: Fraction) -> Fraction:
    return Fraction(0 <= d < 1)


def box_around(d: Fraction) -> Fraction:
    return Fraction(-HALF <= d < HALF)


def triangle(d: Fraction) -> Fraction:
    return max(1 - abs(d), Fraction(0))


def cubic(d: Fraction, a: Fraction = Fraction(-3, 4)) -> Fraction:
    x = abs(d)
    return (
        (a + 2) * x**3 - (a + 3) * x**2 + 1
        if x <= 1
        else a * (x**3 - 5 * x**2 + 8 * x - 4)
        if x < 2
        else Fraction(0)
    )


def antialiased(mode: str, kernel: Callable[[Fraction], Fraction]) -> Row:
    """Of every pixel the kernel at its distance, stretched where the picture shrinks, as a share of
    all."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        n, m = rng.randint(2, 9), rng.randint(1, 11)
        x = numbers(rng, (1, 1, 1, n), "plain")
        found = traced(lambda a: F.interpolate(a, size=(1, m), mode=mode, antialias=True), x)[
            0
        ].reshape(m)
        exact, scale, truth = fractions(x).reshape(n), Fraction(n, m), []
        for i in range(m):
            shares = [
                kernel((j + HALF - (i + HALF) * scale) / max(scale, Fraction(1))) for j in range(n)
            ]
            truth.append(sum(w * v for w, v in zip(shares, exact, strict=True)) / sum(shares))
        return [found], [truth]

    return row


def affine(aligned: bool) -> Row:
    def row(rng: random.Random) -> tuple[Any, Any]:
        h, w = rng.randint(2 if aligned else 1, 5), rng.randint(2, 5)
        theta = numbers(rng, (1, 2, 3))
        found = traced(lambda t: F.affine_grid(t, [1, 1, h, w], aligned), theta)[0]
        exact, truth = fractions(theta)[0], np.empty((1, h, w, 2), dtype=object)

        def base(i: int, n: int) -> Fraction:
            return Fraction(2 * i, n - 1) - 1 if aligned else Fraction(2 * i + 1, n) - 1

        for i, j, k in np.ndindex(h, w, 2):
            truth[0, i, j, k] = exact[k, 0] * base(j, w) + exact[k, 1] * base(i, h) + exact[k, 2]
        return [found], [truth]

    return row


def unpooled(rng: random.Random) -> tuple[Any, Any]:
    x, places = (
        numbers(rng, (1, 2, 3)),
        [[rng.randrange(2) + 2 * i for i in range(3)] for _ in range(2)],
    )
    found = traced(lambda a: F.max_unpool1d(a, torch.tensor([places]), 2), x)[0]
    exact, truth = fractions(x), np.full((1, 2, 6), Fraction(0), dtype=object)
    for c, i in itertools.product(range(2), range(3)):
        truth[0, c, places[c][i]] = exact[0, c, i]
    return [found], [truth]


def sampled(mode: str, weight: Callable[[Fraction], Fraction], aligned: bool, padding: str) -> Row:
    """Places from a grid of quarters, which often lie on pixels and on borders."""

    def inside(x: Fraction, n: int) -> Fraction:
        if padding == "reflection":
            low, span = (Fraction(0), Fraction(n - 1)) if aligned else (-HALF, Fraction(n))
            if not span:
                return Fraction(0)
            t = abs(x - low) % (2 * span)
            x = low + (2 * span - t if t > span else t)
        return min(max(x, Fraction(0)), Fraction(n - 1)) if padding != "zeros" else x

    def row(rng: random.Random) -> tuple[Any, Any]:
        h, w = rng.randint(1, 5), rng.randint(1, 5)
        x = numbers(rng, (1, 2, h, w))
        grid = torch.tensor(
            [[[[rng.randint(-9, 9) / 4, rng.uniform(-1.5, 1.5)] for _ in range(3)]]],
            dtype=torch.float64,
        )
        found = traced(lambda a, g: F.grid_sample(a, g, mode, padding, aligned), x, grid)[0]
        exact, points, truth = fractions(x), fractions(grid), np.empty(found.shape, dtype=object)
        for k, i in itertools.product(range(2), range(3)):
            gx, gy = points[0, 0, i]
            px, py = (
                ((g + 1) * (n - 1) if aligned else (g + 1) * n - 1) / 2
                for g, n in ((gx, w), (gy, h))
            )
            if mode != "bicubic":
                px, py = inside(px, w), inside(py, h)
            total = Fraction(0)
            for a, b in itertools.product(
                range(math.floor(py) - 2, math.floor(py) + 4),
                range(math.floor(px) - 2, math.floor(px) + 4),
            ):
                share = weight(py - a) * weight(px - b)
                if mode == "bicubic":
                    r, c = inside(Fraction(a), h), inside(Fraction(b), w)
                    a, b = math.trunc(r), math.trunc(c)
                if share and 0 <= a < h and 0 <= b < w:
                    total += share * exact[0, k, a, b]
            truth[0, k, 0, i] = total
        return [found], [truth]

    return row


def bags(mode: str) -> Row:
    def row(rng: random.Random) -> tuple[Any, Any]:
        table = numbers(rng, (6, 3))
        sizes = [rng.randint(0, 4) for _ in range(5)]
        rows = [rng.randrange(6) for _ in range(sum(sizes))]
        starts = [sum(sizes[:i]) for i in range(5)]
        found = traced(
            lambda t: F.embedding_bag(
                torch.tensor(rows, dtype=torch.int64),
                t,
                torch.tensor(starts),
                mode=mode,
                padding_idx=2,
            ),
            table,
        )[0]
        exact, truth = fractions(table), np.empty((5, 3), dtype=object)
        for b, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            kept = [r for r in rows[start : start + size] if r != 2]
            for j in range(3):
                values = [exact[r, j] for r in kept] or [Fraction(0)]
                truth[b, j] = (
                    max(values)
                    if mode == "max"
                    else sum(values) / (len(values) if mode == "mean" else 1)
                )
        return [found], [truth]

    return row


def bag_gradients(mode: str) -> Row:
    """By the table, divided by how often a row comes in all bags, and by the weights of a sum."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        table, cotangent = numbers(rng, (6, 3)), np.arange(1, 13).reshape(4, 3)
        rows = [[rng.randrange(6) for _ in range(5)] for _ in range(4)]
        given = [table, *([numbers(rng, (4, 5))] if mode == "sum" else [])]
        found = slopes(
            lambda t, *w: F.embedding_bag(
                torch.tensor(rows), t, mode=mode, padding_idx=2, scale_grad_by_freq=True,
                per_sample_weights=w[0] if w else None,
            ),
            *given,
        )  # fmt: skip
        exact = fractions(table)
        truth = [np.full(g.shape, Fraction(0), dtype=object) for g in given]
        often = Counter(itertools.chain(*rows))
        for b, bag in enumerate(rows):
            kept = sum(r != 2 for r in bag)
            for i, r in enumerate(bag):
                if r == 2:
                    continue
                share = fractions(given[1])[b, i] if mode == "sum" else Fraction(1, kept)
                for j in range(3):
                    truth[0][r, j] += int(cotangent[b, j]) * share / often[r]
                    if mode == "sum":
                        truth[1][b, i] += int(cotangent[b, j]) * exact[r, j]
        return found, truth

    return row


ROWS: dict[str, Row] = {
    "avg_pool1d": pooled(
        lambda x: F.avg_pool1d(x, 3, 2, 1),
        lambda i, n, m: [2 * i - 1, 2 * i, 2 * i + 1],
        mean_with_padding,
        1,
    ),
    "avg_pool2d": pooled(
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda i, n, m: [2 * i - 1, 2 * i, 2 * i + 1],
        mean,
    ),
    "avg_pool3d": pooled(
        lambda x: F.avg_pool3d(x, 2, 3, 1), lambda i, n, m: [3 * i - 1, 3 * i], mean_with_padding, 3
    ),
    "ceil_mode": pooled(
        lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), lambda i, n, m: [2 * i, 2 * i + 1], mean
    ),
    "max_pool2d": pooled(
        lambda x: F.max_pool2d(x, 2, 2, 1, 2),
        lambda i, n, m: [2 * i - 1, 2 * i + 1],
        lambda v, s: max(v),
    ),
    "max_pool3d": pooled(
        lambda x: F.max_pool3d(x, 2), lambda i, n, m: [2 * i, 2 * i + 1], lambda v, s: max(v), 3
    ),
    "adaptive_avg_pool2d": pooled(lambda x: F.adaptive_avg_pool2d(x, (3, 4)), adaptive, mean),
    "adaptive_max_pool2d": pooled(
        lambda x: F.adaptive_max_pool2d(x, (3, 4)), adaptive, lambda v, s: max(v)
    ),
    "nearest": weighted("nearest", box, False, True),
    "nearest-exact": weighted("nearest-exact", box_around, False, False),
    "linear": weighted("linear", triangle, False, True),
    "linear aligned": weighted("linear", triangle, True, True),
    "bilinear": weighted("bilinear", triangle, False, True),
    "bicubic": weighted("bicubic", cubic, False, False),
    "bicubic aligned": weighted("bicubic", cubic, True, False),
    "antialiased bilinear": antialiased("bilinear", triangle),
    "antialiased bicubic": antialiased("bicubic", lambda d: cubic(d, Fraction(-1, 2))),
    "affine_grid": affine(False),
    "affine_grid aligned": affine(True),
    "max_unpool1d": unpooled,
    **{
        f"grid_sample {mode} {padding} {aligned}": sampled(
            mode, cubic if mode == "bicubic" else triangle, aligned, padding
        )
        for mode in ("bilinear", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (True, False)
    },
    **{f"embedding_bag {mode}": bags(mode) for mode in ("sum", "mean", "max")},
    **{f"gradient of embedding_bag {mode}": bag_gradients(mode) for mode in ("sum", "mean")},
}


test_enclosures_hold_the_exact_result, test_enclosures_hold_the_exact_result_many_times = (
    enclosure_tests(ROWS)
)


def test_the_slope_of_a_sample_by_its_place_is_the_difference_of_its_neighbors() -> None:
    picture = torch.tensor([[[[1.0, 4.0, 9.0]]]], dtype=torch.float64)
    grid = torch.tensor([[[[0.25, 0.0]]]], dtype=torch.float64)
    by_picture, by_grid = slopes(
        lambda p, g: F.grid_sample(p, g, align_corners=True), picture, grid
    )
    assert [float(v) for v in by_picture.reshape(-1)] == [0.0, 0.75, 0.25]
    assert float(by_grid.reshape(-1)[0]) == 5.0


def test_the_slopes_of_resampling_are_its_weights() -> None:
    x = torch.zeros(1, 1, 3, dtype=torch.float64)
    found = slopes(lambda a: F.interpolate(a, size=1, mode="linear", align_corners=False), x)[0]
    assert [float(v) for v in found.reshape(-1)] == [0.0, 1.0, 0.0]


def test_a_maximum_is_nan_where_nan_is_and_has_no_place_where_there_are_two() -> None:
    from consistency.reference.certified.balls import Unknowable

    x = torch.tensor([[[1.0, float("nan"), 3.0, float("nan"), float("nan")]]], dtype=torch.float64)
    found = traced(lambda a: F.max_pool1d(a, 2, 1), x)[0].reshape(-1)
    assert [str(v) for v in found] == ["nan"] * 4
    with pytest.raises(Unknowable, match="several NaN"):
        traced(lambda a: F.max_pool1d(a, 2, 1, return_indices=True), x)
