"""Atomic file replacement, and bounded reading of files from bundles and other folders; an
interrupted write leaves them readable."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import secrets
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from ..errors import BundleError

MAX_LINE = 1 << 24
PACKED = ".gz"  # suffix of a packed file of lines
TEMPORARY = ".tmp"  # suffix of a file that is being written
# Limits of a decompressed file: bytes, and expansion factor (our runs: 10 to 40).
_SMALL, _RATIO = 1 << 26, 200
# Windows translates line ends without O_BINARY, and has no O_NOFOLLOW.
_CREATE = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def _create(path: str, _: int) -> int:
    return os.open(path, _CREATE, 0o666)


@contextlib.contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """A new file that atomically replaces ``path`` at the end of the block; after an exception the
    old one stays. ``sync``: flush it to disk first. Raises OSError."""
    temporary = path.with_name(f"{secrets.token_hex(16)}{TEMPORARY}")  # unpredictable
    try:
        with open(temporary, "wb", opener=_create) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically. Raises OSError."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file atomically, with the line ends of ``text``. Raises OSError."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, data: Any) -> None:
    """Write a small JSON file atomically. Raises OSError."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def mend(path: Path) -> None:
    """Cut off an incomplete last line of an interrupted run."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        back = min(size, MAX_LINE)
        stream.seek(size - back)
        tail = stream.read(back)
        if not tail.endswith(b"\n"):
            stream.truncate(size - back + tail.rfind(b"\n") + 1)


class _Unpacking(io.RawIOBase):
    """The decompressed contents of a file, up to a limit: an untrusted file may expand a
    thousandfold."""

    def __init__(self, path: Path) -> None:
        self._path, self._stream = path, gzip.GzipFile(path)
        self._left = _SMALL + _RATIO * path.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            many = self._stream.readinto(into)
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from None  # as gzip's other complaints
        self._left -= many
        if self._left < 0:
            raise BundleError(
                f"{self._path} is more than {_RATIO} times as large once it is unpacked: that is "
                "no run's"
            )
        return many

    def close(self) -> None:
        self._stream.close()
        super().close()


def opened(path: Path) -> IO[bytes]:
    """A file of lines, plain or packed; the plain one if both exist. Raises OSError, and
    BundleError while it is read."""
    packed = path.with_name(f"{path.name}{PACKED}")
    if path.exists() or not packed.exists():
        if not path.exists() and path.with_name(f"{path.name}.zst").exists():
            raise BundleError(
                f"{path}.zst is read by `matrix` and `query` only: unpack it with unzstd first"
            )
        return path.open("rb")
    return io.BufferedReader(_Unpacking(packed), 1 << 16)


def lines(path: Path, only: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file, or of ``path.gz`` if it is packed.

    An incomplete last line is skipped; any other error is a BundleError. ``only``: the numbers of
    the lines to parse; others are only counted.
    """
    try:
        with opened(path) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
                if not line.endswith(b"\n"):
                    if len(line) >= MAX_LINE:
                        raise BundleError(f"{path}:{number}  line longer than {MAX_LINE} bytes")
                    return
                if only is not None and number not in only:
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise BundleError(f"{path}:{number}  damaged: {str(error)[:100]}") from None
                if not isinstance(row, dict):
                    raise BundleError(f"{path}:{number}  damaged: not an object")
                yield number, row
    except FileNotFoundError:
        return
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or str(error)[:100]}") from None


def read_object(path: Path, what: str, max_bytes: int = MAX_LINE) -> dict[str, Any]:
    """The JSON object in a small file. Raises BundleError, FileNotFoundError if it is missing."""
    try:
        if path.stat().st_size > max_bytes:
            raise BundleError(f"{path} is larger than {max_bytes} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path} does not describe {what}")
    return value
