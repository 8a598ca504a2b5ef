"""What the cases of each operator reach, in words: the table of ``operators --coverage``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...engine.case_reach import Reach
    from ...engine.coverage import Coverage

FEW = 40  # operators that are shown one by one; the page and --json have all


def summary(found: Coverage) -> Iterator[str]:
    """Totals, then a line for each operator if they are few."""
    if not found.reach:
        return
    counts = ", ".join(f"{count} {word}" for word, count in found.reaching().items())
    yield f"{len(found.overloads):>5} overloads of aten reached"
    yield f"      operators whose cases reach each class of values: {counts}"
    for direction in ("forward", "backward"):
        noticed, shown = found.noticed(direction)
        if shown:
            yield (
                f"{noticed / shown:>5.0%} of the faults planted {direction} are noticed by the "
                f"shipped cases ({noticed:,} of {shown:,})"
            )
    if len(found.reach) > FEW:
        return
    width = max(len(r.operator) for r in found.reach)
    yield f"{'':{width}}  longest  elements  overloads  noticed forward/backward  values"
    for r in found.reach:
        shares = f"{_percent(r, 'forward')}/{_percent(r, 'backward')}"
        yield (
            f"{r.operator:{width}}  {r.largest_dimension:>7,}  {r.elements:>8,}  "
            f"{len(r.overloads):>9}  {shares:>24}  {', '.join(r.values) or '–'}"
        )


def table(found: Coverage) -> Iterator[str]:
    """The section of the page."""
    if not found.reach:
        return
    yield from ("", "## What the cases of a quick run reach", "")
    yield (
        "Classes of values among floating inputs (*extreme*: within a factor of 256 of the ends of "
        "the normal numbers), the longest dimension and"
    )
    yield (
        "the elements of the largest tensor, overloads of aten, and which share of the planted "
        "faults that its drawn cases can show is noticed by"
    )
    yield (
        "the shipped cases that were chosen for that, forward and backward "
        "([adequacy](adequacy.md)); those that were added later are not counted."
    )
    yield from ("", "| operator | values | longest | elements | overloads | noticed |")
    yield "|---|---|---|---|---|---|"
    for r in found.reach:
        shares = " / ".join(_percent(r, d) for d in ("forward", "backward") if d in r.noticed)
        yield (
            f"| `{r.operator}` | {', '.join(r.values) or '–'} | {r.largest_dimension:,} | "
            f"{r.elements:,} | {len(r.overloads)} | {shares or '–'} |"
        )


def _percent(found: Reach, direction: str) -> str:
    share = found.share(direction)
    return "–" if share is None else f"{share:.0%}"
