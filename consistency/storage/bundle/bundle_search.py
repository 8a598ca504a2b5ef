"""Bundles in folders, in order of creation, each run once. Damaged bundles are reported and
skipped."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.reading import PACKED
from ...core.regular_files import is_link, open_to_read
from ...errors import BundleError
from .header import read_header

DEPTH = 4  # levels searched below the named folders
MAX_BUNDLES = 100_000
MAX_ENTRIES = 2_000_000  # looked at in all


@dataclass(frozen=True)
class ListedBundle:
    """A bundle's folder and its header in the newest format."""

    folder: Path
    header: Mapping[str, Any] = field(hash=False)

    @property
    def id(self) -> str:
        return str(self.header["id"])

    @property
    def label(self) -> str:
        return str(self.header["label"])

    @property
    def created(self) -> str:
        """Time in UTC as ISO 8601, so that texts sort by time."""
        return str(self.header["created"])


def gather(places: Iterable[Path]) -> tuple[list[ListedBundle], list[str]]:
    """The bundles that ``places`` are or contain, oldest first, and a line for each that is damaged
    or a duplicate.

    Of several bundles of the same run (complete or partial copies) the one with the most results is
    taken. Raises BundleError if a place is not a folder.
    """
    by_id: dict[str, ListedBundle] = {}
    problems: list[str] = []
    for folder in _folders(places):
        try:
            bundle = ListedBundle(folder, read_header(folder))
        except BundleError as error:
            problems.append(f"passed over: {error}")
            continue
        duplicate = by_id.get(bundle.id)
        if duplicate is not None:
            larger, skipped = (
                (bundle, duplicate) if _size(bundle) > _size(duplicate) else (duplicate, bundle)
            )
            problems.append(
                f"passed over: {skipped.folder} is the same run as {larger.folder} ({bundle.id})"
            )
            by_id[bundle.id] = larger
        else:
            by_id[bundle.id] = bundle
    return sorted(by_id.values(), key=lambda bundle: (bundle.created, bundle.id)), problems


def _folders(places: Iterable[Path]) -> list[Path]:
    folders: dict[Path, Path] = {}
    left = itertools.count(MAX_ENTRIES, -1)
    for place in places:
        if not place.is_dir():
            reason = "is not a folder" if place.exists() else "is not there"
            raise BundleError(f"{place} {reason}: name a bundle, or a folder that holds some")
        for folder in _below(place, DEPTH, left):
            folders.setdefault(folder.resolve(), folder)
            if len(folders) > MAX_BUNDLES:
                raise BundleError(f"{place} holds more than {MAX_BUNDLES} bundles")
    return list(folders.values())


def _below(folder: Path, depth: int, left: Iterator[int]) -> Iterable[Path]:
    if os.path.lexists(folder / "bundle.json"):
        yield folder
    elif depth:
        for inner in sorted(_subfolders(folder, left)):
            yield from _below(inner, depth - 1, left)


def _subfolders(folder: Path, left: Iterator[int]) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if next(left) <= 0:
                    raise BundleError(
                        f"{folder} is in a folder of more than {MAX_ENTRIES:,} files: name one "
                        "that holds bundles"
                    )
                if entry.is_dir(follow_symlinks=False) and not is_link(folder / entry.name):
                    yield folder / entry.name
    except OSError as error:
        raise BundleError(f"{folder} cannot be read: {error.strerror}") from None


def _size(bundle: ListedBundle) -> int:
    """Size of its uncompressed results in bytes."""
    path = bundle.folder / "results.jsonl"
    if path.exists():
        return path.stat().st_size
    try:
        with open_to_read(path.with_name(f"{path.name}{PACKED}")) as stream:
            stream.seek(-4, os.SEEK_END)
            return int.from_bytes(stream.read(4), "little")  # gzip's trailer
    except (BundleError, OSError):
        return 0
