"""One writer at a time in a folder: an operating system lock, which ends with the process that
holds it.

``filelock`` is not used: on Unix it leaves its file in the folder, which is then copied along; it
names no holder; and on a file system without locks its substitute survives a kill.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import os
import sys
from pathlib import Path

from ..errors import BundleError
from .regular_files import descriptor_to_change

FILE = "running.lock"
_FAR = 1 << 30  # Windows locks bytes and makes them unreadable: lock one beyond the end
_LOCK_CONFLICTS = (errno.EACCES, errno.EAGAIN, errno.EDEADLK, errno.EWOULDBLOCK)


class Lock:
    """Holds ``folder`` until :meth:`release`. Raises BundleError if another run writes there, or
    the lock is no regular file; OSError."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._file: int | None = None
        while self._file is None:
            opened = descriptor_to_change(self._path, os.O_CREAT)
            try:
                _take(opened)
                if self._is_current(opened):  # or the previous run removed it while we opened it
                    self._file = opened
            except OSError as error:
                if error.errno in _LOCK_CONFLICTS:
                    raise BundleError(
                        f"{folder} is being written by another run{_whose(opened)}; {_REMEDY}"
                    ) from None
                # a file system without locks (some network drives): continue without
                self._file = opened
            finally:
                if self._file is None:
                    os.close(opened)
        now = f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S}"
        # On a full disk the lock holds, and its holder has no name.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.write(self._file, f"process {os.getpid()} since {now}\n".encode("ascii"))

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._file is None:
            return
        if sys.platform != "win32":  # Windows cannot remove an open file
            with contextlib.suppress(OSError):
                if self._is_current(self._file):  # not another run's, in a folder of the same name
                    self._path.unlink()
        os.close(self._file)
        self._file = None
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _is_current(self, opened: int) -> bool:
        try:
            return os.path.samestat(os.fstat(opened), self._path.stat())
        except FileNotFoundError:
            return False


def _whose(opened: int) -> str:
    with contextlib.suppress(OSError, ValueError):
        text = os.read(opened, 80).decode("ascii").strip()
        return f" ({text})" if text.isprintable() and text else ""
    return ""


_REMEDY = "wait until it has ended, or name another folder"

if sys.platform == "win32":
    import msvcrt

    def _take(opened: int) -> None:
        os.lseek(opened, _FAR, os.SEEK_SET)
        msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)
        os.lseek(opened, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
