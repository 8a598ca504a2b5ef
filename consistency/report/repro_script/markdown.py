"""Escape untrusted text in Markdown: it cannot end a fence, a table or a line, and cannot be HTML
or a mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...core.text import printable

_PUNCTUATION = re.compile(r"([\\`*_\[\]<>|~#&!$])")
_TICKS = re.compile(r"`+")
_NOBODY = "@\N{ZERO WIDTH SPACE}"  # prevents a mention


def line(text: str, most: int = 600) -> str:
    """One line, without control characters, at most ``most`` characters long."""
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def prose(text: str, most: int = 600) -> str:
    """Text in a sentence or a cell, with all markup escaped."""
    return _PUNCTUATION.sub(r"\\\1", line(text, most)).replace("@", _NOBODY)


def code(text: str, most: int = 600) -> str:
    """Text as a code span, also in tables."""
    flat = line(text, most)
    fence = "`" * (max((len(run) for run in _TICKS.findall(flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def block(text: str, language: str = "") -> str:
    """Text as a fenced block, whose fence is longer than any in the text."""
    fence = "`" * max(3, max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table(rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown."""
    (first, *rest) = [[cell.replace("\n", " ") for cell in row] for row in rows]
    lines = ["| " + " | ".join(first) + " |", "|" + "---|" * len(first)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rest)])


def cell(text: str) -> str:
    """A code span in a table, with bars escaped."""
    return code(text, 200).replace("|", "\\|")
