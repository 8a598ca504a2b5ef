"""Positive controls of the probe for products: what is not seen may have had no chance to show.

A product's own rounding shows only where the product itself, not a sum that already holds it, joins
the sum of the other three terms. Whether it does is counted as in FPRev (arXiv 2411.00442): ones
everywhere, +M at one term, −M at another; what is missing from the sum lies below the node at which
both meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from .gemm_probe import Array, GemmProbe

_LARGE = {"float32": 2.0**100, "float64": 2.0**600, "bfloat16": 2.0**100}  # a one beside it is lost
Slots = tuple[int, ...]  # where the product stands, and the three others


def joins(bench: GemmProbe, arrangements: Sequence[Slots]) -> bool:
    """Whether in at least one arrangement the product, as it is, joins the sum of the other three.
    Raises NotAnswered.

    False as well where outputs at different places contradict each other, and of formats in which
    nothing can be counted.
    """
    large = _LARGE.get(bench.dtype)
    pivots = sorted({slot for slots in arrangements for slot in slots})
    below = _below(bench, pivots, large) if large is not None else None
    if below is None:
        return False
    row = {pivot: below[i] for i, pivot in enumerate(pivots)}

    def alone(product: int, *others: int) -> bool:
        """Nothing meets the product before the three do, they have met before, and nothing else
        joins where they do."""
        first = np.nanmin(row[product])
        meet = [row[product][other] for other in others] + [row[other][product] for other in others]
        near = row[others[0]]
        return (
            all(m == first for m in meet)
            and all(row[a][b] < first for a, b in combinations(others, 2))
            and near[near < first].max() == first - 1
        )

    return any(alone(*slots) for slots in arrangements)


def _below(bench: GemmProbe, pivots: Sequence[int], large: float) -> Array | None:
    """[pivots, K]: terms below the node where each of ``pivots`` meets each other term (nan:
    itself). Every row of the output is asked, and each term in two columns: None where they do not
    agree.
    """
    m, k, n = bench.shape.m, bench.shape.k, bench.shape.n
    turn = np.arange(m) % len(pivots)
    left = np.ones((m, k))
    left[np.arange(m), np.array(pivots)[turn]] = large
    found: list[Array] = []
    for shift in (0, n // 2):
        counts = np.empty((m, k))
        for start in range(0, k, n):
            others = (np.arange(n) + start + shift) % k
            right = np.ones((n, k))
            right[np.arange(n), others] = -large
            counts[:, others] = k - bench.grid(left, right)
        found.append(counts)
    every = np.stack(found)
    every[:, np.arange(m), np.array(pivots)[turn]] = np.nan
    told = every[0, : len(pivots)]
    return (
        told
        if np.array_equal(every, np.broadcast_to(told[turn], every.shape), equal_nan=True)
        else None
    )
