"""Findings of a sweep as numbers and text: how the error grows, where it exceeds the budget, and
where two contestants begin to differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.text import format_factor
from .measure import Measurement, Series
from .plans import SCALE

FEWEST = 6  # points needed to fit a slope


@dataclass(frozen=True)
class Finding:
    """Findings for one contestant and dtype: ``slope`` of log RMS error against log size (NaN: too
    few points), the ``worst`` × budget and its size, the size that first exceeds the budget
    (``leaves``, NaN: none), and the first at which it differs from the first contestant (NaN:
    none).
    """

    contestant: str
    dtype: str
    slope: float
    worst: float
    worst_at: float
    leaves: float
    differs_from: float
    agrees_to: float
    words: str


def findings(series: Series) -> list[Finding]:
    """One for each contestant and dtype of a series."""
    return [
        _finding(series, contestant, dtype)
        for dtype in series.dtypes
        for contestant in series.contestants
    ]


def slope_of(points: Sequence[Measurement]) -> float:
    """Slope of log RMS error against log size over the upper two thirds of the sizes, where blocks
    are full.

    The median of the slopes of all pairs (Theil 1950, Sen 1968) is robust against a step where the
    kernel changes.
    """
    usable = [(math.log(m.value), math.log(m.rms)) for m in points if m.rms > 0.0 and m.value > 0.0]
    usable = usable[len(usable) // 3 :]
    if len(usable) < FEWEST:
        return math.nan
    x, y = np.array(usable).T
    i, j = np.triu_indices(x.size, 1)
    distinct = np.abs(x[i] - x[j]) > 0.1
    return (
        float(np.median((y[i] - y[j])[distinct] / (x[i] - x[j])[distinct]))
        if distinct.any()
        else math.nan
    )


def _finding(series: Series, contestant: str, dtype: str) -> Finding:
    points = series.of(contestant, dtype)
    tested = [m for m in points if not math.isnan(m.rho)]
    slope = slope_of(tested)
    worst = max(tested, key=lambda m: m.rho, default=None)
    leaves = next((m.value for m in tested if m.rho > 1.0), math.nan)
    differing = [m.value for m in points if m.differing > 0.0]
    differs = differing[0] if differing else math.nan
    agrees = max(
        (m.value for m in points if m.differing == 0.0 and not m.value > differs), default=math.nan
    )
    name = series.vary.name
    words = []
    if worst is None:
        words.append(points[0].reason if points else "nothing was measured")
    elif not math.isnan(slope):
        direction = "grows" if slope > 0.0 else "falls"
        words.append(
            f"error {direction} as {name}^{slope:.2f}{_comment(slope) if name != SCALE else ''}"
        )
    if worst is not None:
        words.append(f"at most {format_factor(worst.rho)} × budget, at {name} = {worst.value:g}")
    if not math.isnan(leaves):
        words.append(f"leaves the budget at {name} = {leaves:g}")
    if contestant != series.contestants[0]:
        first = series.contestants[0]
        compared = sum(not math.isnan(m.differing) for m in points)
        if worst is None:
            pass  # nothing was computed, so nothing has the same bits
        elif math.isnan(differs) and compared < len(points):
            words.append(
                f"the same bits as {first} at the {compared} of {len(points)} points where both "
                "gave results"
            )
        elif math.isnan(differs):
            words.append(f"the same bits as {first} everywhere")
        elif math.isnan(agrees):
            words.append(f"other bits than {first} from the first point on")
        else:
            words.append(
                f"the same bits as {first} up to {name} = {agrees:g}, others from {name} = "
                f"{differs:g}"
            )
    rho, at = (worst.rho, worst.value) if worst is not None else (math.nan, math.nan)
    return Finding(contestant, dtype, slope, rho, at, leaves, differs, agrees, "; ".join(words))


def _comment(slope: float) -> str:
    """The nearest growth law of accumulated rounding errors: √n or n."""
    if slope < 0.25:
        return ""
    if slope < 0.75:
        return " (about √n)"
    return " (about n)" if slope < 1.25 else " (faster than n)"
