"""How many planted faults the shipped cases notice, per operator × dtype: measured when the cases
were chosen (``tools/shipped_cases.py``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.model import DIRECTIONS
from ...core.reading import lines
from .cases import Key, path_of

FILE = path_of("adequacy")


@dataclass(frozen=True)
class Adequacy:
    """One operator × dtype. By direction: how many faults were ``noticed`` of those ``shown`` by
    any of its drawn cases, and the names of those that were ``missed``."""

    noticed: Mapping[str, int]
    shown: Mapping[str, int]
    missed: Mapping[str, tuple[str, ...]]


@functools.cache
def measured() -> Mapping[Key, Adequacy]:
    """What was measured, by operator and dtype. Raises BundleError for a damaged file."""
    found = {}
    for _, row in lines(FILE):
        counts = {d: row[d] for d in DIRECTIONS if d in row}
        found[row["operator"], row["dtype"]] = Adequacy(
            {d: noticed for d, (noticed, _) in counts.items()},
            {d: shown for d, (_, shown) in counts.items()},
            {d: tuple(row.get(f"missed {d}", ())) for d in counts},
        )
    return found
