"""Lines of × budget over the nights as SVG: a step per level, so that what repeats exactly takes
next to no room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .change_points import Line, Turn
from .series import Environment

WIDTH, HEIGHT, LEFT, BOTTOM = 1000, 190, 46, 22
TOP = 14
PER_DECADE = math.log2(10.0)
NEAR = 0.004  # of the height: smaller steps are not drawn
MOST_POINTS = 420


@dataclass(frozen=True, slots=True)
class Picture:
    """What a template draws: the paths and marks of one line over the nights, in units of a box of
    ``width`` × ``height``."""

    width: int
    height: int
    middle: str
    largest: str
    budget: float | None
    ticks: Sequence[tuple[float, str]]
    nights: Sequence[tuple[float, str]]
    marks: Sequence[dict[str, Any]]
    failing: Sequence[tuple[float, float]]
    words: str


def picture(environment: Environment, line: Line, turns: Sequence[Turn]) -> Picture:
    """Median and largest × budget of the cases of a group, on a logarithmic axis, with what
    changed."""
    low, high = _range(line)
    nights = len(environment.nights)

    def x(night: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 8) * (night / max(nights, 1)), 1)

    def y(octaves: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - octaves) / (high - low), 1)

    first, last = math.ceil(low / PER_DECADE), math.floor(high / PER_DECADE)
    step = max((last - first) // 5 + 1, 1)
    ticks = [(y(d * PER_DECADE), _power(d)) for d in range(first, last + 1) if d % step == 0]
    names = [(x(i + 0.5), environment.nights[i].name) for i in _spread(nights)]
    marks = [
        {"x": x(turn.night), "kind": turn.kind,
         "words": f"{environment.nights[turn.night].name}: {turn.kind}",
         "regression": turn.regression}
        for turn in turns
    ]  # fmt: skip
    told = (
        f"× budget on {nights} nights, from {environment.nights[0].name} to "
        f"{environment.nights[-1].name}; {len(turns)} changes"
    )
    return Picture(
        WIDTH, HEIGHT, _path(line.middle, x, y), _path(line.largest, x, y),
        y(0.0) if low <= 0.0 <= high else None, ticks,
        names, marks,
        [(x(a), round(x(b) - x(a), 1)) for a, b in _stretches(line.failing > 0)], told,
    )  # fmt: skip


def small(line: Line) -> str:
    """The path of the largest × budget in a box of 120 × 24, the budget at a third of the
    height."""
    nights = len(line.largest)

    def x(night: float) -> float:
        return round(120.0 * night / max(nights, 1), 1)

    def y(octaves: float) -> float:
        return round(8.0 - octaves * (8.0 / 20.0 if octaves > 0 else 1.6), 1)

    return _path(np.clip(line.largest, -9.0, 18.0), x, y)


def _range(line: Line) -> tuple[float, float]:
    known = np.concatenate([line.middle, line.largest])
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
    wide = len(known) > MOST_POINTS
    before, height = -10, math.nan
    for night in known.tolist() if not wide else known[:: len(known) // MOST_POINTS + 1].tolist():
        here = y(float(values[night]))
        if night - before > 3 + wide * 3:
            if pieces:
                pieces.append(f"H{x(before + 1):g}")
            pieces.append(f"M{x(night):g} {here:g}")
            height = here
        elif abs(here - height) > NEAR * HEIGHT:
            pieces.append(f"H{x(night):g}V{here:g}")
            height = here
        before = night
    return "".join([*pieces, f"H{x(before + 1):g}"])


def _stretches(holds: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)][:80]


def _spread(nights: int) -> list[int]:
    many = min(nights, 5)
    return sorted({round(i * (nights - 1) / max(many - 1, 1)) for i in range(many)})


def _power(decade: int) -> str:
    return f"{10.0**decade:g}" if -4 <= decade <= 5 else f"1e{decade}"
