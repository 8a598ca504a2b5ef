"""Positive controls of the probe for products: whether rounding of products could show at all.

A product's rounding shows only if the product itself, not a partial sum that contains it, is added
to the sum of the other three terms. This is tested as in FPRev (arXiv 2411.00442): all terms are 1,
except +M and −M at two of them; the terms missing from the sum lie below their lowest common
ancestor.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from .gemm_probe import Array, GemmProbe

_LARGE = {"float32": 2.0**100, "float64": 2.0**600, "bfloat16": 2.0**100}  # adding 1 changes none
Slots = tuple[int, ...]  # positions of the product and of the three other terms


def joins(bench: GemmProbe, arrangements: Sequence[Slots]) -> bool:
    """Whether in at least one arrangement the product itself is added to the sum of the other three
    terms. Raises NotAnswered.

    False also if outputs contradict each other, and for formats in which terms cannot be counted.
    """
    large = _LARGE.get(bench.dtype)
    pivots = sorted({slot for slots in arrangements for slot in slots})
    counts = _below(bench, pivots, large) if large is not None else None
    if counts is None:
        return False
    row = {pivot: counts[i] for i, pivot in enumerate(pivots)}

    def is_added_to_sum(product: int, *others: int) -> bool:
        """The sum of the other three terms is the first to be added to the product, and nothing
        else is added at the same node."""
        first = np.nanmin(row[product])
        meet = [row[product][other] for other in others] + [row[other][product] for other in others]
        counts_of_sum = row[others[0]]
        return (
            all(m == first for m in meet)
            and all(row[a][b] < first for a, b in combinations(others, 2))
            and counts_of_sum[counts_of_sum < first].max() == first - 1
        )

    return any(is_added_to_sum(*slots) for slots in arrangements)


def _below(bench: GemmProbe, pivots: Sequence[int], large: float) -> Array | None:
    """[pivots, K]: number of terms below the lowest common ancestor of each pivot and each other
    term (nan: itself). Measured in every row of the output, and for each term in two columns; None
    if these do not agree.
    """
    m, k, n = bench.shape.m, bench.shape.k, bench.shape.n
    turn = np.arange(m) % len(pivots)
    left = np.ones((m, k))
    left[np.arange(m), np.array(pivots)[turn]] = large
    repeats: list[Array] = []
    for shift in (0, n // 2):
        counts = np.empty((m, k))
        for start in range(0, k, n):
            others = (np.arange(n) + start + shift) % k
            right = np.ones((n, k))
            right[np.arange(n), others] = -large
            counts[:, others] = k - bench.grid(left, right)
        repeats.append(counts)
    all_counts = np.stack(repeats)
    all_counts[:, np.arange(m), np.array(pivots)[turn]] = np.nan
    first_counts = all_counts[0, : len(pivots)]
    return (
        first_counts
        if np.array_equal(
            all_counts, np.broadcast_to(first_counts[turn], all_counts.shape), equal_nan=True
        )
        else None
    )
