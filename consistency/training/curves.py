"""A quantity over the steps of a training, on every backend, with the band: what rounding alone
would do. SVG, drawn by classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from ..core.text import format_factor
from ..probes.sweep.chart import Scale, decades, logarithmic, path
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
    up = logarithmic(heights, HEIGHT - BOTTOM, TOP)
    low, high = first.steps[0], first.steps[-1]

    def across(step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (step - low) / max(high - low, 1)

    parts = [*_axes(heights, low, high, across, up), *_band(first, across, up)]
    for number, (_, curve) in enumerate(curves):
        places = [
            (across(s), up(d))
            for s, d in zip(curve.steps, curve.distance, strict=True)
            if 0.0 < d < math.inf
        ]
        if places:
            under = (
                " under" if number == 0 and len(curves) > 1 else ""
            )  # seen where another one covers it
            parts.append(f'<path class="line{under} s{number % COLORS}" d="{path(places)}"/>')
        if curve.leaves:
            there = dict(zip(curve.steps, curve.distance, strict=True))[curve.leaves]
            y = up(there) if 0.0 < there < math.inf else TOP
            parts.append(
                f'<circle class="leaves s{number % COLORS}" cx="{across(curve.leaves):.1f}" '
                f'cy="{y:.1f}" r="5"/>'
            )
    names = "; ".join(f"{name}: {described(curve)}" for name, curve in curves)
    head = (
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(first.name)}: {escape(names)}">'
    )
    return "\n".join([head, *parts, "</svg>"])


def described(curve: Curve) -> str:
    """``at most 0.12 × the band`` or ``leaves the band at step 3``."""
    if curve.leaves:
        return f"leaves the band at step {curve.leaves}"
    worst = max(
        (d / b if b else 0.0 for d, b in zip(curve.distance, curve.band, strict=True)), default=0.0
    )
    return f"at most {format_factor(worst)} × the band"


def _band(curve: Curve, across: Scale, up: Scale) -> Iterator[str]:
    places = [
        (across(s), max(up(b), TOP) if b < math.inf else TOP)
        for s, b in zip(curve.steps, curve.band, strict=True)
        if b > 0.0
    ]
    if places:
        floor = HEIGHT - BOTTOM
        yield (
            f'<path class="band" '
            f'd="{path([(places[0][0], floor), *places, (places[-1][0], floor)])}Z"/>'
        )
        yield f'<path class="edge" d="{path(places)}"/>'


def _axes(heights: Sequence[float], low: int, high: int, across: Scale, up: Scale) -> Iterator[str]:
    powers = decades(min(heights), max(heights), 5)
    heads = [(1, power) for power in powers]
    if len(heads) < 2:  # within a decade or two
        heads = [
            (head, power)
            for power in range(powers.start - 1, powers.stop + 1)
            for head in (1, 2, 5)
        ]
    for head, power in heads:
        y = up(head * 10.0**power)
        if TOP <= y <= HEIGHT - BOTTOM:
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{head}e{power}</text>'
    count = min(high - low, 5)
    for step in sorted({round(low + (high - low) * i / max(count, 1)) for i in range(count + 1)}):
        anchor = "end" if step == high else "middle" if step > low else "start"
        yield (
            f'<text x="{across(step):.1f}" y="{HEIGHT - BOTTOM + 17}" '
            f'text-anchor="{anchor}">{step}</text>'
        )
    yield (
        f'<text class="title" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 2}" '
        f'text-anchor="middle">step</text>'
    )
