"""The edges of elementwise operators, from a file of the package: the numbers at which a result or
its gradient becomes NaN, infinite, zero, subnormal, constant, or equal to the number itself.

``python tools/edges.py`` finds them (:mod:`.edge_search`) and writes the file: they are the same
for everybody, whatever a processor makes of the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.dtypes import FORMATS
from ..core.reading import lines

FILE = Path(__file__).with_name("edges.jsonl")
NUMBERS = 1536  # of a case: 64 around each of 24 edges
Key = tuple[str, str]  # operator, dtype


def edges(operator: str, dtype: str) -> tuple[float, ...]:
    """The edges of an operator in one dtype, in ascending order; none if none are known."""
    return _edges().get((operator, dtype), ())


@functools.cache
def _edges() -> Mapping[Key, tuple[float, ...]]:
    return {
        (row["operator"], row["dtype"]): tuple(map(float, row["edges"])) for _, row in lines(FILE)
    }


@functools.lru_cache(maxsize=1024)
def values(operator: str, dtype: str) -> tuple[Any, ...]:
    """The value class of numbers around all edges, as far on both sides as they are from 0; empty
    if there are no edges."""
    points = edges(operator, dtype)
    if not points:
        return ()
    form = FORMATS[dtype]
    largest = (2.0 - 2.0 ** (1 - form.precision)) * 2.0**form.max_exponent
    low, high = max(2 * min(points), -largest), min(2 * max(points), largest)
    return ("near", min(low, 0.0), max(high, 0.0), *points)
