"""A console that prints what it is given: styles are its own, and a control character in a text,
which a backend or a file may have written, does nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ..core.text import printable


class SafeConsole(Console):
    """Rich's console without markup, emoji codes and guesses at what a text means."""

    def __init__(self, **options: Any) -> None:
        plain = {"highlight": False, "soft_wrap": True, "markup": False, "emoji": False}
        super().__init__(**(plain | options))

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Everything that is printed passes here."""
        for segment in super().render(renderable, options):
            if segment.control is None and not segment.text.isprintable():
                yield Segment(printable(segment.text), segment.style)
            else:
                yield segment
