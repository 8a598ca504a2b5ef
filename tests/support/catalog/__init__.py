"""A catalog of faulty and of healthy backends, as data: what a judge of numbers must notice, and
what it must leave in peace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from .faults import FAULTS
from .healthy import HEALTHY
from .model import Fault, Healthy, Row

Group = tuple[str, str, tuple[str, ...]]


def groups(rows: Iterable[Row]) -> dict[Group, list[Row]]:
    """Rows by (operator, dtype, directions): they share the cases that are drawn, and the
    references."""
    found: dict[Group, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.operator, row.dtype, row.directions].append(row)
    return dict(found)


__all__ = ["FAULTS", "HEALTHY", "Fault", "Healthy", "Row", "groups"]
