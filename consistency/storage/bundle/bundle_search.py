"""Many bundles: found in folders, in the order in which they were made, each run once; what is
damaged is told and passed over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.files import PACKED
from ...errors import BundleError
from .header import read_header

DEPTH = 4  # folders below those that are named
MAX_BUNDLES = 100_000


@dataclass(frozen=True)
class ListedBundle:
    """A bundle by its folder, with its header as the newest format has it."""

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
        """When, in UTC as ISO 8601: texts sort by time."""
        return str(self.header["created"])


def gather(places: Iterable[Path]) -> tuple[list[ListedBundle], list[str]]:
    """The bundles that ``places`` are or hold, oldest first, and a line for each that cannot be
    read or is there twice.

    Of a run whose id is there twice (a copy, or a part of it) the bundle with more results is
    taken. Raises BundleError where a place is neither a bundle nor a folder.
    """
    found: dict[str, ListedBundle] = {}
    problems: list[str] = []
    for folder in _folders(places):
        try:
            one = ListedBundle(folder, read_header(folder))
        except BundleError as error:
            problems.append(f"passed over: {error}")
            continue
        twin = found.get(one.id)
        if twin is not None:
            kept, left = (one, twin) if _size(one) > _size(twin) else (twin, one)
            problems.append(
                f"passed over: {left.folder} is the same run as {kept.folder} ({one.id})"
            )
            found[one.id] = kept
        else:
            found[one.id] = one
    return sorted(found.values(), key=lambda one: (one.created, one.id)), problems


def _folders(places: Iterable[Path]) -> list[Path]:
    found: dict[Path, Path] = {}
    for place in places:
        if not place.is_dir():
            what = "is not a folder" if place.exists() else "is not there"
            raise BundleError(f"{place} {what}: name a bundle, or a folder that holds some")
        for folder in _below(place, DEPTH):
            found.setdefault(folder.resolve(), folder)
            if len(found) > MAX_BUNDLES:
                raise BundleError(f"{place} holds more than {MAX_BUNDLES} bundles")
    return list(found.values())


def _below(folder: Path, depth: int) -> Iterable[Path]:
    if (folder / "bundle.json").exists():
        yield folder
    elif depth:
        for inner in sorted(p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()):
            yield from _below(inner, depth - 1)


def _size(one: ListedBundle) -> int:
    """Bytes of its results as they are when they are not packed."""
    path = one.folder / "results.jsonl"
    if path.exists():
        return path.stat().st_size
    try:
        with path.with_name(f"{path.name}{PACKED}").open("rb") as stream:
            stream.seek(-4, os.SEEK_END)
            return int.from_bytes(stream.read(4), "little")  # as gzip notes it
    except OSError:
        return 0
