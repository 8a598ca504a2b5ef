"""Everything below a folder, before and after a command."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

HASHED = 1 << 22  # bytes of a file; of larger ones size and time are compared
Snapshot = Mapping[str, str]


def take(folder: Path) -> Snapshot:
    """What every path below ``folder`` is: its kind, size, time of change and contents."""
    return dict(_entries(folder))


def _entries(folder: Path) -> Iterator[tuple[str, str]]:
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            try:
                yield path.relative_to(folder).as_posix(), _state(path)
            except FileNotFoundError:
                continue


def _state(path: Path) -> str:
    status = path.lstat()
    mode = oct(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return f"{mode} → {path.readlink()}"
    if not stat.S_ISREG(status.st_mode):
        return mode
    data = path.read_bytes() if status.st_size <= HASHED else b""
    digest = hashlib.sha256(data).hexdigest()[:16]
    return f"{mode} {status.st_size} {status.st_mtime_ns} {digest}"


def differences(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    """(path, "created", "changed" or "deleted")."""
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            yield path, "created"
        elif path not in after:
            yield path, "deleted"
        elif before[path] != after[path]:
            yield path, "changed"
