"""Which call a process is in, where another one can read it, whatever becomes of the first: a few
bytes of a file in memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import tempfile
from pathlib import Path

SIZE = 1024
_HEAD = struct.Struct("<QBH")  # number of the last call, whether it is still running, bytes of text


class Mark:
    """Written by the process that calls (``begin`` and ``end``), read by the one that waits for
    it."""

    def __init__(self, path: str | Path) -> None:
        with open(path, "r+b") as file:  # noqa: PTH123 - a path from tempfile
            self._memory = mmap.mmap(file.fileno(), SIZE)

    @staticmethod
    def made() -> Path:
        """A new file for a mark; its maker removes it."""
        number, path = tempfile.mkstemp(prefix="consistency-", suffix=".mark")
        with os.fdopen(number, "wb") as file:
            file.write(bytes(SIZE))
        return Path(path)

    def begin(self, number: int, text: str) -> None:
        said = text.encode("utf-8", "replace")[: SIZE - _HEAD.size]
        self._memory[: _HEAD.size + len(said)] = _HEAD.pack(number, 1, len(said)) + said

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
