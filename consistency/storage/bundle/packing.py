"""Old bundles take less room: cases and results of a run packed as ``….jsonl.gz``, which everything
reads that reads bundles."""

from __future__ import annotations

import contextlib
import gzip
import shutil
from pathlib import Path
from typing import IO

from ...core.files import mend, replacing
from ...core.locking import Lock
from ...core.reading import MAX_LINE, PACKED, most_unpacked, opened
from ...errors import BundleError
from .header import read_header

FILES = (
    "cases.jsonl",
    "results.jsonl",
)  # the second one last: it is the one that copies and the matrix are told apart by


def pack(folder: Path) -> tuple[int, int]:
    """Pack the lines of a run that has ended; bytes before and after, which are 0 where there is
    nothing to pack.

    A kill leaves the plain file, the packed one, or both, of which the plain one counts. Raises
    BundleError, OSError.
    """
    before = after = 0
    if not any((folder / name).is_file() for name in FILES):
        return before, after
    lock = Lock(folder)
    try:
        for name in FILES if "seconds" in read_header(folder) else ():
            plain, packed = folder / name, folder / f"{name}{PACKED}"
            if plain.is_file() and not plain.is_symlink():
                mend(plain)
                with opened(plain) as stream:
                    size = plain.stat().st_size
                    if not _pack(stream, plain, packed, size):
                        continue
                before, after = before + size, after + packed.stat().st_size
                plain.unlink()
    finally:
        lock.release()
    return before, after


def unpack(folder: Path) -> None:
    """Make a bundle plain again, so that a run can add to it; by the run that holds the folder.
    Raises BundleError, OSError."""
    for name in FILES:
        plain, packed = folder / name, folder / f"{name}{PACKED}"
        if packed.exists():
            if not plain.exists():
                with opened(plain) as stream, replacing(plain, sync=True) as file:
                    shutil.copyfileobj(stream, file)
            packed.unlink()


def _pack(stream: IO[bytes], source: Path, target: Path, size: int) -> bool:
    """Whether the packed file was written: one that is too small for what it holds would not be
    read. Raises BundleError where ``source`` holds no lines."""
    with contextlib.suppress(_TooSmallError), replacing(target, sync=True) as file:
        with gzip.GzipFile("", "wb", 6, file, 0) as packing:
            for line in iter(lambda: stream.readline(MAX_LINE), b""):
                if len(line) >= MAX_LINE:
                    raise BundleError(f"{source}  line longer than {MAX_LINE} bytes")
                packing.write(line)
        if size > most_unpacked(file.tell()):
            raise _TooSmallError
        return True
    return False


class _TooSmallError(Exception):
    pass
