"""Text that is safe where it goes: on a terminal, and in a shell."""

from __future__ import annotations

import os
import shlex


def printable(text: str) -> str:
    """``text`` without what could move a terminal's cursor, colour it or break its encoding."""
    if text.isprintable():
        return text
    return "".join(
        c
        if c.isprintable() or c in "\n\xa0"
        else " "
        if c.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def quote(text: str) -> str:
    """``text`` as one argument of this platform's usual shell."""
    if os.name != "nt":
        return shlex.quote(text)
    return (
        text if text and not set(text) & set(' "&|<>^%') else '"' + text.replace('"', '\\"') + '"'
    )
