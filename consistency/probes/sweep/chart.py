"""A sweep as an SVG chart: error against size on logarithmic axes, one panel per dtype, and below
them the fraction of elements that differ."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

from ...core import svg
from .findings import Finding, slope_of
from .measure import Measurement, Series
from .plans import SCALE

WIDTH, PANEL, STRIP, LEFT, RIGHT, TOP, GAP = 960, 300, 90, 86, 150, 64, 46
LABEL, LABEL_HEIGHT = 21, 14  # letters of a label at a line's end, and their distance
FLAT, NEAR = 0.2, 0.3  # slopes: below the first no guide helps; a guide so near is the one
LINE, LETTERS = 18, 134  # of the legend: line height, and letters that fit even in a wide font
STYLE = """
svg{width:100%;height:auto;max-height:none}
.slope{stroke:var(--m);stroke-dasharray:1 5;fill:none;stroke-linecap:round}
.budget{stroke:var(--f);stroke-dasharray:7 4;fill:none}
"""


def chart(series: Series, found: Sequence[Finding], title: str) -> str:
    """The chart as one SVG document, with a description for those who cannot see it."""
    legends = [_legend(contestant, found) for contestant in series.contestants]
    height = (
        TOP
        + len(series.dtypes) * (PANEL + GAP)
        + (STRIP + GAP)
        + sum(LINE * (len(legend) + 1) + 8 for legend in legends)
        + 6
    )
    described = " · ".join(f"{f.dtype}, {f.contestant}: {f.words}" for f in found)
    return svg.document(title, described, WIDTH, height, _parts(series, found, title), STYLE)


def _parts(series: Series, found: Sequence[Finding], title: str) -> Iterator[str]:
    name = series.vary.name
    across = svg.log_scale([m.value for m in series.measurements], LEFT, WIDTH - RIGHT)
    yield svg.text(LEFT, 26, title, class_="title")
    fixed = ", ".join(f"{k} = {v:g}" for k, v in series.fixed.items() if k != name)
    words = f"RMS error against {name}{' · ' + fixed if fixed else ''}"
    yield svg.text(LEFT, 46, words, class_="muted")
    top = TOP
    for dtype in series.dtypes:
        yield from _panel(series, dtype, across, top)
        top += PANEL + GAP
    yield from _strip(series, across, top)
    top += STRIP + GAP
    for number, contestant in enumerate(series.contestants):
        yield svg.circle(LEFT + 6, top - 4, 5, fill=_color(number))
        yield svg.text(LEFT + 18, top, contestant, class_="strong")
        for words in _legend(contestant, found):
            top += LINE
            yield svg.text(LEFT + 18, top, words, class_="muted", font_size=12)
        top += LINE + 8


def _legend(contestant: str, found: Sequence[Finding]) -> list[str]:
    """What was found about a contestant, a dtype after the other, in lines that fit."""
    words = [f"{f.dtype}: {f.words}" for f in found if f.contestant == contestant]
    return [line for text in words for line in textwrap.wrap(text, LETTERS)]


def _panel(series: Series, dtype: str, across: svg.Scale, top: float) -> Iterator[str]:
    points = [m for m in series.measurements if m.dtype == dtype]
    heights = [h for m in points for h in (m.rms, m.budget) if h > 0.0 and math.isfinite(h)]
    if not heights:
        words = f"{dtype}: no error to show ({_reason(points)})"
        yield svg.text(LEFT, top + 40, words, class_="muted")
        return
    up = svg.log_scale(heights, top + PANEL, top)
    powers = svg.decades(min(heights), max(heights), 6)
    ticks = [(up(10.0**power), f"1e{power}") for power in powers]
    yield from svg.y_axis(ticks, LEFT, WIDTH - RIGHT, class_="muted")
    yield from svg.x_axis(_sizes(series, across), top, top + PANEL, class_="muted")
    yield svg.text(WIDTH - RIGHT, top - 8, dtype, text_anchor="end", class_="strong")
    first = [
        m
        for m in series.of(series.contestants[0], dtype)
        if m.budget > 0.0 and math.isfinite(m.budget)
    ]
    if first:
        yield svg.path([(across(m.value), up(m.budget)) for m in first], class_="budget")
    yield from _slopes(series, dtype, heights, across, up)
    ends: list[tuple[float, str, str | None]] = []
    if first:
        ends.append((up(first[-1].budget), "budget", None))
    for number, contestant in enumerate(series.contestants):
        places = [(across(m.value), up(m.rms)) for m in series.of(contestant, dtype) if m.rms > 0.0]
        if places:
            # The first line is wide and pale, so that it stays visible below others.
            width, opacity = (6.0, 0.35) if number == 0 else (1.8, None)
            color = _color(number)
            yield svg.path(places, class_="line", stroke=color, stroke_width=width, opacity=opacity)
            yield "".join(svg.circle(x, y, 2.4, fill=_color(number)) for x, y in places)
            ends.append((places[-1][1], contestant, color))
    yield from _labels(ends, top, top + PANEL)


def _labels(
    ends: Sequence[tuple[float, str, str | None]], top: float, bottom: float
) -> Iterator[str]:
    """The name of each line at its end; those of lines that end together below each other."""
    spread: list[float] = []
    for y, _, _ in (ordered := sorted(ends, key=lambda end: end[0])):
        spread.append(max(y, spread[-1] + LABEL_HEIGHT if spread else top))
    beyond = max(spread[-1] - bottom, 0.0) if spread else 0.0
    for y, (_, words, color) in zip(spread, ordered, strict=True):
        short = words if len(words) <= LABEL else f"{words[: LABEL - 1]}…"
        x, height = WIDTH - RIGHT + 8, y - beyond
        if color:
            yield svg.circle(x + 4, height, 4, fill=color)
        yield svg.text(x + 14, height + 4, short, font_size=12)


def _slopes(
    series: Series, dtype: str, heights: Sequence[float], across: svg.Scale, up: svg.Scale
) -> Iterator[str]:
    """Lines ∝ √n and ∝ n through the first contestant's middle point, where they help to read its
    slope: none beside magnitudes and errors that do not grow, one where they grow like it."""
    points = [m for m in series.of(series.contestants[0], dtype) if m.rms > 0.0]
    slope = slope_of(points)
    if series.vary.name == SCALE or len(points) < 3 or not slope > FLAT:
        return
    middle = points[len(points) // 2]
    guides = ((0.5, "√n"), (1.0, "n"))
    near = [guide for guide in guides if abs(guide[0] - slope) <= NEAR]
    for power, label in near[:1] or guides:
        ends = [(m.value, middle.rms * (m.value / middle.value) ** power) for m in points]
        ends = [(x, y) for x, y in ends if min(heights) <= y <= max(heights)]
        if len(ends) >= 2:
            places = [(across(x), up(y)) for x, y in (ends[0], ends[-1])]
            yield svg.path(places, class_="slope")
            x, y = places[0]
            yield svg.text(x + 2, y - 6, label, class_="muted", font_size=11)


def _strip(series: Series, across: svg.Scale, top: float) -> Iterator[str]:
    """The fraction of elements that differ from the first contestant, in the first dtype."""
    first, dtype = series.contestants[0], series.dtypes[0]
    words = f"elements whose bits differ from {first}, {dtype}"
    yield svg.text(LEFT, top - 8, words, class_="muted")
    ticks = [(top + STRIP * (1.0 - share), f"{share:.0%}") for share in (0.0, 0.5, 1.0)]
    yield from svg.y_axis(ticks, LEFT, WIDTH - RIGHT, class_="muted")
    for number, contestant in enumerate(series.contestants[1:], start=1):
        places = [
            (across(m.value), top + STRIP * (1.0 - m.differing))
            for m in series.of(contestant, dtype)
            if m.differing >= 0.0
        ]
        if places:
            yield svg.path(places, class_="line", stroke_width=1.8, stroke=_color(number))


def _sizes(series: Series, across: svg.Scale) -> list[tuple[float, str]]:
    """Powers of two along the axis of sizes."""
    values = [m.value for m in series.measurements]
    low, high = math.ceil(math.log2(min(values))), math.floor(math.log2(max(values)))
    powers = range(low, high + 1, max((high - low) // 10, 1))
    return [(across(2.0**power), f"{2.0**power:g}") for power in powers]


def _reason(points: Sequence[Measurement]) -> str:
    return next((m.reason for m in points if m.reason), "every result is exact")


def _color(number: int) -> str:
    return svg.COLORS[number % len(svg.COLORS)]
