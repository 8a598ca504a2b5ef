"""A function in a forked process with limits of time and memory: its output, its exit status and
the paths that it opened for writing."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

SECONDS, MEMORY = 10.0, 1 << 30
# Of a command that runs a foreign case in a process with those bounds: what starting the process
# takes, and what it takes until it is looked at.
MORE_SECONDS, MORE_MEMORY = 5.0, 1 << 28
LARGEST_FILE = 1 << 29  # bytes that a command may write into one file, so that no disk fills
# What a process may write to on any system: streams, shared memory.
SYSTEM = ("/dev/null", "/dev/tty", "/dev/shm/", "/proc/self/", "/dev/std")
_KILOBYTES = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
_MOST_TEXT = 1 << 22  # characters of output that are looked at
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}
_CHANGES |= {"os.truncate", "os.chmod", "os.utime", "os.chown"}


@dataclass(frozen=True)
class Ended:
    """How a process ended. ``status`` is None if a signal ended it; ``why`` says which limit it
    exceeded; ``seconds`` leave out what it waited for a processor; ``written`` are the paths that
    Python code changed; ``left`` counts processes that outlived it."""

    status: int | None
    signal: str
    why: str
    seconds: float
    cpu: float
    memory: int
    output: str
    errors: str
    written: tuple[str, ...]
    left: int


def run(
    program: Callable[[Sequence[str]], None],
    words: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Ended:
    """Call ``program(words)`` in a fork of this process."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        sys.stdout.flush()
        sys.stderr.flush()
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child(program, words, cwd, environment, [stream.fileno() for stream in streams])
        status, usage, why, peak, waited = _wait(pid, seconds, memory)
        took = time.monotonic() - began - waited
        left = _end_group(pid)
        texts = [_text(stream) for stream in streams]
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return Ended(
        os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal.Signals(killed).name if killed else "",
        why,
        took,
        usage.ru_utime + usage.ru_stime,
        max(peak, usage.ru_maxrss * _KILOBYTES),
        texts[0],
        texts[1],
        tuple(dict.fromkeys(texts[2].splitlines())),
        left,
    )


def _text(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read(_MOST_TEXT).decode("utf-8", "backslashreplace"))


def _wait(pid: int, seconds: float, memory: int) -> tuple[int, Any, str, int, float]:
    """Wait until the process ends, or end it where it exceeds a limit; the last value is how long
    it waited for a processor."""
    why, peak, pause, process, waited = "", 0, 0.001, psutil.Process(pid), 0.0
    others: list[psutil.Process] = []
    looked = began = time.monotonic()
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            if not why and usage.ru_maxrss * _KILOBYTES > memory:
                why = "memory"
            return status, usage, why, peak, waited
        now = time.monotonic()
        if now - looked > 0.5:
            looked = now
            with contextlib.suppress(psutil.Error):
                others = process.children(recursive=True)
        for one in (process, *others):
            with contextlib.suppress(psutil.Error):
                peak = max(peak, one.memory_info().rss)
        if not why and peak > memory:
            why = "memory"
        waited = max(waited, sum(_queued(one.pid) for one in (process, *others)))
        if not why and now - began > seconds + min(waited, 10 * seconds):
            why = "time"
        if why:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _queued(pid: int) -> float:
    """Seconds for which a process was ready and other processes ran: a busy machine makes no
    command slow. 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _end_group(group: int, patience: float = 3.0) -> int:
    """End the processes that a command left; those that end by themselves soon do not count."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return 0
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
        return 1
    return 0


def _child(
    program: Callable[[Sequence[str]], None],
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    streams: Sequence[int],
) -> None:
    """Never returns."""
    status = 1
    try:
        os.setsid()
        _limit()
        os.environ.update(environment)
        tempfile.tempdir, sys.dont_write_bytecode = None, True
        os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (streams[0], 1), (streams[1], 2)):
            os.dup2(source, target)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the streams stay
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(
            io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="backslashreplace"
        )
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        # click removes escape sequences where it does not write to a terminal: not here.
        click.utils.should_strip_ansi = lambda *_, **__: False
        _log_changes(streams[2], cwd.parent)
        status = _status_of(program, words)
    finally:
        os._exit(status)


def _status_of(program: Callable[[Sequence[str]], None], words: Sequence[str]) -> int:
    """As Python ends: 0 if the program returns, 1 and a traceback for an exception."""
    status = 0
    try:
        program(words)
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        traceback.print_exc()
        status = 120
    return status & 0xFF


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def _log_changes(stream: int, folder: Path) -> None:
    """Write the path of everything that Python code opens for writing, moves or removes; outside
    of ``folder``, refuse it."""
    inside = (f"{folder.resolve()}/", *SYSTEM)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITING or isinstance(path, int):
                return
            paths = [path]
        elif event in _CHANGES:
            paths = [a for a in arguments[:2] if isinstance(a, (str, bytes))]
            if event == "os.mkdir" and Path(os.fsdecode(paths[0])).is_dir():
                return  # changes nothing
        else:
            return
        for path in paths:
            named = Path(os.fsdecode(path)).absolute()
            text = f"{os.path.realpath(named.parent)}/{named.name}"
            os.write(stream, text.encode("utf-8", "backslashreplace").replace(b"\n", b"?") + b"\n")
            if not text.startswith(inside) and text not in (f"{folder}/cwd", "//"):
                raise PermissionError(errno.EPERM, "the fuzzer refuses it", path)

    sys.addaudithook(hook)
