"""Losses through calls of torch beside fractions and mpmath, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.reference.certified.exact_rows import holds, proved
from tests.reference.certified.traces import followed, gradient_nodes

BITS = 400


def numbers(seed: int, *shape: int, low: float = -4.0, high: float = 4.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(low, high, shape))


def value_and_gradient(
    function: Callable[..., torch.Tensor], x: torch.Tensor, *rest: torch.Tensor
) -> tuple[Any, list[Any]]:
    """Of a loss that is one number: its ball, and those of its gradient by the first argument."""
    made, trace = followed(function, x, *rest)
    (slope,), _ = gradient_nodes(lambda x: function(x, *rest), torch.ones_like, x)
    return proved(trace.node(made), 1)[0], proved(slope, x.numel())


def exact(tensor: torch.Tensor) -> list[Any]:
    return [mpmath.mpf(v) for v in tensor.reshape(-1).tolist()]


def bce_with_logits(x: Any, t: Any) -> Any:
    s = 1 / (1 + mpmath.exp(-x))
    return -t * mpmath.log(s) - (1 - t) * mpmath.log(1 - s)


def huber(d: Any, delta: Any) -> Any:
    return d * d / 2 if abs(d) <= delta else delta * (abs(d) - delta / 2)


def stirling(t: Any) -> Any:
    return t * mpmath.log(t) - t + mpmath.log(2 * mpmath.pi * t) / 2 if t > 1 else mpmath.mpf(0)


def sigma(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def bce(x: Any, t: Any) -> Any:
    return -t * mpmath.log(x) - (1 - t) * mpmath.log(1 - x)


Loss = tuple[Callable[..., torch.Tensor], Callable[..., Any]]
PAIRS: dict[str, Loss] = {
    "mse": (F.mse_loss, lambda x, t: (x - t) ** 2),
    "l1": (F.l1_loss, lambda x, t: abs(x - t)),
    "huber": (
        lambda x, t: F.huber_loss(x, t, delta=0.75),
        lambda x, t: huber(x - t, mpmath.mpf(0.75)),
    ),
    "smooth l1": (
        lambda x, t: F.smooth_l1_loss(x, t, beta=0.1),
        lambda x, t: huber(x - t, mpmath.mpf(0.1)) / mpmath.mpf(0.1),
    ),
    "with logits": (F.binary_cross_entropy_with_logits, bce_with_logits),
    "soft margin": (F.soft_margin_loss, lambda x, t: mpmath.log(1 + mpmath.exp(-t * x))),
    "poisson": (
        lambda x, t: F.poisson_nll_loss(x, t.abs(), full=True),
        lambda x, t: mpmath.exp(x) - abs(t) * x + stirling(abs(t)),
    ),
    "gaussian": (
        lambda x, t: F.gaussian_nll_loss(x, t, torch.full_like(t, 0.3), full=True),
        lambda x, t: (
            (
                mpmath.log(mpmath.mpf(0.3))
                + (x - t) ** 2 / mpmath.mpf(0.3)
                + mpmath.log(2 * mpmath.pi)
            )
            / 2
        ),
    ),
    "bce": (
        lambda x, t: F.binary_cross_entropy(x.sigmoid(), t.sigmoid()),
        lambda x, t: bce(sigma(x), sigma(t)),
    ),
    "kl": (
        lambda x, t: F.kl_div(x, t.exp(), reduction="sum") / 12,
        lambda x, t: mpmath.exp(t) * (t - x),
    ),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_losses_of_pairs(name: str, seed: int) -> None:
    function, each = PAIRS[name]
    x, t = numbers(seed, 3, 4), numbers(seed + 100, 3, 4)
    value, slopes = value_and_gradient(function, x, t)
    with mpmath.workprec(BITS + 60):
        xs, ts = exact(x), exact(t)
        assert holds(value, mpmath.fsum(map(each, xs, ts)) / 12, BITS // 2)
        for slope, a, b in zip(slopes, xs, ts, strict=True):
            truth = mpmath.diff(lambda v, b=b: each(v, b), a) / 12
            assert holds(slope, truth, BITS // 4), (name, a, b)


def mp_cross_entropy(
    rows: list[list[Any]], targets: list[int], weights: list[Any], smoothing: Any, ignored: int
) -> Any:
    total, count = mpmath.mpf(0), mpmath.mpf(0)
    for row, target in zip(rows, targets, strict=True):
        if target == ignored:
            continue
        log_z = mpmath.log(mpmath.fsum(map(mpmath.exp, row)))
        losses = [w * (log_z - v) for w, v in zip(weights, row, strict=True)]
        total += (1 - smoothing) * losses[target] + smoothing / len(row) * mpmath.fsum(losses)
        count += weights[target]
    return total / count


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(smoothing: float, weighted: bool) -> None:
    x, targets = numbers(7, 4, 5), [0, 3, 1, 4]
    weight = numbers(8, 5, low=0.1) if weighted else None

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(
            x, torch.tensor(targets), weight, ignore_index=1, label_smoothing=smoothing
        )

    value, slopes = value_and_gradient(function, x)
    with mpmath.workprec(BITS + 60):
        weights = exact(weight) if weight is not None else [mpmath.mpf(1)] * 5
        flat, s = exact(x), mpmath.mpf(smoothing)

        def truth(values: list[Any]) -> Any:
            return mp_cross_entropy(
                [values[5 * i : 5 * i + 5] for i in range(4)], targets, weights, s, 1
            )

        assert holds(value, truth(flat), BITS // 2)
        for i in (0, 7, 11, 19):
            wanted = mpmath.diff(lambda v, i=i: truth([*flat[:i], v, *flat[i + 1 :]]), flat[i])
            assert (wanted == 0 and float(slopes[i]) == 0.0) or holds(slopes[i], wanted, BITS // 4)


def as_fraction(ball: Any) -> Fraction:
    if type(ball) is float:
        return Fraction(ball)
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def near(ball: Any, truth: Fraction) -> bool:
    return abs(as_fraction(ball) - truth) <= abs(truth) / 2**90


def test_margin_losses_are_those_of_fractions() -> None:
    x, labels = numbers(3, 3, 4), [2, 0, 3]
    rows = [[Fraction(v) for v in row] for row in x.tolist()]
    value, slopes = value_and_gradient(
        lambda x: F.multi_margin_loss(x, torch.tensor(labels), p=2, margin=0.5), x
    )
    half = Fraction(1, 2)
    terms = [
        [max(Fraction(0), half - row[t] + v) if j != t else Fraction(0) for j, v in enumerate(row)]
        for row, t in zip(rows, labels, strict=True)
    ]
    assert near(value, sum((z * z for row in terms for z in row), Fraction(0)) / 12)
    for i, (row, t) in enumerate(zip(terms, labels, strict=True)):
        for j, z in enumerate(row):
            truth = 2 * z / 12 if j != t else -2 * sum(row, Fraction(0)) / 12
            assert near(slopes[4 * i + j], truth)
    several = [[0, 2, -1, 1], [-1, 0, 1, 2], [3, 1, 2, 0]]
    value, _ = value_and_gradient(lambda x: F.multilabel_margin_loss(x, torch.tensor(several)), x)
    total = Fraction(0)
    for row, wanted in zip(rows, several, strict=True):
        read = wanted[: wanted.index(-1)] if -1 in wanted else wanted
        total += sum(
            (
                max(Fraction(0), 1 - row[t] + row[j])
                for t in read
                for j in range(4)
                if j not in read
            ),
            Fraction(0),
        )
    assert near(value, total / 12)


SMALLEST_NORM = torch.__version__ >= "2.14"  # the subgradient that torch chooses at a bound
OF_EQUALS = 0.5 if SMALLEST_NORM else 1.0  # the first one's share of two equal numbers
KINKS: list[tuple[Callable[[torch.Tensor], torch.Tensor], list[float], list[float]]] = [
    (torch.relu, [0.0, 1.0, -1.0], [0.0, 1.0, 0.0]),
    (torch.abs, [0.0, -2.0], [0.0, -1.0]),
    (
        lambda x: torch.clamp(x, -1, 2),
        [-1.0, 2.0, 3.0, 0.0],
        [0.0, 0.0, 0.0, 1.0] if SMALLEST_NORM else [1.0, 1.0, 0.0, 1.0],
    ),
    (lambda x: torch.maximum(x, torch.zeros(2, dtype=torch.float64)), [0.0, 1.0], [0.5, 1.0]),
    (lambda x: torch.fmax(x, torch.zeros(2, dtype=torch.float64)), [0.0, 1.0], [OF_EQUALS, 1.0]),
    (F.relu6, [0.0, 6.0, 3.0], [0.0, 0.0, 1.0]),
    (lambda x: F.leaky_relu(x, 0.5), [0.0, 1.0], [0.5, 1.0]),
    (F.hardswish, [-3.0, 3.0], [0.0, 1.0]),
    (lambda x: F.softshrink(x, 0.5), [0.5, -0.5, 1.0], [0.0, 0.0, 1.0]),
    (torch.sqrt, [0.0], [math.inf]),
    (F.elu, [math.inf, 0.0], [1.0, 1.0]),
    (F.hardswish, [math.inf], [1.0]),
    (torch.asin, [1.0, -1.0], [math.inf, math.inf]),
]


@pytest.mark.parametrize("case", range(len(KINKS)))
def test_kinks_as_torch_has_them(case: int) -> None:
    function, points, wanted = KINKS[case]
    x = torch.tensor(points, dtype=torch.float64)
    _, slopes = value_and_gradient(lambda x: function(x).sum(), x)
    assert [float(s) for s in slopes] == wanted
    if function is F.hardswish and torch.__version__ < "2.5":
        # torch 2.4.1's own gradient at its kinks is that of the parabola between them: −0.5 and 1.5
        return
    leaf = x.clone().requires_grad_(True)
    function(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == wanted


# Every order of a number and two bounds; a function takes as many of them as it has parameters.
ORDERS = torch.cartesian_prod(*[torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)] * 3).T
BOUNDED: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    "clamp": (3, torch.clamp),
    "clamp from below": (2, lambda x, low: torch.clamp(x, min=low)),
    "clamp from above": (2, lambda x, high: torch.clamp(x, max=high)),
    "clamp at numbers": (1, lambda x: torch.clamp(x, 0.0, 1.0)),
    "clamp at equal numbers": (1, lambda x: torch.clamp(x, 1.0, 1.0)),
    "clamp at numbers in disorder": (1, lambda x: torch.clamp(x, 2.0, 0.0)),
    "clamp of infinities": (1, lambda x: torch.clamp(x.where(x != 2.0, math.inf), min=0.0)),
    "clamp_min": (1, lambda x: torch.clamp_min(x, 1.0)),
    "clamp_max": (1, lambda x: torch.clamp_max(x, 1.0)),
    "clamp_max at tensors": (2, torch.clamp_max),
    "fmax": (2, torch.fmax),
    "fmin": (2, torch.fmin),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_share_the_gradient_as_in_torch(name: str) -> None:
    """By torch's version: its choice at a bound changed in 2.14. Until then neither of two equal
    bounds gets the gradient of a number outside, which is wrong, and so unknown here."""
    count, function = BOUNDED[name]
    leaves = [row.clone().requires_grad_(True) for row in ORDERS[:count]]
    wanted = torch.autograd.grad(function(*leaves).sum(), leaves)
    slopes, _ = gradient_nodes(function, torch.ones_like, *ORDERS[:count])
    for slope, torchs in zip(slopes, wanted, strict=True):
        found = torch.tensor([float(s) for s in proved(slope, torchs.numel())]).double()
        known = found.isfinite() | SMALLEST_NORM
        assert found[known].tolist() == torchs[known].tolist()
        assert known.sum() >= 21
