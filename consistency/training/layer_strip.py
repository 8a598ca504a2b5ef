"""Layers × steps as one picture: where and when a backend leaves the band of rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..core import svg
from ..core.text import format_factor, one_line
from .findings import Layer

ROWS, COLUMNS = 40, 80  # layers; ranges of steps
WIDTH, NAMES, ROW, TOP, BOTTOM = 1200, 210, 14, 6, 22
# Upper ends of × the band, and the classes of their colors.
SHADES = ((0.1, "h0"), (0.3, "h1"), (0.6, "h2"), (1.0, "h3"), (10.0, "h4"), (1000.0, "h5"))
MAX_NAME = 32  # characters


def strip(layers: Sequence[Layer], backend: str) -> str:
    """A cell for each layer and step with its largest distance, × the band; of many layers those
    with the largest, of many steps ranges with their largest. Empty without two steps."""
    steps = sorted({step for layer in layers for step, _ in layer.by_step})
    worst = sorted(layers, key=lambda layer: -layer.worst)[:ROWS]
    chosen = [layer for layer in layers if layer in worst and layer.by_step]
    if len(steps) < 2 or not chosen:
        return ""
    size = math.ceil(len(steps) / COLUMNS)
    ranges = [steps[start : start + size] for start in range(0, len(steps), size)]
    height = TOP + ROW * len(chosen) + BOTTOM
    first = min((layer.first for layer in chosen if layer.first), default=0)
    told = f"the first distance above the band is in step {first}" if first else "all in the band"
    words = f"{len(chosen)} layers × {len(steps)} steps on {one_line(backend, 80)}: {told}"
    return svg.inline(words, WIDTH, height, _cells(chosen, ranges), class_="strip-of-layers")


def _cells(layers: Sequence[Layer], ranges: Sequence[Sequence[int]]) -> Iterator[str]:
    across = svg.linear_scale(0, len(ranges), NAMES, WIDTH)
    width = across(1) - across(0)
    for row, layer in enumerate(layers):
        y, distances = TOP + ROW * row, dict(layer.by_step)
        name = one_line(layer.name or "(the model)", 200)
        label = name if len(name) <= MAX_NAME else f"…{name[1 - MAX_NAME :]}"
        yield svg.text(NAMES - 8, y + ROW - 4, label, text_anchor="end")
        for column, steps in enumerate(ranges):
            found = [distances[step] for step in steps if step in distances]
            if not found:
                continue
            when = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
            yield svg.rect(
                across(column), y, max(width - (1.0 if width > 4.0 else 0.0), 0.5), ROW - 2,
                tip=f"{name}, {when}: {_size(max(found))} × the band", class_=shade(max(found)),
            )  # fmt: skip
    end = TOP + ROW * len(layers) + 14
    yield svg.text(NAMES, end, f"step {ranges[0][0]}")
    yield svg.text(WIDTH, end, f"step {ranges[-1][-1]}", text_anchor="end")


def _size(value: float) -> str:
    return format_factor(value) if math.isfinite(value) else "infinitely many"


def shade(value: float) -> str:
    """The class of a distance: blue up to the band, red beyond."""
    return next((name for limit, name in SHADES if value <= limit), "h6")
