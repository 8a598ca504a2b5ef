"""Defects that are planted into ``consistency report``, to see that the fuzzer finds them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from consistency.cli.commands.report import report


def _raise() -> None:
    raise ValueError("planted")


def _hang() -> None:
    time.sleep(600)


def _memory() -> None:
    kept = bytearray()
    while True:
        kept += bytes(1 << 26)


def _write_outside() -> None:
    (Path(os.environ["HOME"]) / "victim.txt").write_text("overwritten", encoding="utf-8")


def _delete_outside() -> None:
    (Path(os.environ["HOME"]) / "failures" / "keep.txt").unlink()


def _leave_file() -> None:
    (Path(os.environ["TMPDIR"]) / "left.txt").touch()


def _write_far_away() -> None:
    path = Path(os.environ["CONSISTENCY_CACHE"]).parents[2] / "far-away.txt"
    path.write_text("x", encoding="utf-8")
    path.unlink()


def _signal() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _escape() -> None:
    click.echo("\x1b[31m")


def _long_error() -> None:
    click.echo("x" * 100_000, err=True)
    sys.exit(2)


def _status() -> None:
    sys.exit(77)


def _process() -> None:
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)


DEFECTS: dict[str, tuple[Callable[[], None], str]] = {
    "raise": (_raise, "traceback"),
    "hang": (_hang, "time"),
    "memory": (_memory, "memory"),
    "write outside": (_write_outside, "files"),
    "delete outside": (_delete_outside, "files"),
    "leave a file": (_leave_file, "files"),
    "write far away": (_write_far_away, "files"),
    "signal": (_signal, "signal"),
    "escape sequence": (_escape, "control characters"),
    "long error": (_long_error, "length"),
    "status": (_status, "status"),
    "leave a process": (_process, "processes"),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """``report`` first does this; nothing if no defect has this name."""
    healthy = report.callback
    assert healthy is not None

    def faulty(**values: object) -> None:
        DEFECTS[name][0]()
        healthy(**values)

    report.callback = faulty if name in DEFECTS else healthy
    try:
        yield
    finally:
        report.callback = healthy
