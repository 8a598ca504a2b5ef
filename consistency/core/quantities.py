"""Times and sizes as people write them: ``90s``, ``5m``, ``2h``; ``512MB``, ``8G``."""

from __future__ import annotations

import re

from ..errors import UsageError

_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([kmg]?)(?:(?<=[kmg])i?b)?")
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LEAST = 1 << 20


def seconds_of(text: str) -> float:
    """``90s``, ``5m`` or ``2h`` in seconds; a number alone is one of seconds. Raises UsageError."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r:.80} is not a time; write 90s, 5m or 2h")
    return float(match[1]) * _SECONDS[match[2]]


def size_in_bytes(text: str) -> int:
    """``8G``, ``8GB`` or ``512M`` in bytes (a kilobyte has 1024). Raises UsageError for anything
    else, and for less than a megabyte."""
    match = _SIZE.fullmatch(text.strip().lower())
    count = int(float(match[1]) * _BYTES[match[2]]) if match else 0
    if count < _LEAST:
        raise UsageError(f"{text!r:.80} is no size of a megabyte or more; write 512MB or 8GB")
    return count
