"""Regular files in folders that may come from elsewhere: no device, pipe or socket is opened, and
no link leads out of the folder.

A folder from elsewhere is data, which does not change while it is read, so a check of the path
before it is opened suffices. ``O_NOFOLLOW``, which Windows lacks, and a check of the open file are
added for the case that it does change.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import BundleError

# Windows translates line ends without O_BINARY, and has no O_NOFOLLOW and no O_NONBLOCK.
_COMMON = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe must not wait for its other end
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_MOUNT_POINT = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT: a junction of Windows
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link",
}  # fmt: skip


def is_link(path: Path) -> bool:
    """Whether ``path`` is a symbolic link or a junction; False if nothing is there."""
    try:
        return _links(path.lstat())
    except FileNotFoundError:
        return False


def _links(status: os.stat_result) -> bool:
    tag = getattr(status, "st_reparse_tag", 0)
    return stat.S_ISLNK(status.st_mode) or tag == _MOUNT_POINT


def regular(path: Path, folder: Path | None = None, *, follow: bool = False) -> Path:
    """The regular file that ``path`` is or leads to.

    No link may lead out of ``folder`` [default: the file's own]; ``follow``: the user named the
    file, and links lead anywhere. Raises BundleError for anything else than such a file,
    FileNotFoundError, OSError.
    """
    target, inside = path, folder or path.parent
    if not follow and any(is_link(part) for part in _parts(path, inside)):
        try:
            target, inside = path.resolve(), inside.resolve()
        except RuntimeError:
            raise BundleError(f"{path} is a link that leads to itself") from None
        if not target.is_relative_to(inside):
            raise BundleError(
                f"{path} is a link that leads out of its folder: put what it leads to in its place"
            )
    _check(path, target.stat())
    return target


def open_to_read(path: Path, folder: Path | None = None, *, follow: bool = False) -> io.FileIO:
    """Open a file that :func:`regular` accepts. Raises what it raises."""
    target = regular(path, folder, follow=follow)
    flags = os.O_RDONLY | _NONBLOCK | _COMMON | (0 if follow else _NOFOLLOW)
    opened = io.FileIO(os.open(target, flags), "rb")
    try:
        _check(path, os.fstat(opened.fileno()))
    except BaseException:
        opened.close()
        raise
    return opened


def creating(path: str, _: int) -> int:
    """An opener that creates a file. Raises FileExistsError if anything has this name, OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _COMMON, 0o666)


def open_to_change(path: Path, *, append: bool = False, create: bool = False) -> io.FileIO:
    """Open a file for changes in place, which must not be a link, nor one of several names of the
    same file. Raises BundleError, FileNotFoundError without ``create``, OSError."""
    flags = (os.O_APPEND if append else 0) | (os.O_CREAT if create else 0)
    return io.FileIO(descriptor_to_change(path, flags), "ab+" if append else "rb+")


def descriptor_to_change(path: Path, flags: int) -> int:
    """As :func:`open_to_change`: a file descriptor, with ``flags`` added to reading and writing."""
    with contextlib.suppress(FileNotFoundError):
        _check_own(path, path.lstat())
    opened = os.open(path, os.O_RDWR | _NOFOLLOW | _NONBLOCK | _COMMON | flags, 0o666)
    try:
        _check_own(path, os.fstat(opened))
    except BaseException:
        os.close(opened)
        raise
    return opened


def _parts(path: Path, inside: Path) -> Iterator[Path]:
    """The paths below ``inside`` that lead to ``path``, and ``path``."""
    for name in path.relative_to(inside).parts:
        inside = inside / name
        yield inside


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise BundleError(f"{path} is {kind}: a regular file belongs there")


def _check_own(path: Path, status: os.stat_result) -> None:
    if _links(status):
        raise BundleError(f"{path} is a link, which is not written through: remove it")
    _check(path, status)
    if status.st_nlink > 1:
        raise BundleError(
            f"{path} is another name of a file elsewhere, which would change, too: put a copy in "
            "its place"
        )
