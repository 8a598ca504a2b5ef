"""Folders that commands write: new or empty ones, or those of the same kind; and the folders in
them, which are no links."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from ..errors import BundleError, UsageError
from . import locking
from .files import is_temporary, write_json
from .reading import read_object
from .regular_files import is_link, regular

# Files in a folder that count as nothing: what systems and version control leave there.
_NOTHING = frozenset({".DS_Store", ".gitignore", ".gitkeep", "Thumbs.db", "desktop.ini"})
MARKER = "consistency.json"  # of a folder whose kind is not told by a header of its own


def subfolder(folder: Path, *names: str) -> Path:
    """A folder in ``folder``, made if needed. Raises BundleError if a link or a file is in its
    place, OSError."""
    for name in names:
        folder = folder / name
        if is_link(folder):
            raise BundleError(f"{folder} is a link, and nothing is written through it: remove it")
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise BundleError(f"{folder} is no folder: remove it") from None
    return folder


def is_unused(folder: Path) -> bool:
    """Whether nothing is in the way of a new folder's files. Raises OSError."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return True
    ignored = {*_NOTHING, locking.FILE}
    return all(name in ignored or is_temporary(name) for name in names)


def unused_folder(folder: Path) -> Path:
    """``folder``, or where it holds something already, ``folder-2`` and so on."""
    found, number = folder, 2
    while not is_unused(found):
        found, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return found


def is_ours(folder: Path, kind: str, header: str, remedy: str) -> bool:
    """Whether ``folder`` is of the ``kind`` that its file ``header`` tells; False if it is new or
    empty. Raises UsageError if it holds anything else, which must not be touched, BundleError if
    the header is no regular file, OSError."""
    with contextlib.suppress(FileNotFoundError):
        regular(folder / header)
        return True
    if is_unused(folder):
        return False
    raise UsageError(f"{folder} holds something that is no {kind}; {remedy}")


def remove_files(folder: Path, names: Collection[str]) -> None:
    """Remove files in ``folder`` by their relative names, and folders that are empty then; links
    and what is behind them stay."""
    emptied = set()
    for name in names:
        path = folder / name
        with contextlib.suppress(BundleError, FileNotFoundError, NotADirectoryError):
            if regular(path, folder) == path:
                path.unlink()
                emptied.add(path.parent)
    for parent in emptied - {folder}:
        with contextlib.suppress(OSError):  # it is not empty
            parent.rmdir()


def files_of(folder: Path, kind: str) -> frozenset[str] | None:
    """The files that the marker of a folder of this ``kind`` lists; None without a marker. Raises
    UsageError if it is of another kind, BundleError if it is damaged, OSError."""
    try:
        marker = read_object(folder / MARKER, f"a {kind}")
    except FileNotFoundError:
        return None
    if marker.get("kind") != kind:
        raise UsageError(f"{folder / MARKER} does not describe a {kind}; name another folder")
    files = marker.get("files")
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise BundleError(f"{folder / MARKER} does not list files")
    return frozenset(files)


def mark(folder: Path, kind: str, files: Collection[str]) -> None:
    """Write the marker of a folder, with the relative names of the ``files`` that were written.
    Raises OSError."""
    write_json(folder / MARKER, {"format": 1, "kind": kind, "files": sorted(files)})
