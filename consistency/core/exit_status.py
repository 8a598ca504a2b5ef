"""How a child process ended, as text."""

from __future__ import annotations

import contextlib
import signal

_WINDOWS = {
    0xC0000005: "access violation", 0xC0000409: "stack buffer overrun",
    0xC000001D: "illegal instruction",
    0xC00000FD: "stack overflow", 0xC0000017: "out of memory",
}  # fmt: skip


def death(status: int) -> str:
    """``SIGSEGV``, ``access violation`` or ``exit status 3``."""
    if status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    return _WINDOWS.get(status & 0xFFFFFFFF, f"exit status {status}")
