"""Charts of a quantity over the steps of a training, on every backend, with the band of
rounding. SVG, styled by classes."""

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
    values = [h for _, c in curves for h in (*c.distance, *c.band) if 0.0 < h < math.inf]
    if len(first.steps) < 2 or not values:
        return ""
    up = svg.log_scale(values, HEIGHT - BOTTOM, TOP)
    low, high = first.steps[0], first.steps[-1]

    across = svg.linear_scale(low, high, LEFT, WIDTH - RIGHT)
    parts = [*_axes(values, low, high, across, up), *_band(first, across, up)]
    for number, (_, curve) in enumerate(curves):
        points = [
            (across(s), up(d))
            for s, d in zip(curve.steps, curve.distance, strict=True)
            if 0.0 < d < math.inf
        ]
        if points:
            # The first of several is wide and pale: visible under the others.
            under = " under" if number == 0 and len(curves) > 1 else ""
            parts.append(svg.path(points, class_=f"line{under} s{number % COLORS}"))
        if curve.leaves:
            distance = dict(zip(curve.steps, curve.distance, strict=True))[curve.leaves]
            y = up(distance) if 0.0 < distance < math.inf else TOP
            position = across(curve.leaves), y
            parts.append(svg.circle(*position, 5, class_=f"leaves s{number % COLORS}"))
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
    points = [
        (across(s), max(up(b), TOP) if b < math.inf else TOP)
        for s, b in zip(curve.steps, curve.band, strict=True)
        if b > 0.0
    ]
    if points:
        floor = HEIGHT - BOTTOM
        corners = [(points[0][0], floor), *points, (points[-1][0], floor)]
        yield svg.path(corners, "Z", class_="band")
        yield svg.path(points, class_="edge")


def _axes(
    values: Sequence[float], low: int, high: int, across: svg.Scale, up: svg.Scale
) -> Iterator[str]:
    powers = svg.decades(min(values), max(values), 5)
    heads = [(1, power) for power in powers]
    if len(heads) < 2:  # within two decades
        heads = [
            (head, power)
            for power in range(powers.start - 1, powers.stop + 1)
            for head in (1, 2, 5)
        ]
    ticks = [(up(head * 10.0**power), f"{head}e{power}") for head, power in heads]
    visible = [(y, label) for y, label in ticks if TOP <= y <= HEIGHT - BOTTOM]
    yield from svg.y_axis(visible, LEFT, WIDTH - RIGHT, gap=6)
    count = min(high - low, 5)
    for step in sorted({round(low + (high - low) * i / max(count, 1)) for i in range(count + 1)}):
        anchor = "end" if step == high else "middle" if step > low else "start"
        yield svg.text(across(step), HEIGHT - BOTTOM + 17, str(step), text_anchor=anchor)
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield svg.text(middle, HEIGHT - 2, "step", class_="title", text_anchor="middle")
