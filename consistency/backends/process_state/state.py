"""One piece of global state: its name, how it is read, and how it is set back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LONGEST = 80  # characters of a value in a sentence


def shown(value: Any) -> str:
    """A value in a sentence; never raises."""
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def from_to(before: Any, after: Any) -> str:
    """``torch.float32 → torch.float64``."""
    return f"{shown(before)} → {shown(after)}"


@dataclass(frozen=True, slots=True)
class State:
    """A piece of global state, under the ``name`` by which users know it.

    ``read`` returns a value that later changes leave alone, in less than a microsecond; ``write``
    sets such a value. ``told`` says in words how two values differ; an empty text means that the
    difference is restored and blames nobody. ``implied``: other states contain this one, so it is
    told only where none of them differs.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    told: Callable[[Any, Any], str] = from_to
    implied: bool = False
