"""Status of the entries of known failures in the last runs: which matched, and which are no longer
needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from ...core.text import printable
from ...engine.known.standing import FILE, KnownStatus, together, told
from ...errors import ConsistencyError
from ...storage import bundle

MAX_ENTRIES = 2_000  # entries read per bundle


def standings(folders: Iterable[Path]) -> dict[str, KnownStatus]:
    """The combined status of entries in these bundles by id; damaged bundles are ignored."""
    runs: list[list[KnownStatus]] = []
    for folder in folders:
        rows: list[KnownStatus] = []
        try:
            for number, row in bundle.lines(folder / FILE):
                if number > MAX_ENTRIES:
                    break
                rows.append(KnownStatus.from_json(row))
        except (
            ConsistencyError,
            OSError,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
        ):
            pass
        runs.append(rows)
    return {standing.entry: standing for standing in together(runs)}


def to_do(known: dict[str, KnownStatus]) -> list[str]:
    """Lines that need attention: entries to remove, expired entries, flaky cases with their
    rate."""
    return [printable(line) for line in told(list(known.values()))]


def words(kept: str, known: dict[str, KnownStatus]) -> str:
    """The entry that a result matched, in a few words; ``kept`` is the row's JSON."""
    try:
        row = json.loads(kept)
        entry, verdict = str(row["entry"])[:120], str(row.get("verdict", ""))[:40]
    except (ValueError, TypeError, KeyError, RecursionError):
        return printable(kept[:200])
    standing = known.get(entry)
    parts = [f"otherwise {verdict}" if verdict else ""]
    if standing is not None:
        parts = [
            standing.reason,
            standing.ticket,
            f"until {standing.expires}" if standing.expires else "",
            *parts,
        ]
    return printable("; ".join(filter(None, parts)))
