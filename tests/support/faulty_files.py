"""A file system that fails: the n-th operation that changes a folder, and all later ones, raise
OSError, as on a full disk, a read-only one or one that is gone.

The functions of ``io`` and ``os`` are replaced, so that it works on every system and at every
place. A file's write is cut short first, as a full disk does.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Which operations fail, by error. A full disk can still rename and remove.
CREATING = frozenset({"open", "write", "mkdir", "fsync"})
ALL = CREATING | {"rename", "unlink", "truncate"}
FAILING = {
    errno.ENOSPC: CREATING, errno.EDQUOT: CREATING, errno.EROFS: ALL, errno.EACCES: ALL,
    errno.EIO: ALL, errno.ENOENT: ALL,
}  # fmt: skip
_OPEN, _OS = io.open, {name: getattr(os, name) for name in (
    "open", "write", "close", "replace", "rename", "mkdir", "unlink", "fsync", "ftruncate",
)}  # fmt: skip


@dataclass
class Disk:
    """Counts the operations that change files below ``root``; from number ``first`` (from 1) on
    they fail with ``number``, an errno. ``once``: only that one fails."""

    root: Path
    first: int | None = None
    number: int = errno.ENOSPC
    once: bool = False
    count: int = 0
    places: list[str] = field(default_factory=list)  # operation and file, by number
    _short: set[int] = field(default_factory=set)
    _descriptors: dict[int, str] = field(default_factory=dict)

    def below(self, path: Any) -> str:
        """The path below the root, or nothing for others."""
        try:
            text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        except TypeError:
            return ""
        root = str(self.root)
        return os.path.relpath(text, root) if text == root or text.startswith(root + os.sep) else ""

    def fails(self, operation: str, name: str) -> bool:
        """Count an operation; whether it fails."""
        if operation not in FAILING[self.number]:
            return False
        self.count += 1
        self.places.append(f"{operation} {name}")
        if self.first is None:
            return False
        return self.count == self.first if self.once else self.count >= self.first

    def check(self, operation: str, path: Any) -> None:
        name = self.below(path)
        if name and self.fails(operation, name):
            raise OSError(self.number, os.strerror(self.number), os.fspath(path))


_FILE = io.FileIO


class _File(io.FileIO):
    disk: Disk
    name_below: str
    short = False

    def write(self, data: Any) -> int:
        if self.short or self.disk.fails("write", self.name_below):
            if not self.short and len(data) > 1:
                self.short = not self.disk.once
                return super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise OSError(self.disk.number, os.strerror(self.disk.number))
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        self.disk.check("truncate", self.disk.root / self.name_below)
        return super().truncate(size)


@contextlib.contextmanager
def failing(disk: Disk) -> Iterator[Disk]:
    """Every program in this process uses the ``disk`` inside the block."""

    def opened(file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None,
               errors: str | None = None, newline: str | None = None, closefd: bool = True,
               opener: Callable[[str, int], int] | None = None) -> Any:  # fmt: skip
        name = "" if isinstance(file, int) else disk.below(file)
        if not name or not set(mode) & set("wax+"):
            return _OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if opener is None:
            disk.check("open", file)
        raw = _File(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        raw.disk, raw.name_below = disk, name
        if buffering == 0:
            return raw
        buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def opened_number(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        name = disk.below(path)
        if name and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            disk.check("open", path)
        number: int = _OS["open"](path, flags, mode, **more)
        disk._descriptors.pop(number, None)  # of a file that was closed meanwhile
        if name:
            disk._descriptors[number] = name
        return number

    def by_number(operation: str, function: str) -> Callable[..., Any]:
        def call(number: int, *args: Any) -> Any:
            if number in disk._descriptors and disk.fails(operation, disk._descriptors[number]):
                raise OSError(disk.number, os.strerror(disk.number))
            return _OS[function](number, *args)

        return call

    def by_path(operation: str, function: str) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **more: Any) -> Any:
            disk.check(operation, path)
            return _OS[function](path, *args, **more)

        return call

    def closed(number: int) -> None:
        disk._descriptors.pop(number, None)
        _OS["close"](number)

    patches: dict[str, Any] = {
        "open": opened_number, "close": closed, "write": by_number("write", "write"),
        "ftruncate": by_number("truncate", "ftruncate"), "fsync": by_number("fsync", "fsync"),
        "replace": by_path("rename", "replace"), "rename": by_path("rename", "rename"),
        "mkdir": by_path("mkdir", "mkdir"), "unlink": by_path("unlink", "unlink"),
    }  # fmt: skip

    def by_descriptor(file: Any, mode: str = "r", *args: Any) -> io.FileIO:
        if file not in disk._descriptors:
            return _FILE(file, mode, *args)
        raw = _File(file, mode, *args)
        raw.disk, raw.name_below = disk, disk._descriptors[file]
        return raw

    io.open = builtins.open = opened  # type: ignore[assignment]
    io.FileIO = by_descriptor  # type: ignore[assignment, misc]
    for name, patch in patches.items():
        setattr(os, name, patch)
    try:
        yield disk
    finally:
        io.open = builtins.open = _OPEN
        io.FileIO = _FILE  # type: ignore[misc]
        for name, function in _OS.items():
            setattr(os, name, function)
