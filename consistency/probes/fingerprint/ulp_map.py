"""SVG chart of a function's largest error against the exponent of its argument, for positive and
negative arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...core import svg
from ..sweep.chart import GAP, LEFT, PANEL, RIGHT, TOP, WIDTH
from .exhaustive import Bin, ExhaustiveComparison

_LOW, _HIGH = 0.4, 1.05  # ulp; more where errors are larger
_SIDES = (("positive arguments", False), ("negative arguments", True))


def ulp_chart(found: ExhaustiveComparison) -> str:
    """One SVG document."""
    ordered = sorted(found.bins.values(), key=lambda b: b.head)
    sides = [
        (title, [b for b in ordered if b.negative == negative and b.power < 128])
        for title, negative in _SIDES
    ]
    sides = [(title, bins) for title, bins in sides if bins]
    height = TOP + max(len(sides), 1) * (PANEL + GAP) + 12
    name = f"{found.function} · float32 · {found.backend}"
    described = (
        f"largest error in ulp by the exponent of the argument: {found.ulp:.4g} ulp, of "
        f"{found.inputs:,} inputs"
    )
    parts = [
        svg.text(LEFT, 26, name, class_="title"),
        svg.text(LEFT, 46, f"{described} · pale: all correctly rounded", class_="muted"),
    ]
    for number, (title, bins) in enumerate(sides):
        parts += _panel(title, bins, TOP + number * (PANEL + GAP), svg.COLORS[number])
    return svg.document(name, described, WIDTH, height, parts)


def _panel(title: str, bins: list[Bin], top: float, color: str) -> Iterator[str]:
    largest = max(_HIGH, max(b.ulp for b in bins) * 1.2)
    powers = [b.power for b in bins]
    first, last = min(powers) - 0.5, max(powers) + 1.5
    across = svg.linear_scale(first, last, LEFT, WIDTH - RIGHT)
    step = (WIDTH - LEFT - RIGHT) / (last - first)

    def y_of(ulp: float) -> float:
        share = (math.log(ulp) - math.log(_LOW)) / (math.log(largest) - math.log(_LOW))
        return top + PANEL * (1.0 - min(max(share, 0.0), 1.0))

    ticks = [(y_of(ulp), f"{ulp:g}") for ulp in _ticks(largest)]
    yield from svg.y_axis(ticks, LEFT, WIDTH - RIGHT, class_="muted")
    tick_step = next(n for n in (1, 2, 4, 8, 16, 32, 64) if len(set(powers)) / n <= 16)
    for power in range(min(powers), max(powers) + 1):
        if power % tick_step == 0:
            x, y = across(power + 0.5), top + PANEL + 17
            yield svg.text(x, y, f"2^{power}", text_anchor="middle", class_="muted")
    for b in bins:
        y, width = y_of(b.ulp), max(step - 0.4, 0.6)
        misrounded = f"{b.misrounded:,} of {b.inputs:,} not correctly rounded"
        tip = f"2^{b.power}: {b.ulp:.4g} ulp, {misrounded}"
        pale = 0.35 if b.ulp <= 0.5 else None
        yield svg.rect(across(b.power), y, width, y_of(_LOW) - y, tip, fill=color, opacity=pale)
    yield svg.text(WIDTH - RIGHT, top - 8, title, text_anchor="end", class_="strong")


def _ticks(largest: float) -> Iterator[float]:
    if largest < 2.0:
        yield from (tick for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5) if tick < largest)
        return
    value = 0.5
    while value < largest:
        yield value
        value *= 2.0 if largest < 300.0 else 10.0
