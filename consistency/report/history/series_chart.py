"""Lines of × budget over the nights as SVG: a step per level, so that what repeats exactly takes
next to no room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .change_points import ChangePoint, GroupSeries
from .series import EnvironmentHistory

WIDTH, HEIGHT, LEFT, BOTTOM = 1000, 190, 46, 22
TOP = 14
PER_DECADE = math.log2(10.0)
NEAR = 0.004  # of the height: smaller steps are not drawn
MAX_POINTS = 420


@dataclass(frozen=True, slots=True)
class SeriesChart:
    """What a template draws: the paths and marks of one line over the nights, in units of a box of
    ``width`` × ``height``."""

    width: int
    height: int
    middle: str
    largest: str
    budget: float | None
    ticks: Sequence[tuple[float, str]]
    runs: Sequence[tuple[float, str]]
    marks: Sequence[dict[str, Any]]
    failing: Sequence[tuple[float, float]]
    words: str


def series_chart(
    environment: EnvironmentHistory, series: GroupSeries, change_points: Sequence[ChangePoint]
) -> SeriesChart:
    """Median and largest × budget of the cases of a group, on a logarithmic axis, with what
    changed."""
    low, high = _range(series)
    runs = len(environment.runs)

    def x(run: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 8) * (run / max(runs, 1)), 1)

    def y(octaves: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - octaves) / (high - low), 1)

    first, last = math.ceil(low / PER_DECADE), math.floor(high / PER_DECADE)
    step = max((last - first) // 5 + 1, 1)
    ticks = [(y(d * PER_DECADE), _power(d)) for d in range(first, last + 1) if d % step == 0]
    names = [(x(i + 0.5), environment.runs[i].name) for i in _spread(runs)]
    marks = [
        {"x": x(point.run), "kind": point.kind,
         "words": f"{environment.runs[point.run].name}: {point.kind}",
         "regression": point.regression}
        for point in change_points
    ]  # fmt: skip
    told = (
        f"× budget on {runs} nights, from {environment.runs[0].name} to "
        f"{environment.runs[-1].name}; {len(change_points)} changes"
    )
    return SeriesChart(
        WIDTH, HEIGHT, _path(series.middle, x, y), _path(series.largest, x, y),
        y(0.0) if low <= 0.0 <= high else None, ticks,
        names, marks,
        [(x(a), round(x(b) - x(a), 1)) for a, b in _stretches(series.failing > 0)], told,
    )  # fmt: skip


def small(series: GroupSeries) -> str:
    """The path of the largest × budget in a box of 120 × 24, the budget at a third of the
    height."""
    runs = len(series.largest)

    def x(run: float) -> float:
        return round(120.0 * run / max(runs, 1), 1)

    def y(octaves: float) -> float:
        return round(8.0 - octaves * (8.0 / 20.0 if octaves > 0 else 1.6), 1)

    return _path(np.clip(series.largest, -9.0, 18.0), x, y)


def _range(series: GroupSeries) -> tuple[float, float]:
    known = np.concatenate([series.middle, series.largest])
    known = known[~np.isnan(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (-3.0, 0.5)
    high = max(high + 0.5, 0.6)
    return min(low - 0.5, high - 2.0), high


def _path(values: NDArray[np.float32], x: Any, y: Any) -> str:
    """Steps of what is known; a gap where nothing ran for more than three nights in a row."""
    pieces: list[str] = []
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return ""
    wide = len(known) > MAX_POINTS
    before, height = -10, math.nan
    for run in known.tolist() if not wide else known[:: len(known) // MAX_POINTS + 1].tolist():
        here = y(float(values[run]))
        if run - before > 3 + wide * 3:
            if pieces:
                pieces.append(f"H{x(before + 1):g}")
            pieces.append(f"M{x(run):g} {here:g}")
            height = here
        elif abs(here - height) > NEAR * HEIGHT:
            pieces.append(f"H{x(run):g}V{here:g}")
            height = here
        before = run
    return "".join([*pieces, f"H{x(before + 1):g}"])


def _stretches(holds: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)][:80]


def _spread(runs: int) -> list[int]:
    many = min(runs, 5)
    return sorted({round(i * (runs - 1) / max(many - 1, 1)) for i in range(many)})


def _power(decade: int) -> str:
    return f"{10.0**decade:g}" if -4 <= decade <= 5 else f"1e{decade}"
