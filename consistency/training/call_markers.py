"""Which call a process is executing, in a small memory-mapped file that its parent can read even
after the process died."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import tempfile
from pathlib import Path

SIZE = 1024
_HEAD = struct.Struct("<QBH")  # number of the last call, whether it is still running, bytes of text


class CallMarker:
    """Written by the process that calls (``begin`` and ``end``), read by the one that waits for
    it."""

    def __init__(self, path: str | Path) -> None:
        with open(path, "r+b") as file:  # noqa: PTH123 - a path from tempfile
            self._memory = mmap.mmap(file.fileno(), SIZE)

    @staticmethod
    def create_file() -> Path:
        """Create a marker file; the caller removes it."""
        number, path = tempfile.mkstemp(prefix="consistency-", suffix=".mark")
        with os.fdopen(number, "wb") as file:
            file.write(bytes(SIZE))
        return Path(path)

    def begin(self, number: int, text: str) -> None:
        encoded = text.encode("utf-8", "replace")[: SIZE - _HEAD.size]
        self._memory[: _HEAD.size + len(encoded)] = _HEAD.pack(number, 1, len(encoded)) + encoded

    def end(self) -> None:
        self._memory[8] = 0

    def read(self) -> tuple[int, bool, str]:
        """The number of the last call, whether it is running, and what was said of it."""
        number, running, length = _HEAD.unpack_from(self._memory)
        return (
            number,
            bool(running),
            self._memory[_HEAD.size : _HEAD.size + min(length, SIZE)].decode("utf-8", "replace"),
        )

    def close(self) -> None:
        with contextlib.suppress(BufferError):
            self._memory.close()
