"""The packaged tolerances as they were read once: JSON in the user's cache, because checking 12,000
lines of YAML costs every command some 0.9 s of processor time.

A file is named by the SHA-256 of the text, of the code that reads it and of the versions, so that
none is ever outdated. One that is missing or damaged costs that time again, and nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from torch import __version__ as torch_version

from ..core.files import write_text
from ..core.paths import cache
from ..core.version import __version__
from .known import Expectation
from .known.predicate import Predicate
from .rule_entries import Entry
from .rule_values import RangeRule

MAX_BYTES = 1 << 24
MOST = 4  # files, of 1.2 MB each: environments with other versions take turns
Read = tuple[tuple[Entry, ...], tuple[Expectation, ...]]


def find(text: str) -> Read | None:
    """The entries and the expectations in ``text``, if they were kept."""
    try:
        path = _path(text)
        if path.stat().st_size > MAX_BYTES:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        entries = tuple(_entry(row) for row in found["entries"])
        return entries, tuple(e for row in found["expectations"] for e in _expectations(row))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def keep(text: str, entries: Iterable[Entry], expectations: Iterable[Expectation]) -> None:
    """Keeps what was read from ``text``; where nothing can be written, nothing is."""
    kept = {
        "entries": [dataclasses.asdict(entry) for entry in entries],
        "expectations": [
            {**fields, "operator": [name for name, _ in alike]}
            for fields, alike in itertools.groupby(map(_fields, expectations), lambda pair: pair[1])
        ],
    }
    with contextlib.suppress(OSError):
        path = _path(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(kept, default=str))  # dates and predicates as they are written
        others = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for outdated in others[:-MOST]:
            outdated.unlink()


def _fields(entry: Expectation) -> tuple[str, dict[str, Any]]:
    """The operator of an expectation, and its other fields that are not as by default."""
    others = (part for part in dataclasses.fields(entry) if part.name != "operator")
    return entry.operator, {
        part.name: value for part in others if (value := getattr(entry, part.name)) != part.default
    }


def _entry(row: Mapping[str, Any]) -> Entry:
    values = dict(row["values"])
    if "ranges" in values:
        values["ranges"] = tuple(RangeRule(**item) for item in values["ranges"])
    return Entry(**{**row, "dtypes": tuple(row["dtypes"]), "values": values})


def _expectations(row: Mapping[str, Any]) -> Iterator[Expectation]:
    given = dict(row)
    given["verdicts"] = tuple(row["verdicts"])
    for day in given.keys() & {"since", "expires"}:
        given[day] = date.fromisoformat(given[day])
    if "when" in given:
        given["when"] = Predicate(given["when"])
    for name in given.pop("operator"):
        yield Expectation(operator=name, **given)


def _path(text: str) -> Path:
    key = hashlib.sha256(f"{__version__}\0{torch_version}\0{_code()}\0{text}".encode())
    return cache() / "tolerances" / f"{key.hexdigest()[:32]}.json"


@functools.cache
def _code() -> str:
    """A hash of the code that reads tolerances. Raises OSError where it is in no folder."""
    total, folder = hashlib.sha256(), Path(__file__).parent
    for path in (*sorted(folder.glob("*.py")), *sorted((folder / "known").glob("*.py"))):
        total.update(path.read_bytes())
    return total.hexdigest()
