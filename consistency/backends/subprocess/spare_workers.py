"""Workers that are open before they are needed: a crash then costs no import of a device's package,
no search for adapters and no context of the device.

Of a backend that opens within :data:`QUICK` seconds none is kept: its workers are forked or started
when one is lost. Of one that is known to import a package (DirectML) there are :data:`MOST` from
the start, opening beside the first worker; of any other there is one from the first case on, and
after its first loss :data:`MOST`, because each may hold a context of its device.
Crashes come in rows of that length: an operator that causes more is quarantined.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable

from . import framing
from .process import START_SECONDS, LostError, Worker

QUICK = 0.3  # seconds; what one crash may cost
MOST = 5  # the deaths in a row that put an operator into quarantine


class SpareWorkers:
    """Spares of one backend: ``spawn`` starts a process, which is sent ``opening`` (without a case)
    at once and asked for its reply when it is taken."""

    def __init__(self, spawn: Callable[[], Worker]) -> None:
        self._spawn = spawn
        self._open: deque[Worker] = deque()
        self._wanted = 0

    def expect(self, opening: framing.Header) -> None:
        """A backend that opens slowly and is likely to crash is about to run cases."""
        self._wanted = MOST
        self._fill(opening)

    def opened(self, seconds: float, opening: framing.Header) -> None:
        """A worker was opened, which took so many seconds: keep a spare if that is long."""
        if seconds > QUICK:
            self._wanted = max(self._wanted, 1)
        self._fill(opening)

    def lost(self, opening: framing.Header) -> None:
        """A worker was lost: more losses are likely."""
        if self._wanted:
            self._wanted = MOST
        self._fill(opening)

    def take(self) -> tuple[Worker, framing.Header] | None:
        """The oldest spare and the reply to its opening, awaited if it is not there yet; None if
        there is none that works."""
        while self._open:
            worker = self._open.popleft()
            try:
                reply, _ = worker.reply(time.monotonic() + START_SECONDS)
            except (LostError, framing.WireError, OSError):
                worker.kill()
                continue
            if "wrong" in reply or reply.get("reason") is not None:
                worker.kill()
                continue
            return worker, reply
        return None

    def close(self) -> None:
        while self._open:
            self._open.popleft().kill()
        self._wanted = 0

    def _fill(self, opening: framing.Header) -> None:
        while len(self._open) < self._wanted:
            with contextlib.suppress(OSError):
                worker = self._spawn()
                worker.send(opening)
                self._open.append(worker)
                continue
            return
