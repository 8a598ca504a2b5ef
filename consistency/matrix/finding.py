"""The bundles below some folders: who ran when and where, and whether their files have changed since they were last read.

Folders come from other machines: sizes are bounded, links that lead out of a bundle are not followed, and what is damaged is a
sentence (``problem``) and costs nothing but itself.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..report.failure import printable

MAX_SMALL = 1 << 24  # bytes of bundle.json and of environment.json
MAX_RESULTS = 1 << 34  # bytes of results.jsonl
MAX_DEPTH, MAX_BUNDLES = 12, 200_000
MAX_BACKENDS, MAX_KEYS = 64, 200
NAME, VALUE = 120, 400  # characters kept of a name and of a value
RESULTS = ("results.jsonl", "results.jsonl.gz", "results.jsonl.zst")  # plain, or packed when a run is old
_FORMATS = (1, 2)
_DATELIKE = re.compile(r"[\d\W_TtZz]+(utc)?", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """A bundle: its ``identity`` (equal in copies), ``signature`` (changes with its files), and what its header says.

    ``backends`` maps the backend's name to its environment, flat. ``results`` is the file with the results, None without one.
    """

    folder: Path
    identity: str
    signature: str
    created: datetime.datetime
    label: str
    format: int
    corpus: str = ""
    complete: bool | None = None
    results: Path | None = None
    machine: Mapping[str, str] = field(default_factory=dict)
    backends: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """What could not be read, in one line."""

    folder: Path
    words: str

    def __str__(self) -> str:
        return printable(f"{self.folder}: {self.words}")


def bundles(folders: Sequence[Path]) -> tuple[list[Found], list[Problem]]:
    """Every bundle in or below ``folders``, oldest first, copies once. Raises UsageError for a folder that is not there."""
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; name bundles, or folders with bundles in them")
        for place in _places(folder):
            try:
                one = read(place)
            except (OSError, ValueError, RecursionError) as error:
                problems.append(Problem(place, _said(error)))
                continue
            other = found.get(one.identity)
            if other is None or _size(one) > _size(other):  # of two copies the one that holds more
                found[one.identity] = one
    return sorted(found.values(), key=lambda one: (one.created, one.label, one.identity)), problems


def _said(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:160]


def _places(folder: Path) -> Iterator[Path]:
    """Folders with a bundle.json; what lies inside a bundle is not searched, and folders behind links are not either."""
    many = 0
    depth = len(folder.parts)
    for where, inside, files in os.walk(folder):
        if "bundle.json" in files:
            inside.clear()
            many += 1
            if many > MAX_BUNDLES:
                raise UsageError(f"{folder} holds more than {MAX_BUNDLES:,} bundles; name fewer folders")
            yield Path(where)
        elif len(Path(where).parts) - depth >= MAX_DEPTH:
            inside.clear()
        else:
            inside.sort()


def _size(one: Found) -> int:
    return one.results.stat().st_size * (1 if one.results.suffix == ".jsonl" else 10) if one.results is not None else -1


def read(folder: Path) -> Found:
    """One bundle's header and environments. Raises ValueError or OSError with the reason."""
    header, raw = _json(folder / "bundle.json")
    if header.get("format") not in _FORMATS:
        raise ValueError(
            f"bundle.json has format {str(header.get('format'))[:20]}; this version reads {_FORMATS[0]} and {_FORMATS[-1]}"
        )
    environment, raw_environment = _json(folder / "environment.json") if (folder / "environment.json").exists() else ({}, b"")
    created = _moment(header.get("created"))
    results = _results(folder)
    stamp = [raw, raw_environment, *(f"{p.name} {p.stat().st_size} {p.stat().st_mtime_ns}".encode() for p in [results] if p)]
    backends = {_name(name): _flat(keys) for name, keys in list(environment.items())[:MAX_BACKENDS] if isinstance(keys, dict)}
    corpus, machine = header.get("corpus"), header.get("machine")
    complete = header.get("complete")
    return Found(
        folder, _identity(header, raw_environment), _digest(*stamp), created, _label(header, folder), header["format"],
        _name(corpus.get("digest", "")) if isinstance(corpus, dict) else _name(corpus or ""),
        complete if isinstance(complete, bool) else None, results, _flat(machine) if isinstance(machine, dict) else {}, backends,
    )  # fmt: skip


def _json(path: Path) -> tuple[dict[str, Any], bytes]:
    if path.stat().st_size > MAX_SMALL:
        raise ValueError(f"{path.name} is larger than {MAX_SMALL} bytes")
    raw = path.read_bytes()
    try:
        found = json.loads(raw)
    except ValueError as error:
        raise ValueError(f"{path.name} is damaged: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is damaged: not an object")
    return found, raw


def _results(folder: Path) -> Path | None:
    """The file with the results, unless it is a link to somewhere else."""
    for name in RESULTS:
        path = folder / name
        if path.is_file():
            if path.resolve().parent != folder.resolve():
                raise ValueError(f"{name} is a link that leads out of the bundle")
            if path.stat().st_size > MAX_RESULTS:
                raise ValueError(f"{name} is larger than {MAX_RESULTS} bytes")
            return path
    return None


def _moment(value: Any) -> datetime.datetime:
    """When a run began, in UTC without saying so, as the store keeps it."""
    try:
        moment = datetime.datetime.fromisoformat(str(value))
        moment = moment.astimezone(datetime.UTC) if moment.tzinfo is not None else moment
    except (ValueError, OverflowError):
        raise ValueError(f"bundle.json says created {str(value)[:40]!r}, which is no time") from None
    return moment.replace(tzinfo=None, microsecond=0)


def _identity(header: Mapping[str, Any], environment: bytes) -> str:
    """The run's own id; of bundles that are older than ids, what a copy shares and another run does not."""
    own = header.get("id")
    if isinstance(own, str) and own:
        return own[:NAME]
    parts = {name: header.get(name) for name in ("created", "settings")}
    return _digest(json.dumps(parts, sort_keys=True).encode(), environment)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def _label(header: Mapping[str, Any], folder: Path) -> str:
    """The environment's name; where the bundle has none, that of the nearest folder that is not named after a time."""
    own = header.get("label")
    if isinstance(own, str) and own.strip():
        return _name(own.strip())
    for part in reversed(folder.resolve().parts[1:]):
        if not _DATELIKE.fullmatch(part):
            return _name(part)
    return "unnamed"


def _name(value: object) -> str:
    return printable(str(value)[:NAME]).replace("\n", " ")


def _flat(keys: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Names to values as text, objects in objects by names with dots."""
    found: dict[str, str] = {}
    for key, value in list(keys.items())[:MAX_KEYS]:
        name = f"{before}{_name(key)}"
        if isinstance(value, dict) and before.count(".") < 2:
            found |= _flat(value, f"{name}.")
        elif value is not None and value != "":
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[name[:NAME]] = printable(text[:VALUE])
    return dict(list(found.items())[:MAX_KEYS])
