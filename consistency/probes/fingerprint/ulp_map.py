"""The largest error of a function against the exponent of its argument, as a picture: positive and
negative arguments. SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from ..sweep.chart import COLOURS, GAP, LEFT, PANEL, RIGHT, STYLE, TOP, WIDTH
from .exhaustive import Bin, Result

_LOW, _HIGH = 0.4, 1.05  # ulp; more where errors are larger
_SIDES = (("positive arguments", False), ("negative arguments", True))


def picture(found: Result) -> str:
    """One SVG document."""
    sides = [(title, [b for b in sorted(found.bins.values(),
    key=lambda b: b.head) if b.negative == negative and b.power < 128])
             for title, negative in _SIDES]  # fmt: skip
    sides = [(title, bins) for title, bins in sides if bins]
    height = TOP + max(len(sides), 1) * (PANEL + GAP) + 12
    name = f"{found.function} · float32 · {found.backend}"
    told = (
        f"largest error in ulp by the exponent of the argument: {found.ulp:.4g} ulp, of "
        f"{found.inputs:,} inputs"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">'
    )
    parts = [f"<title>{escape(name)}</title><desc>{escape(told)}</desc><style>{STYLE}</style>"]
    parts.append(f'<text x="{LEFT}" y="26" font-size="17" font-weight="600">{escape(name)}</text>')
    parts.append(
        f'<text x="{LEFT}" y="46" class="m">{escape(told)} · pale: all correctly rounded</text>'
    )
    for number, (title, bins) in enumerate(sides):
        parts += _panel(title, bins, TOP + number * (PANEL + GAP), COLOURS[number])
    return "\n".join([head, *parts, "</svg>", ""])


def _panel(title: str, bins: list[Bin], top: float, colour: str) -> Iterator[str]:
    most = max(_HIGH, max(b.ulp for b in bins) * 1.2)
    powers = [b.power for b in bins]
    first, last = min(powers) - 0.5, max(powers) + 1.5
    step = (WIDTH - LEFT - RIGHT) / (last - first)

    def across(power: float) -> float:
        return LEFT + (power - first) * step

    def up(ulp: float) -> float:
        share = (math.log(ulp) - math.log(_LOW)) / (math.log(most) - math.log(_LOW))
        return top + PANEL * (1.0 - min(max(share, 0.0), 1.0))

    for ulp in _ticks(most):
        y = up(ulp)
        yield f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="m">{ulp:g}</text>'
    every = next(n for n in (1, 2, 4, 8, 16, 32, 64) if len(set(powers)) / n <= 16)
    for power in range(min(powers), max(powers) + 1):
        if power % every == 0:
            x = across(power + 0.5)
            yield (
                f'<text x="{x:.1f}" y="{top + PANEL + 17}" text-anchor="middle" '
                f'class="m">2^{power}</text>'
            )
    for b in bins:
        bottom, y = up(_LOW), up(b.ulp)
        text = (
            f"2^{b.power}: {b.ulp:.4g} ulp, {b.misrounded:,} of {b.inputs:,} not correctly rounded"
        )
        opacity = ' opacity="0.35"' if b.ulp <= 0.5 else ""
        yield (f'<rect x="{across(b.power):.1f}" y="{y:.1f}" width="{max(step - 0.4, 0.6):.1f}" '
        f'height="{bottom - y:.1f}" '
               f'fill="{colour}"{opacity}><title>{escape(text)}</title></rect>')  # fmt: skip
    yield (
        f'<text x="{WIDTH - RIGHT}" y="{top - 8}" text-anchor="end" '
        f'font-weight="600">{escape(title)}</text>'
    )


def _ticks(most: float) -> Iterator[float]:
    if most < 2.0:
        yield from (tick for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5) if tick < most)
        return
    value = 0.5
    while value < most:
        yield value
        value *= 2.0 if most < 300.0 else 10.0
