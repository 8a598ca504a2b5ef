"""A script while it is being written: what it imports, what stands at its top, and what lies beside
it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_ORDER = (
    "base64",
    "faulthandler",
    "math",
    "os",
    "pathlib",
    "sys",
    "zlib",
)  # of the standard library; torch comes behind a blank


class UnscriptableError(Exception):
    """No script can show this; the text says why, in words for a person."""


@dataclass
class Sheet:
    """``constants`` are lines of the module's top, ``files`` what does not fit in, ``notes`` what
    readers must know."""

    modules: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # of ``math``: nan, inf
    constants: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def imports(self) -> Iterator[str]:
        """The standard library's part of the imports."""
        for name in _ORDER:
            if name in self.modules:
                yield f"import {name}"
        if self.names:
            yield f"from math import {', '.join(sorted(self.names))}"

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
