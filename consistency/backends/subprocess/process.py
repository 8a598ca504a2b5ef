"""The run's end of a worker: start it, exchange messages without waiting longer than allowed, and
end it.

Three threads per worker keep pipes from filling up: one writes, one reads replies, one keeps the
last output on standard error.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import psutil

from ...core import forkserver, interpreter
from ...core.exit_status import death
from ...core.interpreter import LOAD
from ...core.kept_forkservers import KeptForkServers
from . import framing

START_SECONDS = 180.0  # importing torch takes long on a cold disk with a virus scanner
WAIT_FACTOR = 6.0
LOOK_SECONDS = 0.1  # interval of memory checks while waiting for a reply
_LAST_WORDS = 4096
_FITS = 1 << 15  # bytes; a pipe buffers at least twice as much
_WORK = LOAD + "from consistency.backends.subprocess.worker_main import main\nmain()\n"
_FORKED = KeptForkServers(
    "from consistency.core.forkserver import serve\n"
    "from consistency.backends.subprocess.worker_main import load, main\n"
    "serve(int(sys.argv[2]), load, main)\n"
)
_ALIVE: weakref.WeakSet[Worker] = weakref.WeakSet()


class LostError(Exception):
    """The worker ended or was ended: ``status`` is a verdict (``crash``, ``timeout``), the text
    describes what happened."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class TimeWatch:
    """Called while a worker is waited for: raises LostError when it has computed for ``seconds``
    since the last :meth:`restart`, by both clocks.

    A busy machine takes none of a case's time, and many threads are no misuse; one that waits in
    place of computing is given several times as long.
    """

    def __init__(self, worker: Worker, seconds: float) -> None:
        self._worker, self._seconds = worker, seconds
        self.restart()

    def restart(self) -> None:
        self._began, self._computed = time.monotonic(), self._worker.computed()

    def __call__(self) -> None:
        elapsed = time.monotonic() - self._began
        if elapsed <= self._seconds:
            return
        computed = self._worker.computed() - self._computed
        if computed > self._seconds or elapsed > WAIT_FACTOR * self._seconds:
            raise LostError("timeout", f"took more than {self._seconds:g} s")


class WorkerSource:
    """Starts the workers of one interpreter (``python``) with one environment (``changes`` to ours;
    None removes a variable)."""

    def __init__(self, python: str, changes: Mapping[str, str | None]) -> None:
        self.python = python
        self.environment = interpreter.changed_environment(changes)

    def begin(self) -> Any:
        """A process that is, or will become, a worker. Raises OSError if the interpreter cannot be
        started."""
        if forkserver.USABLE:
            return _FORKED.fork(self.python, self.environment)
        return self.start(_WORK)

    def start(self, program: str) -> Any:
        """A new process that runs ``program`` (:data:`LOAD` and the code after it)."""
        return interpreter.start(self.python, program, self.environment)


class ProgramSource(WorkerSource):
    """Starts processes that run ``program`` (the code after :data:`LOAD`) and exchange frames as
    workers do. ``take`` gives one that was started otherwise, or None."""

    def __init__(
        self,
        python: str,
        changes: Mapping[str, str | None],
        program: str,
        take: Callable[[str, Mapping[str, str]], Any | None] | None = None,
    ) -> None:
        super().__init__(python, changes)
        self._program, self._take = LOAD + program, take

    def begin(self) -> Any:
        process = self._take(self.python, self.environment) if self._take is not None else None
        return self.start(self._program) if process is None else process


