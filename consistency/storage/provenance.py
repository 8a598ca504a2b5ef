"""Which files of cases this user's own commands wrote on this machine.

A case is data, but it chooses the function that is called and its arguments. Those of the user's
own runs need no supervision; those of anybody else are run with less trust
(:mod:`consistency.cli.supervision`). The user's cache folder holds one empty file per file of
cases, named by the SHA-256 of its content: a copy is recognized, a changed one is not, and nothing
in a folder from elsewhere can pretend to be ours. Without the cache everything is foreign.

Needs neither torch nor NumPy: a command decides with it before it loads them.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from ..core import paths
from ..core.reading import lines, opened
from ..errors import BundleError

CASES = "cases.jsonl"
_CHUNK = 1 << 20
_MAX_BYTES = 1 << 30  # hashed in a second


def register(cases: Path) -> None:
    """Remember that this file of cases is the user's own. Never raises: without a cache it counts
    as foreign."""
    with contextlib.suppress(OSError, BundleError):
        place = _place(cases)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def is_own(cases: Path) -> bool:
    """Whether a command of this user wrote this file of cases, packed or not."""
    try:
        return _place(cases).is_file()
    except (OSError, BundleError):
        return False


def is_own_folder(folder: Path) -> bool:
    """Whether the cases of a bundle, a corpus, a recording or a failure's folder are the user's
    own."""
    holds_many = any((folder / name).is_file() for name in ("recording.json", "bundle.json"))
    return is_own(folder / (CASES if holds_many else "case.json"))


def names_own_case(text: str, identifier: str | None, reports: Path) -> bool:
    """Whether ``text`` names a case of the user's own, in the ways of
    :func:`consistency.storage.lookup.find`; a case that is written out is foreign."""
    if text.lstrip().startswith("{"):
        return False
    path = Path(text)
    with contextlib.suppress(OSError, ValueError, BundleError):
        if path.is_dir():
            return is_own_folder(path)
        if path.is_file():
            return is_own(path)
        for folder in sorted((p.parent for p in reports.glob("*/bundle.json")), reverse=True):
            if _holds(folder, text):
                return is_own(folder / CASES)
    return False


def _place(cases: Path) -> Path:
    total, count = hashlib.sha256(), 0
    with opened(cases) as stream:
        while chunk := stream.read(_CHUNK):
            total.update(chunk)
            count += len(chunk)
            if count > _MAX_BYTES:
                raise BundleError(f"{cases} is larger than a file of one's own cases")
    return paths.cache() / "own-cases" / total.hexdigest()


def _holds(folder: Path, name: str) -> bool:
    """Whether a bundle holds the case of this id, or the failure of this name."""
    rows = (str(row.get("id")) for _, row in lines(folder / CASES))
    return any(name == case or name.startswith(f"{case}-") for case in rows)
