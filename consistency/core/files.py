"""Writing files such that an interruption leaves them readable, and that nothing outside their
folder changes: a link in the way is replaced itself, and never written through."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from .reading import MAX_LINE
from .regular_files import creating, open_to_change

TEMPORARY = ".tmp"  # suffix of a file that is being written
_TEMPORARY = re.compile(r"(?:[0-9a-f]{32}|.+\.safetensors)\.tmp")  # the second: earlier versions'


def is_temporary(name: str) -> bool:
    """Whether a file of this name is what an interrupted write leaves."""
    return _TEMPORARY.fullmatch(name) is not None


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """A new file that atomically replaces ``path`` at the end of the block; after an exception the
    old one stays. ``sync``: flush it to disk first. Raises OSError, with the name of ``path``."""
    temporary = path.with_name(f"{secrets.token_hex(16)}{TEMPORARY}")  # unpredictable
    try:
        with open(temporary, "wb", opener=creating) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):  # the first error counts
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            error.filename = str(path)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, with the line ends of ``text``; what UTF-8 lacks, such as half
    a character in the name of a folder, is escaped. Raises OSError."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, data: Any) -> None:
    """Write a small JSON file atomically. Raises OSError."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def write_named(path: Path, text: str) -> None:
    """Write the file that the user named: atomically, or into a device or a pipe. Raises
    OSError."""
    with writing_named(path) as stream:
        stream.write(text)


@contextlib.contextmanager
def writing_named(path: Path, *, at_once: bool = False) -> Iterator[IO[str]]:
    """The file that the user named, to write UTF-8 into: a new one, which replaces ``path`` at the
    end of the block (``at_once``: at its beginning, so that others can follow what is written), or
    a device or a pipe itself. Raises OSError."""
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    if _is_stream(path):
        with path.open("w", **text) as stream:
            yield stream
    elif at_once:
        path.unlink(missing_ok=True)
        with open(path, "w", opener=creating, **text) as stream:
            yield stream
    else:
        with replacing(path) as file, io.TextIOWrapper(file, **text) as stream:
            yield stream


def check_writable(path: Path) -> None:
    """Raises OSError if the file that the user named cannot be written, before minutes of work."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not _is_stream(path):
        with tempfile.TemporaryFile(dir=path.parent):
            pass


def _is_stream(path: Path) -> bool:
    """Whether it is a device, a pipe, or a link to an open file such as /dev/stdout."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode) and path.is_symlink():
        return path.parent.resolve().parts[1:2] in (("dev",), ("proc",))
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def appending(path: Path) -> IO[str]:
    """A UTF-8 file to which lines are added, a new one if needed. Raises BundleError if it is a
    link or no regular file, OSError."""
    raw = open_to_change(path, append=True, create=True)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", newline="\n")


def mend(path: Path) -> None:
    """Cut off an incomplete last line of an interrupted run. Raises BundleError if it is a link or
    no regular file, OSError."""
    try:
        stream = open_to_change(path)
    except FileNotFoundError:
        return
    with stream:
        size = stream.seek(0, os.SEEK_END)
        back = min(size, MAX_LINE)
        stream.seek(size - back)
        tail = stream.read(back)
        if tail and not tail.endswith(b"\n"):
            stream.truncate(size - back + tail.rfind(b"\n") + 1)
