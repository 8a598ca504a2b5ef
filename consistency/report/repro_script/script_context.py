"""The state of a script while it is written: imports, constants, and additional files."""

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
    """No script can show this failure; the text is the reason."""


@dataclass
class Sheet:
    """``constants`` are lines at the top of the module, ``files`` data too long for it, ``notes``
    remarks for readers."""

    modules: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # of ``math``: nan, inf
    constants: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def imports(self) -> Iterator[str]:
        """The imports from the standard library."""
        for name in _ORDER:
            if name in self.modules:
                yield f"import {name}"
        if self.names:
            yield f"from math import {', '.join(sorted(self.names))}"

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
