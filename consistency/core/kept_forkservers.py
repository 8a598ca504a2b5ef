"""Fork servers that outlive their children for a short time, so that the next run, or the next
process after one that crashed, starts in milliseconds. Imports neither torch nor NumPy."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import interpreter
from .forkserver import ForkServer

IDLE_SECONDS = 30.0
LOOK_SECONDS = 5.0


@dataclass
class _Kept:
    server: ForkServer
    python: str
    environment: dict[str, str]
    used: float  # of time.monotonic()


class KeptForkServers:
    """Fork servers that run ``program`` (the code after :data:`~.interpreter.LOAD`), one for each
    interpreter (``python``) and environment that is in use; of those without children, those that
    were used a short time ago, until another one is started. Several threads may ask."""

    def __init__(self, program: str) -> None:
        self._program = interpreter.LOAD + program
        self._kept: list[_Kept] = []
        self._lock = threading.Lock()
        self._retiring: threading.Thread | None = None
        atexit.register(self.close)

    def prepare(self, python: str, environment: Mapping[str, str]) -> None:
        """Start the server for an environment. Raises OSError if the interpreter cannot be
        started."""
        with self._lock:
            self._server(python, environment)

    def fork(self, python: str, environment: Mapping[str, str]) -> Any:
        """A process that runs the program, which may still be starting. Raises OSError as
        :meth:`prepare`."""
        with self._lock:
            return self._server(python, environment).fork()

    def close(self) -> None:
        """End all servers; their children find it out by themselves."""
        with self._lock:
            self._end(self._kept)

    def _server(self, python: str, environment: Mapping[str, str]) -> ForkServer:
        for kept in self._kept:
            alike = kept.python == python and kept.environment == environment
            if alike and kept.server.process.poll() is None:
                kept.used = time.monotonic()
                return kept.server
        self._end([kept for kept in self._kept if not kept.server.in_use])
        server = ForkServer(interpreter.command(python, self._program), environment)
        self._kept.append(_Kept(server, python, dict(environment), time.monotonic()))
        if self._retiring is None:
            self._retiring = threading.Thread(target=self._retire, daemon=True)
            self._retiring.start()
        return server

    def _end(self, ended: Sequence[_Kept]) -> None:
        for kept in list(ended):
            self._kept.remove(kept)
            kept.server.close()

    def _retire(self) -> None:
        """End servers that nothing has used for a time, until there is none."""
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                now = time.monotonic()
                for kept in self._kept:
                    if kept.server.in_use:
                        kept.used = now
                self._end([kept for kept in self._kept if now - kept.used > IDLE_SECONDS])
                if not self._kept:
                    self._retiring = None
                    return