class Worker:
    """A child process that runs cases and may use ``most_bytes`` of memory."""

    def __init__(self, source: WorkerSource, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._words = b""
        self._replies: queue.Queue[framing.Frame | Exception | None] = queue.Queue()
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        self._unanswered: deque[int] = deque()  # bytes of each unanswered request
        self._waiting = 0  # requests for the writing thread
        self.process = source.begin()
        self._watched: psutil.Process | None = None
        pairs = (
            (self._write, self.process.stdin),
            (self._read, self.process.stdout),
            (self._listen, self.process.stderr),
        )
        self._threads = [
            threading.Thread(target=work, args=(stream,), daemon=True) for work, stream in pairs
        ]
        for thread in self._threads:
            thread.start()
        _ALIVE.add(self)

    def send(self, header: framing.Header, blobs: Sequence[bytes] = ()) -> None:
        frame = framing.packed(header, blobs)
        self._unanswered.append(len(frame))
        if (
            self._waiting == 0 and sum(self._unanswered) < _FITS
        ):  # into the pipe: no thread needs to wait for it
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.write(frame)
                self.process.stdin.flush()
            return
        self._waiting += 1
        self._requests.put(frame)

    def reply(self, until: float, meanwhile: Callable[[], None] | None = None) -> framing.Frame:
        """The next reply. Raises LostError if the worker is gone, uses too much memory, or does not
        reply before ``until``.

        ``meanwhile`` is called while waiting; its exceptions end the wait.
        """
        while True:
            remaining = until - time.monotonic()
            try:
                reply = self._replies.get(timeout=min(LOOK_SECONDS, max(remaining, 0.0)) or 1e-6)
            except queue.Empty:
                if meanwhile is not None:
                    meanwhile()
                if remaining <= 0.0:
                    self.kill()
                    raise LostError("timeout", "no answer in time") from None
                if self.memory() > self.most_bytes:
                    used = self.memory()
                    self.kill()
                    raise LostError(
                        "crash",
                        (
                            f"took {max(used, self.most_bytes) / 2**30:.1f} GiB of memory and was "
                            f"ended"
                        ),
                    ) from None
                continue
            if reply is None:
                raise LostError("crash", self._how_it_ended())
            if isinstance(reply, Exception):
                self.kill()
                raise LostError("crash", f"sent what is no reply ({reply})")
            if self._unanswered:
                self._unanswered.popleft()
            return reply

    def memory(self) -> int:
        """Bytes of resident memory; 0 if the process is gone or not started."""
        try:
            if self._watched is None and self.process.pid is not None:
                self._watched = psutil.Process(self.process.pid)
            return int(self._watched.memory_info().rss) if self._watched is not None else 0
        except psutil.Error:
            return 0

    def computed(self) -> float:
        """Seconds of processor time that it has taken; 0 if it is gone or not started."""
        try:
            times = psutil.Process(self.process.pid).cpu_times() if self.process.pid else None
            return float(times.user + times.system) if times is not None else 0.0
        except psutil.Error:
            return 0.0

    def kill(self) -> None:
        """End it and its children."""
        _ALIVE.discard(self)
        self._requests.put(None)
        pid = self.process.pid
        if pid is not None and self.process.poll() is None:
            with contextlib.suppress(psutil.Error, OSError):
                children = psutil.Process(pid).children(recursive=True)
                if os.name == "posix":
                    os.killpg(pid, signal.SIGKILL)
                for child in children:
                    with contextlib.suppress(psutil.Error):
                        child.kill()
        with contextlib.suppress(OSError):
            self.process.kill()
        with contextlib.suppress(
            subprocess.TimeoutExpired
        ):  # stuck in a driver: it ends when the driver lets go
            self.process.wait(10.0)
            for thread in self._threads:
                thread.join(10.0)

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10.0)
        status = self.process.returncode
        server = getattr(self.process, "server", None)
        words = (
            (self._words or getattr(server, "words", b"")).decode("utf-8", "replace").splitlines()
        )
        last_line = next(
            (
                line.strip()
                for line in reversed(words)
                if line.strip() and not line.startswith(("  ", "Thread ", "#"))
            ),
            "",
        )
        self.kill()
        how = death(status) if status is not None else "closed its pipes"
        return f"the process ended ({how})" + (f": {last_line[:200]}" if last_line else "")

    # The threads.

    def _write(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (frame := self._requests.get()) is not None:
                stream.write(frame)
                stream.flush()
                self._waiting -= 1
        with contextlib.suppress(OSError, ValueError):
            stream.close()

    def _read(self, stream: BinaryIO) -> None:
        last: Exception | None = None
        try:
            while (frame := framing.read(stream)) is not None:
                self._replies.put(frame)
        except framing.CutShortError:
            pass
        except framing.WireError as error:
            last = error
        except (OSError, ValueError):
            pass
        with contextlib.suppress(OSError):
            stream.close()
        self._replies.put(last)

    def _listen(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            while block := os.read(stream.fileno(), _LAST_WORDS):
                self._words = (self._words + block)[-_LAST_WORDS:]
        with contextlib.suppress(OSError):
            stream.close()


@atexit.register
def _end_all() -> None:
    for worker in list(_ALIVE):
        worker.kill()
