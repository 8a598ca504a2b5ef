"""The few elements of an output that decide ρ for any rule."""

from __future__ import annotations

import numpy as np

from .metrics import Doubles


def pareto_front(
    error: Doubles, ulp: Doubles, scale: Doubles | float | None
) -> tuple[tuple[tuple[float, float], ...], tuple[int, ...]]:
    """Points (ulp/e, G·u·S/e) of the lower-left convex hull over the elements with e > 0, and the
    element of each.

    max ρ over all elements is 1 / min(c·a + λ·b) over these points, for any c, λ ≥ 0. Without S, b
    is 0.
    """
    nonzero = np.flatnonzero(error > 0.0)
    if not nonzero.size:
        return (), ()
    with np.errstate(over="ignore", divide="ignore"):
        a = ulp[nonzero] / error[nonzero]
        b = (
            np.zeros_like(a)
            if scale is None
            else (scale[nonzero] if isinstance(scale, np.ndarray) else scale) / error[nonzero]
        )
    low_a, low_b = int(np.argmin(a)), int(np.argmin(b))
    # nothing outside this box can be a corner
    candidates = np.flatnonzero((a <= a[low_b]) & (b <= b[low_a]))
    sorted_candidates = candidates[np.lexsort((b[candidates], a[candidates]))]
    front = sorted_candidates[
        np.r_[True, b[sorted_candidates][1:] < np.minimum.accumulate(b[sorted_candidates])[:-1]]
    ]
    pareto_points: list[int] = []
    for i in front.tolist():
        while len(pareto_points) >= 2 and _is_not_convex(
            a, b, pareto_points[-2], pareto_points[-1], i
        ):
            pareto_points.pop()
        pareto_points.append(i)
    return tuple((float(a[i]), float(b[i])) for i in pareto_points), tuple(
        int(nonzero[i]) for i in pareto_points
    )


def _is_not_convex(a: Doubles, b: Doubles, i: int, j: int, k: int) -> bool:
    x, y = float(a[i]), float(b[i])  # Python's floats overflow without a warning
    return (float(a[j]) - x) * (float(b[k]) - y) - (float(b[j]) - y) * (float(a[k]) - x) <= 0.0


def rho(pareto_points: tuple[tuple[float, float], ...], c: float, lam: float) -> tuple[float, int]:
    """max ρ (× budget) for one rule, and the Pareto point that causes it. No points: (0, -1)."""
    if not pareto_points:
        return 0.0, -1
    budgets = [c * a + lam * b for a, b in pareto_points]
    min_index = min(range(len(budgets)), key=budgets.__getitem__)
    return (1.0 / budgets[min_index] if budgets[min_index] > 0.0 else float("inf")), min_index
