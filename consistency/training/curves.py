"""A quantity over the steps of a training, on every backend, with the band: what rounding alone
would do. SVG, drawn by classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..core import svg
from ..core.text import format_factor
from .findings import Curve

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 62, 14, 12, 34
COLORS = 8  # classes s0 … s7 of the style


def picture(curves: Sequence[tuple[str, Curve]]) -> str:
    """The distances of all backends for one quantity: two logarithmic axes would hide the first
    steps, so only one is."""
    first = curves[0][1]
    heights = [h for _, c in curves for h in (*c.distance, *c.band) if 0.0 < h < math.inf]
    if len(first.steps) < 2 or not heights:
        return ""
    up = svg.log_scale(heights, HEIGHT - BOTTOM, TOP)
    low, high = first.steps[0], first.steps[-1]

    across = svg.linear_scale(low, high, LEFT, WIDTH - RIGHT)
    parts = [*_axes(heights, low, high, across, up), *_band(first, across, up)]
    for number, (_, curve) in enumerate(curves):
        places = [
            (across(s), up(d))
            for s, d in zip(curve.steps, curve.distance, strict=True)
            if 0.0 < d < math.inf
        ]
        if places:
            # A first one of several is wide and pale: seen where another one covers it.
            under = " under" if number == 0 and len(curves) > 1 else ""
            parts.append(svg.path(places, class_=f"line{under} s{number % COLORS}"))
        if curve.leaves:
            distance = dict(zip(curve.steps, curve.distance, strict=True))[curve.leaves]
            y = up(distance) if 0.0 < distance < math.inf else TOP
            place = across(curve.leaves), y
            parts.append(svg.circle(*place, 5, class_=f"leaves s{number % COLORS}"))
    names = "; ".join(f"{name}: {described(curve)}" for name, curve in curves)
    return svg.inline(f"{first.name}: {names}", WIDTH, HEIGHT, parts, class_="curve")


def described(curve: Curve) -> str:
    """``at most 0.12 × the band`` or ``leaves the band at step 3``."""
    if curve.leaves:
        return f"leaves the band at step {curve.leaves}"
    worst = max(
        (d / b if b else 0.0 for d, b in zip(curve.distance, curve.band, strict=True)), default=0.0
    )
    return f"at most {format_factor(worst)} × the band"


def _band(curve: Curve, across: svg.Scale, up: svg.Scale) -> Iterator[str]:
    places = [
        (across(s), max(up(b), TOP) if b < math.inf else TOP)
        for s, b in zip(curve.steps, curve.band, strict=True)
        if b > 0.0
    ]
    if places:
        floor = HEIGHT - BOTTOM
        corners = [(places[0][0], floor), *places, (places[-1][0], floor)]
        yield svg.path(corners, "Z", class_="band")
        yield svg.path(places, class_="edge")


def _axes(
    heights: Sequence[float], low: int, high: int, across: svg.Scale, up: svg.Scale
) -> Iterator[str]:
    powers = svg.decades(min(heights), max(heights), 5)
    heads = [(1, power) for power in powers]
    if len(heads) < 2:  # within a decade or two
        heads = [
            (head, power)
            for power in range(powers.start - 1, powers.stop + 1)
            for head in (1, 2, 5)
        ]
    ticks = [(up(head * 10.0**power), f"{head}e{power}") for head, power in heads]
    shown = [(y, label) for y, label in ticks if TOP <= y <= HEIGHT - BOTTOM]
    yield from svg.y_axis(shown, LEFT, WIDTH - RIGHT, gap=6)
    count = min(high - low, 5)
    for step in sorted({round(low + (high - low) * i / max(count, 1)) for i in range(count + 1)}):
        anchor = "end" if step == high else "middle" if step > low else "start"
        yield svg.text(across(step), HEIGHT - BOTTOM + 17, str(step), text_anchor=anchor)
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield svg.text(middle, HEIGHT - 2, "step", class_="title", text_anchor="middle")
