"""The manifest of a folder: its files by name, size and SHA-256, to detect damage and replacement.

The hashes do not authenticate the writer, only that the files belong together; nothing in a folder
is executed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from typing_extensions import TypedDict

from ..core.files import is_temporary, write_json
from ..core.reading import read_object
from ..core.regular_files import open_to_read, regular
from ..core.schema import Count, Name, Text
from ..core.schema import check as check_type
from ..core.text import shown
from ..errors import BundleError
from .header import check_format

FILE = "manifest.json"
FORMAT = 1
MAX_MANIFEST = 1 << 20
MAX_BYTES = 1 << 32  # of all files
_CHUNK = 1 << 20


class FileEntry(TypedDict):
    """A file's size and hash."""

    bytes: Count
    sha256: Text


class Manifest(TypedDict):
    """manifest.json: every file by its path within the folder."""

    format: int
    files: dict[Name, FileEntry]


def seal(folder: Path) -> None:
    """Write a manifest of every file under ``folder``."""
    files: dict[str, FileEntry] = {}
    for path in sorted(
        p
        for p in folder.rglob("*")
        if p.is_file() and not p.is_symlink() and p.name != FILE and not is_temporary(p.name)
    ):
        files[path.relative_to(folder).as_posix()] = {
            "bytes": path.stat().st_size,
            "sha256": _digest(path),
        }
    manifest: Manifest = {"format": FORMAT, "files": files}
    write_json(folder / FILE, manifest)


def check(folder: Path) -> bool:
    """Whether ``folder`` has a manifest. Raises BundleError if a file does not match it."""
    path = folder / FILE
    if not path.is_file():
        return False
    total = 0
    for name, entry in _read(path).items():
        place = _path_in_folder(folder, name)
        try:
            if regular(place, folder) != place:
                raise BundleError(f"{place} is a link; {folder} is damaged")
            size = place.stat().st_size
            total += size
            if total > MAX_BYTES:
                raise BundleError(f"{path} lists more than {MAX_BYTES:,} bytes")
            if size != entry["bytes"]:
                raise BundleError(
                    f"{place} has {size} bytes, {path} says {entry['bytes']}: damaged or replaced"
                )
            if _digest(place) != entry["sha256"]:
                raise BundleError(
                    f"{place} does not match its SHA-256 in {path}: damaged or replaced"
                )
        except FileNotFoundError:
            raise BundleError(f"{place} is missing; {folder} is damaged") from None
        except OSError as error:
            raise BundleError(f"{place} cannot be read: {error.strerror}") from None
    return True


def _read(path: Path) -> dict[str, FileEntry]:
    data = read_object(path, "a manifest", MAX_MANIFEST)
    check_format(path, data, FORMAT)
    check_type(data, Manifest, path)
    files: dict[str, FileEntry] = data["files"]
    return files


def _path_in_folder(folder: Path, name: str) -> Path:
    """The path of ``name`` in ``folder``. Raises BundleError if it is outside the folder."""
    parts = PurePosixPath(name).parts
    if (
        not parts
        or PurePosixPath(name).is_absolute()
        or any(part == ".." or ":" in part or "\\" in part for part in parts)
    ):
        raise BundleError(
            f"{folder / FILE} names {shown(name)}, which is not a file of this folder"
        )
    return folder.joinpath(*parts)


def _digest(path: Path) -> str:
    total = hashlib.sha256()
    with open_to_read(path) as stream:
        while chunk := stream.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()
