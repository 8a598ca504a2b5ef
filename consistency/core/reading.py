"""Bounded reading of files that may come from elsewhere, plain or packed: regular files only, at
most so many bytes, no link out of the folder."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import BundleError
from .regular_files import open_to_read

MAX_LINE = 1 << 24
MAX_FILE = 1 << 34  # bytes of a file of lines
MAX_LINES = 1 << 24  # of which a bomb of short lines has many more, and no run as many
PACKED = ".gz"  # suffix of a packed file of lines
# A packed file may be this many times as large once it is unpacked (our runs: 8 to 40), beyond
# what is free of it.
_FREE, _RATIO = 1 << 25, 80
_BUFFER = 1 << 16


class _Plain(io.RawIOBase):
    """A file up to the size that it had when it was opened: it may grow without end."""

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        self._raw = raw
        self._left = raw.seek(0, io.SEEK_END)
        raw.seek(0)
        if self._left > MAX_FILE:
            raise BundleError(f"{path} is larger than {MAX_FILE} bytes")

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        many = self._raw.readinto(memoryview(into)[: self._left])
        self._left -= many
        return many

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Unpacking(io.RawIOBase):
    """The contents of a packed file, which may expand a thousandfold: refused as soon as they are
    more than the packed bytes so far may be."""

    def __init__(self, raw: io.FileIO, path: Path) -> None:
        self._path, self._raw, self._stream = path, raw, gzip.GzipFile(fileobj=raw)
        self._total = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            many = self._stream.readinto(into)
        except (EOFError, zlib.error) as error:
            raise OSError(str(error)) from None  # as gzip's other complaints
        self._total += many
        if self._total > most_unpacked(self._raw.tell()):
            raise BundleError(
                f"{self._path} is more than {_RATIO} times as large once it is unpacked: that is "
                "no run's"
            )
        return many

    def close(self) -> None:
        self._stream.close()
        self._raw.close()
        super().close()


def most_unpacked(size: int) -> int:
    """The most bytes that a packed file of ``size`` bytes may hold."""
    return min(_FREE + _RATIO * size, MAX_FILE)


def opened(path: Path, folder: Path | None = None) -> IO[bytes]:
    """A file of lines, plain or packed; the plain one if both exist. ``folder`` as for
    :func:`.regular_files.regular`. Raises OSError and BundleError, also while it is read."""
    packed = path.with_name(f"{path.name}{PACKED}")
    if path.exists() or not packed.exists():
        if not path.exists() and path.with_name(f"{path.name}.zst").exists():
            raise BundleError(
                f"{path}.zst is read by `matrix` and `query` only: unpack it with unzstd first"
            )
        return io.BufferedReader(_Plain(open_to_read(path, folder), path), _BUFFER)
    return io.BufferedReader(_Unpacking(open_to_read(packed, folder), packed), _BUFFER)


def check_unpacked(path: Path) -> None:
    """Raises BundleError if a packed file holds too much or is damaged, OSError."""
    with io.BufferedReader(_Unpacking(open_to_read(path), path), _BUFFER) as stream:
        while stream.read(1 << 20):
            pass


def parse_json(text: bytes) -> Any:
    """Parse JSON in less than half of the time of Python's module, whose messages the errors have.
    Raises ValueError or RecursionError."""
    from pydantic_core import from_json  # here: no worker process needs it

    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)  # which reads lone surrogates, too


def lines(
    path: Path,
    only: Collection[int] | None = None,
    parse: Callable[[bytes], dict[str, Any] | None] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file, or of ``path.gz`` if it is packed.

    An incomplete last line is skipped; any other error is a BundleError. ``only``: the numbers of
    the lines to parse; others are only counted. ``parse`` reads a line faster than
    :func:`parse_json`, which is used where it returns None.
    """
    try:
        with opened(path) as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
                if not line.endswith(b"\n"):
                    if len(line) >= MAX_LINE:
                        raise BundleError(f"{path}:{number}  line longer than {MAX_LINE} bytes")
                    return
                if number > MAX_LINES:
                    raise BundleError(f"{path} has more than {MAX_LINES} lines: that is no run's")
                if only is not None and number not in only:
                    continue
                try:
                    row = (parse(line) if parse is not None else None) or parse_json(line)
                except (ValueError, RecursionError) as error:
                    raise BundleError(f"{path}:{number}  damaged: {str(error)[:100]}") from None
                if not isinstance(row, dict):
                    raise BundleError(f"{path}:{number}  damaged: not an object")
                yield number, row
    except FileNotFoundError:
        return
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror or str(error)[:100]}") from None


def read_bytes(
    path: Path, max_bytes: int, folder: Path | None = None, *, follow: bool = False
) -> bytes:
    """A whole file of at most ``max_bytes``; ``folder`` and ``follow`` as for
    :func:`.regular_files.regular`. Raises BundleError, OSError."""
    with io.BufferedReader(open_to_read(path, folder, follow=follow)) as stream:
        size = stream.seek(0, io.SEEK_END)
        if size > max_bytes:
            raise BundleError(f"{path} is larger than {max_bytes} bytes")
        stream.seek(0)
        return stream.read(size)  # and no more, if it grows


def read_text(
    path: Path, max_bytes: int, folder: Path | None = None, *, follow: bool = False
) -> str:
    """As :func:`read_bytes`, of UTF-8. Raises UnicodeDecodeError, too."""
    return read_bytes(path, max_bytes, folder, follow=follow).decode("utf-8")


def read_object(
    path: Path, what: str, max_bytes: int = MAX_LINE, folder: Path | None = None
) -> dict[str, Any]:
    """The JSON object in a small file. Raises BundleError, FileNotFoundError if it is missing."""
    try:
        value = parse_json(read_bytes(path, max_bytes, folder))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path} does not describe {what}")
    return value
