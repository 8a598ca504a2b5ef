"""Links, devices, pipes and sockets in a folder, and commands that must neither follow them nor
wait for them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType

import pytest
from click.testing import Result

from tests.support.commands import command
from tests.support.fuzzing import snapshot

LONGEST = 10.0  # seconds of a command
needs_unix = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no named pipes, and links need a privilege"
)


class Hanging(BaseException):
    """The command took too long; no handler of errors catches it."""


def _outside(path: Path, outside: Path) -> Path:
    """A file or a folder outside with the contents of ``path``, so that following a link works."""
    target = outside / f"{path.name}-target"
    if path.is_dir():
        shutil.copytree(path, target)
    elif path.exists():
        shutil.copyfile(path, target)
    else:
        target.write_text("what the user wrote\n", encoding="utf-8")
    return target


def _cleared(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def link(path: Path, outside: Path) -> None:
    """A symbolic link to a file or a folder outside."""
    target = _outside(path, outside)
    _cleared(path)
    path.symlink_to(target)


def hard_link(path: Path, outside: Path) -> None:
    """Another name of a file outside."""
    target = _outside(path, outside)
    _cleared(path)
    path.hardlink_to(target)


def dangling(path: Path, outside: Path) -> None:
    """A link to where a file outside would be created."""
    _cleared(path)
    path.symlink_to(outside / "created.txt")


def device(path: Path, outside: Path) -> None:
    """A link to endless zeros."""
    _cleared(path)
    path.symlink_to("/dev/zero")


def pipe(path: Path, outside: Path) -> None:
    """A named pipe, which nobody writes to."""
    _cleared(path)
    os.mkfifo(path)


def unix_socket(path: Path, outside: Path) -> None:
    """A socket, which nobody listens at."""
    _cleared(path)
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)


def itself(path: Path, outside: Path) -> None:
    """A link to itself."""
    _cleared(path)
    path.symlink_to(path.name)


def inside(path: Path, outside: Path) -> None:
    """Harmless: a link to a regular file of the same folder."""
    target = path.with_name(f"real-{path.name}")
    path.rename(target)
    path.symlink_to(target.name)


Plant = Callable[[Path, Path], None]
PLANTS: Mapping[str, Plant] = {
    "link": link, "hard link": hard_link, "dangling link": dangling, "device": device,
    "pipe": pipe, "socket": unix_socket,
    "link to itself": itself,
}  # fmt: skip


@contextlib.contextmanager
def limited(seconds: float = LONGEST) -> Iterator[None]:
    """Raise Hanging after so many seconds of processor time, or ten times as long on the clock."""
    if sys.platform == "win32":  # it has no alarms
        yield
        return
    began = time.process_time()

    def look(_: int, frame: FrameType | None) -> None:
        if time.process_time() - began > seconds or time.monotonic() > last:
            raise Hanging

    last = time.monotonic() + 10 * seconds
    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def harmless(outside: Path, line: str, *values: object) -> Result:
    """``consistency LINE``, which ends in time, raises nothing and changes nothing outside."""
    before = snapshot.take(outside)
    with limited():
        said = command(line, *values)
    changed = list(snapshot.differences(before, snapshot.take(outside)))
    assert not changed, (line, changed, said.output)
    ended = said.exception is None or isinstance(said.exception, SystemExit)
    assert ended, (line, said.output, said.exception)
    return said
