"""SVG charts of × budget over the runs of an environment, drawn as steps so that constant series
are short."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core import svg
from ...core.text import format_factor
from .events import ChangePoint
from .group_series import GroupSeries
from .series import EnvironmentHistory

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1000, 190, 46, 8, 14, 22
FLOOR = HEIGHT - BOTTOM
PER_DECADE = math.log2(10.0)
NEAR = 0.004  # of the height: smaller steps are not drawn
MAX_POINTS = 420
MAX_NIGHTS = 120  # with a date on hover


def series_chart(
    environment: EnvironmentHistory, series: GroupSeries, change_points: Sequence[ChangePoint]
) -> str:
    """Median and largest × budget of the cases of a group on a logarithmic axis, with its change
    points."""
    parts = _parts(environment, series, change_points)
    return svg.inline(description(environment, change_points), WIDTH, HEIGHT, parts)


def description(environment: EnvironmentHistory, change_points: Sequence[ChangePoint]) -> str:
    runs = environment.runs
    return (
        f"× budget on {len(runs)} nights, from {runs[0].name} to {runs[-1].name}; "
        f"{len(change_points)} changes"
    )


def _parts(
    environment: EnvironmentHistory, series: GroupSeries, change_points: Sequence[ChangePoint]
) -> Iterator[str]:
    low, high = _range(series)
    runs = len(environment.runs)
    x = svg.linear_scale(0, max(runs, 1), LEFT, WIDTH - RIGHT)
    y = svg.linear_scale(low, high, FLOOR, TOP)
    for begin, end in _stretches(series.failing > 0):
        width = x(end) - x(begin)
        yield svg.rect(x(begin), TOP, width, FLOOR - TOP, class_="fails")
    first, last = math.ceil(low / PER_DECADE), math.floor(high / PER_DECADE)
    step = max((last - first) // 5 + 1, 1)
    powers = [d for d in range(first, last + 1) if d % step == 0]
    ticks = [(y(d * PER_DECADE), _power(d)) for d in powers]
    yield from svg.y_axis(ticks, LEFT, WIDTH - RIGHT, gap=6)
    if low <= 0.0 <= high:
        yield svg.line(LEFT, y(0.0), WIDTH - RIGHT, y(0.0), class_="guide")
    named = _spread(runs)
    for i in named:
        anchor = "middle"
        if len(named) > 1:
            anchor = {named[0]: "start", named[-1]: "end"}.get(i, anchor)
        yield svg.text(x(i + 0.5), HEIGHT - 4, environment.runs[i].name, text_anchor=anchor)
    yield svg.element("path", class_="middle", d=_path(series.middle, x, y))
    yield svg.element("path", class_="largest", d=_path(series.largest, x, y))
    for run in range(runs) if runs <= MAX_NIGHTS else ():
        words = f"{environment.runs[run].name}: {_budgets(series.largest[run])}"
        width = x(run + 1) - x(run)
        yield svg.rect(x(run), TOP, width, FLOOR - TOP, tip=words, class_="night")
    for point in change_points:
        kind = "change worse" if point.regression else "change better"
        words = f"{environment.runs[point.run].name}: {point.kind.heading}"
        yield svg.line(x(point.run), 6, x(point.run), FLOOR, tip=words, class_=kind)


def _budgets(octaves: np.float32) -> str:
    """The largest × budget of a night in words."""
    if math.isnan(octaves):
        return "nothing was tested"
    return f"largest {format_factor(2.0 ** min(float(octaves), 1000.0))} × budget"


def sparkline(series: GroupSeries) -> str:
    """The largest × budget as a small chart; the budget is at a third of the height."""
    runs = len(series.largest)
    x = svg.linear_scale(0, max(runs, 1), 0.0, 120.0)

    def y(octaves: float) -> float:
        return 8.0 - octaves * (8.0 / 20.0 if octaves > 0 else 1.6)

    steps = _path(np.clip(series.largest, -9.0, 18.0), x, y)
    parts = [svg.line(0, 8, 120, 8, class_="guide"), svg.element("path", d=steps)]
    return svg.inline("", 120, 24, parts, class_="past") if steps else ""


def _range(series: GroupSeries) -> tuple[float, float]:
    known = np.concatenate([series.middle, series.largest])
    known = known[~np.isnan(known)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (-3.0, 0.5)
    high = max(high + 0.5, 0.6)
    return min(low - 0.5, high - 2.0), high


def _path(values: NDArray[np.float32], x: svg.Scale, y: svg.Scale) -> str:
    """Steps of the known values; a gap where nothing ran for more than three runs."""
    pieces: list[str] = []
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return ""
    wide = len(known) > MAX_POINTS
    before, height = -10, math.nan
    for run in known.tolist() if not wide else known[:: len(known) // MAX_POINTS + 1].tolist():
        here = round(y(float(values[run])), 1)
        if run - before > 3 + wide * 3:
            if pieces:
                pieces.append(f"H{round(x(before + 1), 1):g}")
            pieces.append(f"M{round(x(run), 1):g} {here:g}")
            height = here
        elif abs(here - height) > NEAR * HEIGHT:
            pieces.append(f"H{round(x(run), 1):g}V{here:g}")
            height = here
        before = run
    return "".join([*pieces, f"H{round(x(before + 1), 1):g}"])


def _stretches(holds: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)][:80]


def _spread(runs: int) -> list[int]:
    many = min(runs, 5)
    return sorted({round(i * (runs - 1) / max(many - 1, 1)) for i in range(many)})


def _power(decade: int) -> str:
    return f"{10.0**decade:g}" if -4 <= decade <= 5 else f"1e{decade}"
