"""docs/invariances.md: which operators are held to which relation, and why the others are not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from .relations import BATCH, LAYOUT, LENGTH

PAGE = "invariances.md"
_HEAD = """\
# Invariances

For whoever asks where a fault would be seen that float64 on the CPU shares with the tested kernel.

Written by `python tools/invariances.py`, which tried each relation on drawn cases in float64.
What the relations are for: [judging](judging.md). Operators that are derivatives of others
(`vjp.…`, `jvp.…`) are held to a fourth one, without a table: they are the slope of their function.
"""
_TITLES = {
    LAYOUT: (
        "Layout",
        "The same numbers, contiguous and with memory of their own, give the same results.",
    ),
    BATCH: ("Batch", "An item of a batch alone gives the same results as among others."),
    LENGTH: ("Length", "An element alone, or among more of them, gives the same result."),
}


def page(rows: Iterable[Mapping[str, Any]]) -> str:
    """The page as Markdown, from the lines of the file."""
    rows = sorted(rows, key=lambda row: str(row["operator"]))
    lines = [_HEAD, "| relation | operators that are held to it |", "|---|---|"]
    for relation, (title, _) in _TITLES.items():
        held = sum(row[relation] == "" for row in rows)
        lines.append(f"| {title.lower()} | {held} of {len(rows)} |")
    for relation, (title, words) in _TITLES.items():
        reasons: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            if row[relation]:
                reasons[row[relation]].append(f"`{row['operator']}`")
        lines += ["", f"## {title}", "", words, "", "| not held, because it … | operators |"]
        lines.append("|---|---|")
        ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
        lines += [f"| {reason} | {' '.join(names)} |" for reason, names in ordered]
    return "\n".join(lines) + "\n"
