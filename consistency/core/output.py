"""Failed writes as errors of one line: a full disk, a folder that is read-only or gone; and files
of lines that stay complete when a write fails."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import OutputClosed, OutputError
from .files import mend
from .regular_files import open_to_change
from .text import printable

STANDARD_OUTPUT = "standard output"
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG})


def reason(error: OSError) -> str:
    """What the operating system says, in one line."""
    text = error.strerror or str(error) or type(error).__name__
    return printable(text.splitlines()[0])[:200]


def output_error(path: str | Path, error: OSError, lost: str = "", remedy: str = "") -> OutputError:
    """The error for ``path``, or for the file that the operating system names; then, what is
    ``lost``, and the ``remedy``."""
    named = printable(error.filename if isinstance(error.filename, str) else str(path))[:400]
    told = f"cannot write {named}: {reason(error)}"
    kind = OutputClosed if isinstance(error, BrokenPipeError) else OutputError
    full = error.errno in _FULL
    return kind(
        f"{told}; {lost}" if lost else told, what=named, full=full,
        remedy=f"make room, or {remedy}" if remedy and full else remedy,
    )  # fmt: skip


@contextlib.contextmanager
def writing(path: str | Path, lost: str = "", remedy: str = "") -> Iterator[None]:
    """Raise an OSError of the block as an OutputError (:func:`output_error`); also where ``path``
    cannot be the name of a file."""
    try:
        named = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise OutputError(f"cannot write {printable(str(path))[:400]}: no file can have this name")
    try:
        yield
    except OSError as error:
        raise output_error(path, error, lost, remedy) from None


class CheckedStream:
    """A text stream whose failed writes are OutputErrors, and OutputClosed where its reader is
    gone."""

    def __init__(self, stream: IO[str], name: str = STANDARD_OUTPUT) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        with writing(self._name):
            return self._stream.write(text)

    def flush(self) -> None:
        with writing(self._name):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class LineWriter:
    """Appends lines to a file, unbuffered: what was written counts even if the process is killed,
    and a failed write leaves complete lines only. An incomplete last line is removed first.

    Raises BundleError for a link, OSError; FileNotFoundError if the file was removed or replaced
    more than ``UNCHECKED_SECONDS`` ago, at the latest when the writer is closed.
    """

    UNCHECKED_SECONDS = 0.2  # a look at the folder takes as long as a short write

    def __init__(self, path: Path) -> None:
        self._path = path
        mend(path)
        self._file = open_to_change(path, append=True, create=True)
        self._checked = -math.inf

    def check(self) -> None:
        """Raise FileNotFoundError if the file was removed or replaced; seldom looks."""
        if time.monotonic() - self._checked >= self.UNCHECKED_SECONDS:
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                self._checked = time.monotonic()
                return
        told = "it was removed or replaced meanwhile"
        raise FileNotFoundError(errno.ENOENT, told, str(self._path))

    def write(self, lines: str | bytes) -> None:
        """Append complete lines."""
        self.check()
        every = left = memoryview(lines.encode("utf-8") if isinstance(lines, str) else lines)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                end = self._file.seek(0, os.SEEK_END)
                self._file.truncate(end - (len(every) - len(left)))
            error.filename = str(self._path)
            raise

    def close(self) -> None:
        """Safe to call twice. Raises OSError where a file system reports a failed write late."""
        if not self._file.closed:
            try:
                self._look()
            finally:
                self._file.close()
