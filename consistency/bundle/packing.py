"""Old bundles take less room: ``results.jsonl`` packed as ``results.jsonl.gz``, which everything reads that reads bundles."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from .files import PACKED, opened
from .header import read_header
from .locking import Lock

RESULTS = "results.jsonl"


def pack(folder: Path) -> tuple[int, int]:
    """Pack the results of a run that has ended; bytes before and after, which are 0 where there is nothing to pack.

    A kill leaves the plain file, the packed one, or both, of which the plain one counts. Raises BundleError, OSError.
    """
    if "seconds" not in read_header(folder) or not (folder / RESULTS).is_file():
        return 0, 0
    plain, packed = folder / RESULTS, folder / f"{RESULTS}{PACKED}"
    lock = Lock(folder)
    try:
        scratch = packed.with_suffix(".tmp")
        with plain.open("rb") as source, scratch.open("wb") as target, gzip.GzipFile("", "wb", 6, target, 0) as stream:
            shutil.copyfileobj(source, stream)
        before, after = plain.stat().st_size, scratch.stat().st_size
        scratch.replace(packed)
        plain.unlink()
    finally:
        lock.release()
    return before, after


def unpack(folder: Path) -> None:
    """Make results plain again, so that a run can add to them; by the run that holds the folder. Raises BundleError."""
    plain, packed = folder / RESULTS, folder / f"{RESULTS}{PACKED}"
    if plain.exists() or not packed.exists():
        return
    scratch = plain.with_suffix(".tmp")
    with opened(plain) as source, scratch.open("wb") as target:
        shutil.copyfileobj(source, target)
    scratch.replace(plain)
    packed.unlink()
