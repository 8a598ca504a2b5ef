"""The bounds of cases from elsewhere, and whether this process is one that runs them.

A process that was started for foreign cases (:mod:`consistency.cli.supervision`) finds the bounds
in its environment, as do the processes that it starts. Needs neither torch nor NumPy.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass

VARIABLE = "CONSISTENCY_FOREIGN"  # of a process that runs foreign cases: BYTES,SECONDS
MAX_BYTES, MAX_SECONDS = 10**9, 10.0
TRUST = "--trust"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a case from elsewhere may take: bytes of memory, and seconds."""

    bytes: int = MAX_BYTES
    seconds: float = MAX_SECONDS

    def __str__(self) -> str:
        return f"{self.bytes / 1e9:g} GB and {self.seconds:g} s"

    @property
    def variable(self) -> dict[str, str]:
        """The environment of a process for foreign cases."""
        return {VARIABLE: f"{self.bytes},{self.seconds:g}"}

    @property
    def sentence(self) -> str:
        """``a case from elsewhere may take 1 GB and 10 s; if you trust it, add --trust``."""
        return f"a case from elsewhere may take {self}; if you trust it, add {TRUST}"


@contextlib.contextmanager
def bounded(bounds: Bounds) -> Iterator[None]:
    """Within the block this process runs foreign cases, as do the processes that it starts."""
    before = os.environ.get(VARIABLE)
    os.environ |= bounds.variable
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> Bounds:
    count, _, seconds = text.partition(",")
    try:
        return Bounds(int(count), float(seconds))
    except ValueError:
        return Bounds()


def active() -> Bounds | None:
    """The bounds if this process runs foreign cases, else None."""
    text = os.environ.get(VARIABLE)
    return _parsed(text) if text else None
