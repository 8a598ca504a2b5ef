"""Whether numbers may come from a distribution: how random operators are compared.

The bounds hold for samples of any size, not only for large ones (Chernoff, Hoeffding,
Dvoretzky–Kiefer–Wolfowitz): a healthy generator exceeds one of them once in 5·10⁸ times, as often
as 6 σ. Small samples therefore say little but never give false alarms. Every test returns a 0-d
boolean tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

RARE = -math.log(1e-9)  # per side; both sides together as 6 σ
_COARSE = 2.0**-7  # bfloat16 has no finer numbers just below 1

Cdf = Callable[[torch.Tensor], torch.Tensor]


def share(hits: torch.Tensor, expected: torch.Tensor | float) -> torch.Tensor:
    """Independent events: whether their number agrees with their probabilities, which may differ
    (Chernoff–Hoeffding)."""
    n = hits.numel()
    p = (
        float(expected.mean())
        if isinstance(expected, torch.Tensor) and n
        else expected
        if isinstance(expected, float)
        else 0.5
    )
    f = float(hits.sum()) / n if n else p
    return torch.tensor(n * _divergence(f, p) <= RARE)


def _divergence(f: float, p: float) -> float:
    """The Kullback–Leibler divergence of an observed share from a probability."""
    total = 0.0
    for observed, probability in ((f, p), (1.0 - f, 1.0 - p)):
        if observed > 0.0:
            total += observed * math.log(observed / probability) if probability > 0.0 else math.inf
    return total


def unrelated(bits: torch.Tensor, p: float, known: torch.Tensor | None = None) -> torch.Tensor:
    """Whether neighbors, neighboring rows, and both halves agree as often as chance predicts.

    ``p`` is the probability of a bit, ``known`` marks the bits that can be determined. Pairs are
    disjoint, and so independent.
    """
    known = torch.ones_like(bits) if known is None else known
    flat, flat_known, agree = bits.reshape(-1), known.reshape(-1), p * p + (1.0 - p) * (1.0 - p)
    half = flat.numel() // 2
    pairs = [
        (
            flat[: 2 * half : 2],
            flat[1 : 2 * half : 2],
            flat_known[: 2 * half : 2] & flat_known[1 : 2 * half : 2],
        )
    ]
    pairs.append(
        (flat[:half], flat[half : 2 * half], flat_known[:half] & flat_known[half : 2 * half])
    )
    if bits.ndim > 1 and bits.numel():
        rows, known_rows = bits.reshape(-1, bits.shape[-1]), known.reshape(-1, bits.shape[-1])
        even = rows.shape[0] // 2 * 2
        pairs.append((rows[:even:2], rows[1:even:2], known_rows[:even:2] & known_rows[1:even:2]))
    return torch.stack([share((a == b)[both], agree) for a, b, both in pairs]).all()


def follows(values: torch.Tensor, cdf: Cdf, before: Cdf | None = None) -> torch.Tensor:
    """Whether independent ``values`` have the distribution ``cdf`` (Dvoretzky–Kiefer–Wolfowitz,
    with Massart's constant).

    ``before`` is the probability of anything smaller, where numbers have a probability of their
    own.
    """
    flat = torch.nan_to_num(values.reshape(-1), nan=math.inf).contiguous()
    n = flat.numel()
    if not n:
        return torch.tensor(True)
    ordered = flat.sort().values
    upper = torch.searchsorted(ordered, ordered, right=True) / n - cdf(ordered)
    lower = (before or cdf)(ordered) - torch.searchsorted(ordered, ordered) / n
    farthest = float(torch.nan_to_num(torch.maximum(upper.abs(), lower.abs()), nan=1.0).max())
    return torch.tensor(farthest <= math.sqrt(RARE / (2.0 * n)) + _COARSE)


def uniform(values: torch.Tensor) -> torch.Tensor:
    """Of numbers that are even over [0, 1): the distribution, and that they are unrelated."""
    return follows(values, lambda x: x.clamp(0.0, 1.0)) & unrelated(values >= 0.5, 0.5)


def normal(z: torch.Tensor) -> torch.Tensor:
    """Of standard normal numbers: mean, variance, distribution, and that they are unrelated."""
    n = z.numel()
    if not n:
        return torch.tensor(True)
    mean, square = float(z.mean()), float((z * z).mean())
    usual = (
        0.5 * n * (square - 1.0 - math.log(square)) <= RARE if 0.0 < square < math.inf else False
    )  # Chernoff on χ²
    return (
        torch.tensor(abs(mean) * math.sqrt(n) <= 6.2 and usual)
        & follows(z, torch.special.ndtr)
        & unrelated(z >= 0.0, 0.5)
    )


def total(counts: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    """Of independent Poisson numbers: whether their sum is as the sum of their rates says
    (Chernoff)."""
    k, expected = float(counts.sum()), float(rate.sum())
    if not expected > 0.0 or not k >= 0.0:
        return torch.tensor(k == 0.0)
    return torch.tensor((k * math.log(k / expected) if k else 0.0) - k + expected <= RARE)
