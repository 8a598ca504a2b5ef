"""The table of a run: families of operators × backends, as text without box drawing, so that tools
can process it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..core.text import one_line
from .summary import RunSummary

if TYPE_CHECKING:
    from rich.text import Text

_COLORS = {"passed": "green", "warned": "yellow", "failed": "red", "not tested": "dim"}
_LEGEND = {
    "✓": "✓ worst × budget that passed",
    "!": "! known or ill-conditioned",
    "✗": "✗ operators that fail",
    "(–": "(–n) operators not tested here",
}


def table(summary: RunSummary, backends: Sequence[str]) -> Iterator[Text]:
    """A line of the backends' names, one of each family, and a legend of the signs in use; none
    before the first result."""
    from rich.text import Text

    if not summary.cells:
        return
    column_names = [
        one_line(name) if len(name) <= 30 else f"{one_line(name)[:29]}…" for name in backends
    ]
    cells = {
        one_line(family): [
            row[name].text() if name in row else ("–", "not tested") for name in backends
        ]
        for family, row in summary.cells.items()
    }
    first = max(map(len, cells))
    widths = [
        max(len(name), *(len(row[i][0]) for row in cells.values()))
        for i, name in enumerate(column_names)
    ]
    yield Text(
        " " * first
        + "".join(
            f"   {name:<{width}}" for name, width in zip(column_names, widths, strict=True)
        ).rstrip(),
        "bold",
    )
    for family, row in cells.items():
        line = Text(f"{family:<{first}}")
        for (text, group), width in zip(row, widths, strict=True):
            line.append("   ").append(f"{text:<{width}}", _COLORS[group])
        line.rstrip()
        yield line
    all_text = " ".join(text for row in cells.values() for text, _ in row)
    legend = [words for mark, words in _LEGEND.items() if mark in all_text]
    if legend:
        yield Text(" " * (first + 3) + "   ".join(legend), "dim")
