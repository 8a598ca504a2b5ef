"""A sweep as a picture: error against size on two logarithmic axes, a panel a dtype, and below them
which bits differ. SVG."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from html import escape

from .findings import Finding
from .measure import Measurement, Series

WIDTH, PANEL, STRIP, LEFT, RIGHT, TOP, GAP = 960, 300, 90, 86, 24, 64, 46
LINE, LETTERS = 18, 134  # of the legend: so many letters fit even in a wide font
# Told apart by hue and by lightness (Okabe and Ito), and by their marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
STYLE = """
svg{background:var(--b);color:var(--f);font:13px system-ui,-apple-system,"Segoe UI",sans-serif}
svg{--b:#fff;--f:#1f2328;--g:#d9dde2;--m:#656d76}
@media (prefers-color-scheme:dark){svg{--b:#0d1117;--f:#e6edf3;--g:#30363d;--m:#8d96a0}}
text{fill:var(--f)} .m{fill:var(--m)} .g{stroke:var(--g)}
.r{stroke:var(--m);stroke-dasharray:1 5;fill:none;stroke-linecap:round}
.b{stroke:var(--f);stroke-dasharray:7 4;fill:none} .l{fill:none}
"""
Scale = Callable[[float], float]


def chart(series: Series, found: Sequence[Finding], title: str) -> str:
    """The picture as one SVG document, with a description for those who cannot see it."""
    legends = [_legend(contestant, found) for contestant in series.contestants]
    height = (
        TOP
        + len(series.dtypes) * (PANEL + GAP)
        + (STRIP + GAP)
        + sum(LINE * (len(legend) + 1) + 8 for legend in legends)
        + 6
    )
    parts = list(_parts(series, found, title))
    described = escape(" · ".join(f"{f.dtype}, {f.contestant}: {f.words}" for f in found))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">'
    )
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title><desc>{described}</desc><style>{STYLE}</style>",
            *parts,
            "</svg>",
            "",
        ]
    )


def _parts(series: Series, found: Sequence[Finding], title: str) -> Iterator[str]:
    name = series.vary.name
    across = logarithmic([m.value for m in series.measurements], LEFT, WIDTH - RIGHT)
    yield f'<text x="{LEFT}" y="26" font-size="17" font-weight="600">{escape(title)}</text>'
    fixed = ", ".join(f"{k} = {v:g}" for k, v in series.fixed.items() if k != name)
    yield (
        f'<text x="{LEFT}" y="46" class="m">RMS error against '
        f"{escape(name)}{escape(' · ' + fixed if fixed else '')}</text>"
    )
    top = TOP
    for dtype in series.dtypes:
        yield from _panel(series, dtype, across, top)
        top += PANEL + GAP
    yield from _strip(series, across, top)
    top += STRIP + GAP
    for number, contestant in enumerate(series.contestants):
        yield f'<circle cx="{LEFT + 6}" cy="{top - 4}" r="5" fill="{_colour(number)}"/>'
        yield f'<text x="{LEFT + 18}" y="{top}" font-weight="600">{escape(contestant)}</text>'
        for words in _legend(contestant, found):
            top += LINE
            yield f'<text x="{LEFT + 18}" y="{top}" class="m" font-size="12">{escape(words)}</text>'
        top += LINE + 8


def _legend(contestant: str, found: Sequence[Finding]) -> list[str]:
    """What was found about a contestant, a dtype after the other, in lines that fit."""
    words = [f"{f.dtype}: {f.words}" for f in found if f.contestant == contestant]
    return [line for text in words for line in textwrap.wrap(text, LETTERS)]


def _panel(series: Series, dtype: str, across: Scale, top: float) -> Iterator[str]:
    points = [m for m in series.measurements if m.dtype == dtype]
    heights = [h for m in points for h in (m.rms, m.budget) if h > 0.0 and math.isfinite(h)]
    if not heights:
        yield (
            f'<text x="{LEFT}" y="{top + 40}" class="m">{escape(dtype)}: no error to show '
            f"({escape(_reason(points))})</text>"
        )
        return
    up = logarithmic(heights, top + PANEL, top)
    yield from _axes(series, heights, across, up, top, PANEL)
    yield (
        f'<text x="{WIDTH - RIGHT}" y="{top - 8}" text-anchor="end" '
        f'font-weight="600">{escape(dtype)}</text>'
    )
    first = [
        m
        for m in series.of(series.contestants[0], dtype)
        if m.budget > 0.0 and math.isfinite(m.budget)
    ]
    if first:
        yield f'<path class="b" d="{path([(across(m.value), up(m.budget)) for m in first])}"/>'
        last = first[-1]
        yield (
            f'<text x="{across(last.value) - 4:.1f}" y="{up(last.budget) - 7:.1f}" '
            f'text-anchor="end">budget</text>'
        )
    yield from _slopes(series, dtype, heights, across, up)
    for number, contestant in enumerate(series.contestants):
        places = [(across(m.value), up(m.rms)) for m in series.of(contestant, dtype) if m.rms > 0.0]
        if places:
            width = (
                ' stroke-width="6" opacity="0.35"' if number == 0 else ' stroke-width="1.8"'
            )  # seen where another one covers it
            yield f'<path class="l" stroke="{_colour(number)}"{width} d="{path(places)}"/>'
            yield "".join(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{_colour(number)}"/>'
                for x, y in places
            )


def _slopes(
    series: Series, dtype: str, heights: Sequence[float], across: Scale, up: Scale
) -> Iterator[str]:
    """Lines ∝ √n and ∝ n through the first contestant's middle point."""
    points = [m for m in series.of(series.contestants[0], dtype) if m.rms > 0.0]
    if len(points) < 3:
        return
    middle = points[len(points) // 2]
    for power, label in ((0.5, "√n"), (1.0, "n")):
        ends = [(m.value, middle.rms * (m.value / middle.value) ** power) for m in points]
        ends = [(x, y) for x, y in ends if min(heights) <= y <= max(heights)]
        if len(ends) >= 2:
            yield (
                f'<path class="r" '
                f'd="{path([(across(x), up(y)) for x, y in (ends[0], ends[-1])])}"/>'
            )
            x, y = ends[-1]
            yield (
                f'<text x="{across(x) + 3:.1f}" y="{up(y) + 4:.1f}" class="m" '
                f'font-size="11">{label}</text>'
            )


def _strip(series: Series, across: Scale, top: float) -> Iterator[str]:
    """The share of elements in which a contestant's bits differ from the first one's, in the first
    dtype."""
    first, dtype = series.contestants[0], series.dtypes[0]
    yield (
        f'<text x="{LEFT}" y="{top - 8}" class="m">elements whose bits differ from '
        f"{escape(first)}, {escape(dtype)}</text>"
    )
    for share in (0.0, 0.5, 1.0):
        y = top + STRIP * (1.0 - share)
        yield f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="m">{share:.0%}</text>'
    for number, contestant in enumerate(series.contestants[1:], start=1):
        places = [
            (across(m.value), top + STRIP * (1.0 - m.differing))
            for m in series.of(contestant, dtype)
            if m.differing >= 0.0
        ]
        if places:
            yield (
                f'<path class="l" stroke-width="1.8" stroke="{_colour(number)}" '
                f'd="{path(places)}"/>'
            )


def _axes(
    series: Series, heights: Sequence[float], across: Scale, up: Scale, top: float, tall: float
) -> Iterator[str]:
    for power in decades(min(heights), max(heights), 6):
        y = up(10.0**power)
        yield f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="m">1e{power}</text>'
    values = [m.value for m in series.measurements]
    low, high = math.ceil(math.log2(min(values))), math.floor(math.log2(max(values)))
    for power in range(low, high + 1, max((high - low) // 10, 1)):
        x = across(2.0**power)
        yield f'<line class="g" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + tall}"/>'
        yield (
            f'<text x="{x:.1f}" y="{top + tall + 17}" text-anchor="middle" '
            f'class="m">{2.0**power:g}</text>'
        )


def decades(low: float, high: float, most: int) -> range:
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return range(first, last + 1, max((last - first) // most + ((last - first) % most > 0), 1))


def logarithmic(values: Sequence[float], start: float, end: float) -> Scale:
    low, high = math.log(min(values)), math.log(max(values))
    room = 0.04 * (high - low) or 1.0
    return lambda value: (
        start + (end - start) * (math.log(value) - low + room) / (high - low + 2.0 * room)
    )


def path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _reason(points: Sequence[Measurement]) -> str:
    return next((m.reason for m in points if m.reason), "every result is exact")


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
