"""What is told about a run beside its table and failures, on the terminal and on the page alike."""

from __future__ import annotations

from ..core.text import pluralize
from ..diagnose import determinism, precision_scaling
from ..generate.calls.generic_error import GENERIC
from .summary import RunSummary

MOST_GENERIC = 12
MOST_FAMILIES = 8


def not_reached(summary: RunSummary) -> list[str]:
    """What a run that ended by time did not begin, by family, the most of it first."""
    counts = {family: len(pairs) for family, pairs in summary.unbegun_by_family.items()}
    if not counts:
        return []
    ordered = sorted(counts, key=lambda family: (-counts[family], family))
    shown = [f"{family} {counts[family]:,}" for family in ordered[:MOST_FAMILIES]]
    more = len(ordered) - MOST_FAMILIES
    shown += [f"{pluralize(more, 'more family', 'more families')}"] if more > 0 else []
    return [f"not begun, in operators × dtypes: {', '.join(shown)}"]


def repeated(summary: RunSummary) -> list[str]:
    """Lines on determinism and memory growth; empty if neither was tested."""
    return [*determinism.summary(summary.repeated), *summary.leaks()]


def notes(summary: RunSummary) -> list[str]:
    """Further notes about a run, one line each."""
    return [
        text
        for text in (
            precision_scaling.summary(summary.scalings),
            summary.inconclusive_shares(),
            summary.not_looked_into(),
            _generic(summary),
        )
        if text
    ]


def _generic(summary: RunSummary) -> str:
    """The operators without a declaration, which are judged by a generic error model."""
    names = dict.fromkeys(
        name for cell in summary.cells.get(GENERIC, {}).values() for name in cell.operators
    )
    more = f" and {len(names) - MOST_GENERIC} more" if len(names) > MOST_GENERIC else ""
    return (
        (
            f"judged by a generic error model, as they have no declaration: "
            f"{', '.join(list(names)[:MOST_GENERIC])}{more}"
        )
        if names
        else ""
    )
