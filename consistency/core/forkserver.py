"""Processes of ours in milliseconds: a process that has loaded torch forks one on request (Linux
only).

Elsewhere each worker starts from scratch, which takes seconds: Windows cannot fork, and macOS'
libraries do not survive it. The fork server itself never computes and never touches a device, so
that its children are as good as new. ``multiprocessing`` has one fork server per process, with that
process's interpreter and environment and a shared standard error; here each interpreter and
environment has its own server, and the last output of each child is read.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

USABLE = sys.platform.startswith("linux")
_POLL_SECONDS = 0.02
_MOST_REQUEST = 1 << 14  # bytes, with the name of a folder


class ForkServer:
    """The run's end: ``command`` starts the process, which calls :func:`serve` with the number of
    its socket."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        # Every request and every report is one message.
        self._control, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with server_end:
                self.process = subprocess.Popen(
                    [*command, str(server_end.fileno())], pass_fds=[server_end.fileno()],
                    start_new_session=True, env=dict(environment),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                )  # fmt: skip
        except OSError:
            self._control.close()
            raise
        self.words = b""
        self._born: queue.Queue[ForkedWorker] = (
            queue.Queue()
        )  # asked for, in order, and not there yet
        self._alive: dict[int, ForkedWorker] = {}
        self._asking = threading.Lock()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._hear, self._listen)
        ]
        for thread in self._threads:
            thread.start()

    def fork(self) -> ForkedWorker:
        """A new worker in this process's folder, which may still be starting."""
        parent_end, child_end = socket.socketpair()
        reads, writes = os.pipe()
        child = ForkedWorker(parent_end, os.fdopen(reads, "rb"), self)
        try:
            with child_end, self._asking:
                self._born.put(child)
                request = b"f" + _folder()
                socket.send_fds(self._control, [request], [child_end.fileno(), writes])
        except OSError:
            child.ended(None)
        finally:
            os.close(writes)
        return child

    @property
    def in_use(self) -> bool:
        """Whether it is there and has a child that is alive, or is to be."""
        return self.process.poll() is None and (bool(self._alive) or not self._born.empty())

    def close(self) -> None:
        self._control.close()
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10.0)
        for thread in self._threads:
            thread.join(10.0)

    def _hear(self) -> None:
        """Read the fork server's reports: ``p PID`` for each worker, in order of the requests, and
        ``d PID STATUS`` for each that ended."""
        with (
            contextlib.suppress(OSError, ValueError),
            self._control.makefile("r", encoding="ascii") as stream,
        ):
            for line in stream:
                kind, pid, *status = line.split()
                if kind == "p":
                    child = self._born.queue[0]  # until it is alive, so that it is never neither
                    self._alive[int(pid)] = child
                    self._born.get()
                    child.begun(int(pid))
                elif int(pid) in self._alive:
                    self._alive.pop(int(pid)).ended(int(status[0]))
        for child in (*self._alive.values(), *self._born.queue):
            child.ended(None)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with contextlib.suppress(OSError, ValueError), self.process.stderr as stream:
            while block := os.read(stream.fileno(), 4096):
                self.words = (self.words + block)[-4096:]


class ForkedWorker:
    """One forked worker, with the part of ``subprocess.Popen`` that is needed, such as
    ``returncode``."""

    def __init__(self, connection: socket.socket, stderr: BinaryIO, server: ForkServer) -> None:
        with connection:
            self.stdin: Any = connection.makefile("wb")
            self.stdout: Any = connection.makefile("rb")
        self._connection = connection
        self.stderr: Any = stderr
        self.server = server
        self.pid: int | None = None
        self.returncode: int | None = None
        self._over = threading.Event()

    def begun(self, pid: int) -> None:
        self.pid = pid

    def ended(self, status: int | None) -> None:
        if status is not None:
            self.returncode = os.waitstatus_to_exitcode(status)
        self._over.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int | None:
        if self.pid is not None and not self._over.wait(timeout):
            raise subprocess.TimeoutExpired("worker", timeout)
        if self.returncode is None:
            self.returncode = self.server.process.poll()
        return self.returncode

    def kill(self) -> None:
        """End it. One that is still starting finds its pipes closed and ends by itself."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def _folder() -> bytes:
    """The current folder; nothing if it was deleted."""
    try:
        return os.fsencode(os.getcwd())  # noqa: PTH109 - bytes, for another process
    except FileNotFoundError:
        return b""


def serve(descriptor: int, load: Callable[[], None], main: Callable[[], None]) -> None:
    """The fork server's end: ``load`` what every child needs; on request, fork a child that calls
    ``main``; report children that started and ended; end with the run."""
    from .process_setup import freeze_garbage

    load()
    freeze_garbage()  # collections in a child would copy the memory that it shares with this one
    control = socket.socket(fileno=descriptor)
    count = 0
    while True:
        ready, _, _ = select.select([control], [], [], _POLL_SECONDS if count else None)
        count -= _reap(control)
        if not ready:
            continue
        try:
            request, descriptors, _, _ = socket.recv_fds(control, _MOST_REQUEST, 2)
        except OSError:
            request = b""
        if not request:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            control.close()
            for number, source in enumerate((descriptors[0], descriptors[0], descriptors[1])):
                os.dup2(source, number)
            for source in descriptors:
                os.close(source)
            with contextlib.suppress(OSError):
                os.chdir(request[1:])
            main()
            os._exit(0)
        for source in descriptors:
            os.close(source)
        count += 1
        _say(control, f"p {pid}\n")


def _reap(control: socket.socket) -> int:
    """Report ended children; return their number."""
    count = 0
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            count += 1
            _say(control, f"d {pid} {status}\n")
    return count


def _say(control: socket.socket, text: str) -> None:
    try:
        control.sendall(text.encode("ascii"))
    except OSError:
        os._exit(0)
