"""The files of a bundle and of other folders that travel: written so that a kill leaves them readable, read with bounds."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any, cast

from ..errors import BundleError

MAX_LINE = 1 << 24
PACKED = ".gz"  # behind the name of a file of lines that is packed


def replace(path: Path, text: str) -> None:
    """Write a small file in one step, so that a kill leaves the old or the new one."""
    scratch = path.with_suffix(".tmp")
    scratch.write_text(text + "\n", encoding="utf-8", newline="\n")
    scratch.replace(path)


def mend(path: Path) -> None:
    """Cut off a last line that a killed run left incomplete."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        back = min(size, MAX_LINE)
        stream.seek(size - back)
        tail = stream.read(back)
        if not tail.endswith(b"\n"):
            stream.truncate(size - back + tail.rfind(b"\n") + 1)


def opened(path: Path) -> IO[bytes]:
    """A file of lines, plain or packed; where both are there, the plain one. Raises OSError, BundleError."""
    packed = path.with_name(f"{path.name}{PACKED}")
    if path.exists() or not packed.exists():
        if not path.exists() and path.with_name(f"{path.name}.zst").exists():
            raise BundleError(f"{path}.zst is read by `matrix` and `query` only: unpack it with unzstd first")
        return path.open("rb")
    return cast("IO[bytes]", gzip.open(packed, "rb"))


def lines(path: Path, only: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file. Reads ``path.gz`` where it is packed. An incomplete last line is passed over; anything else is a BundleError.

    ``only``: the numbers of the lines that are looked into, the others are counted.
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
    except (OSError, EOFError, zlib.error) as error:  # the last two, and gzip's own, of packed files
        raise BundleError(f"{path} cannot be read: {getattr(error, 'strerror', None) or str(error)[:100]}") from None


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a small file. Raises BundleError, FileNotFoundError where there is none."""
    try:
        if path.stat().st_size > MAX_LINE:
            raise BundleError(f"{path} is larger than {MAX_LINE} bytes")
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None
    if not isinstance(found, dict):
        raise BundleError(f"{path} does not describe {what}")
    return found
