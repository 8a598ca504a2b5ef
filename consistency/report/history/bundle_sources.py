"""The bundles below some folders, and signatures that show whether their files changed.

Folders may come from other machines: sizes are bounded, links that lead out of a bundle are not
followed, and damage is reported as a line of text.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.reading import MAX_FILE
from ...core.regular_files import regular
from ...core.text import printable
from ...errors import BundleError
from ...storage.bundle import read_environment
from ...storage.bundle.bundle_search import ListedBundle, gather

MAX_BACKENDS, MAX_KEYS = 64, 200
NAME, VALUE = 120, 400  # characters kept of a name and of a value
RESULTS = (
    "results.jsonl",
    "results.jsonl.gz",
    "results.jsonl.zst",
)  # plain, or packed when a run is old


@dataclass(frozen=True)
class BundleSource:
    """A bundle: its ``identity`` (equal in copies), ``signature`` (changes with its files), and
    fields of its header.

    ``created`` is in UTC without a time zone. ``backends`` maps a backend's name to its flattened
    environment. ``results`` is the file with the results, or None.
    """

    folder: Path
    identity: str
    signature: str
    created: datetime.datetime
    label: str
    corpus: str = ""
    complete: bool | None = None
    results: Path | None = None
    machine: Mapping[str, str] = field(default_factory=dict)
    backends: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def bundles(folders: Sequence[Path]) -> tuple[list[BundleSource], list[str]]:
    """Every bundle in or below ``folders``, oldest first, each run once; and a line for each that
    is damaged or a duplicate.

    Raises BundleError for a missing folder.
    """
    listed, problems = gather(folders)
    found = []
    for one in listed:
        try:
            found.append(_read(one))
        except (BundleError, OSError) as error:
            problems.append(f"passed over: {one.folder}: {error}")
    return sorted(found, key=lambda one: (one.created, one.label, one.identity)), [
        printable(line) for line in problems
    ]


def _read(one: ListedBundle) -> BundleSource:
    header, results = one.header, _results(one.folder)
    spelled = header["settings"].get("specs", {})
    backends = {
        _name(name): _flat(
            keys | ({"spec": str(spelled[name])} if spelled.get(name, name) != name else {})
        )
        for name, keys in list(read_environment(one.folder).items())[:MAX_BACKENDS]
    }
    created = datetime.datetime.fromisoformat(one.created).replace(tzinfo=None)
    corpus, complete = header.get("corpus"), header.get("complete")
    stamps = [
        (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        for path in [results]
        if path is not None
    ]
    said = json.dumps(
        [{**header, "settings": None}, backends, stamps, str(one.folder)],
        sort_keys=True,
        default=str,
    )
    return BundleSource(
        one.folder, one.id, hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:32],
        created, _name(one.label),
        _name(corpus.get("digest", "")) if isinstance(corpus, dict) else "",
        complete if isinstance(complete, bool) else None,
        results, _flat(header["machine"]), backends,
    )  # fmt: skip


def _results(folder: Path) -> Path | None:
    """The file with the results. Raises BundleError if it is no regular file of the bundle, or too
    large."""
    for name in RESULTS:
        with contextlib.suppress(FileNotFoundError):
            path = regular(folder / name)
            if path.stat().st_size > MAX_FILE:
                raise BundleError(f"{name} is larger than {MAX_FILE} bytes")
            return path
    return None


def _name(value: object) -> str:
    return printable(str(value)[:NAME]).replace("\n", " ")


def _flat(keys: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Names to values as text, with nested objects flattened to dotted names."""
    found: dict[str, str] = {}
    for key, value in list(keys.items())[:MAX_KEYS]:
        name = f"{before}{_name(key)}"
        if isinstance(value, dict) and before.count(".") < 2:
            found |= _flat(value, f"{name}.")
        elif value is not None and value != "":
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[name[:NAME]] = printable(text[:VALUE])
    return dict(list(found.items())[:MAX_KEYS])
