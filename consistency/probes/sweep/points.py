"""The values of a sweep: ``K=1..4096``, ``K=1..4096:64``, ``K=1,8,384`` or
``scale=2^-20..2^20``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ...errors import UsageError

POINTS = 48
MOST_POINTS = 4096
_SPAN = re.compile(r"(?P<low>[^.,:]+(?:\.\d+)?)\.\.(?P<high>[^,:]+?)(?::(?P<step>\d+))?")
_POWER = re.compile(r"(-?\d+(?:\.\d+)?)\^(-?\d+)")


@dataclass(frozen=True)
class Vary:
    """A name and its values in rising order."""

    name: str
    values: tuple[float, ...]


def parse_vary(text: str, count: int = POINTS) -> Vary:
    """Parse ``--vary``. Raises UsageError.

    A range gives about ``count`` values on a logarithmic scale; if both ends are integers, the
    values are, too, and include multiples of 64 and their successors (where blocks of a vectorized
    sum end). ``:STEP`` gives a linear scale.
    """
    name, equals, values = text.partition("=")
    name, values = name.strip(), values.strip()
    if not equals or not name.isidentifier() or not values:
        raise UsageError(
            f"--vary {text!r:.60}: write NAME=LOW..HIGH, NAME=LOW..HIGH:STEP or NAME=1,8,384"
        )
    span = _SPAN.fullmatch(values)
    if span is None:
        points = sorted({_number(part, text) for part in values.split(",")})
    else:
        low, high = _number(span["low"], text), _number(span["high"], text)
        if not 0.0 < low < high:
            raise UsageError(
                f"--vary {text!r:.60}: {span['low']} is not above 0 and below {span['high']}"
            )
        if span["step"] is not None:
            step = int(span["step"])
            if step < 1:
                raise UsageError(f"--vary {text!r:.60}: a step of {step} goes nowhere")
            points = [
                low + i * step for i in range(min(int((high - low) / step) + 1, MOST_POINTS + 1))
            ]
        else:
            points = _logarithmic(low, high, count)
    if len(points) > MOST_POINTS:
        raise UsageError(f"--vary {text!r:.60}: more than {MOST_POINTS} values; give a larger step")
    if any(not 0.0 < value < math.inf for value in points):
        raise UsageError(f"--vary {text!r:.60}: every value is a number above 0")
    return Vary(name, tuple(points))


def _number(text: str, option: str) -> float:
    power = _POWER.fullmatch(text.strip())
    try:
        return float(power[1]) ** int(power[2]) if power else float(text)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageError(
            f"--vary {option!r:.60}: {text.strip()!r:.40} is no number (2^-20 and 1e-6 are)"
        ) from None


def _logarithmic(low: float, high: float, count: int) -> list[float]:
    steps = max(count - 1, 1)
    points = [low * (high / low) ** (i / steps) for i in range(steps + 1)]
    if low != int(low) or high != int(high):
        return points
    integers = {round(value) for value in points}
    blocks = [b for b in range(64, int(high) + 1, 64) if b >= low and (b % 128 == 0 or b < 512)]
    thin = max(len(blocks) * 2 // max(count, 1), 1)
    integers |= {n for b in blocks[::thin] for n in (b, b + 1) if low <= n <= high}
    return [float(n) for n in sorted(integers)]
