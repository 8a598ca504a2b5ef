"""Cases in ``cases.jsonl`` of a bundle, a recording or a corpus: one JSON object per line; long
literal tensors are in a folder next to the file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.model import DIRECTIONS, Case
from ..core.reading import lines
from ..core.text import one_line, shown
from ..core.verdict import verdict_name
from ..errors import BundleError, ConsistencyError
from .literals import LiteralStore

FILE = "cases.jsonl"
MAX_KINDS = 64  # kinds of failure per case

# Operator, dtype, direction, verdict, cause, backend, and whether the case was minimized.
FailureKind = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseEntry:
    """One line: a case, the directions to run, and the kinds of failure that it showed (none for a
    generated case)."""

    case: Case
    directions: tuple[str, ...] = DIRECTIONS
    failures: tuple[FailureKind, ...] = ()

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self.case.id, "directions": list(self.directions)}
        row |= {"found": [list(kind) for kind in self.failures]} if self.failures else {}
        return row | {"case": self.case.to_json()}


def case_row(case: Case) -> str:
    """A line for a case of which nothing else is known, without its end."""
    return f'{{"id": {json.dumps(case.id)}, "case": {case.line}}}'


def read_cases(
    folder: Path, ids: Collection[str] | None = None, *, max_cases: int | None = None
) -> Iterator[CaseEntry]:
    """The cases of a folder in order, only those with ``ids`` if given. Raises BundleError with
    file and line."""
    path, store = folder / FILE, LiteralStore(folder)
    for number, row in lines(path):
        if max_cases is not None and number > max_cases:
            raise BundleError(f"{path} holds more than {max_cases:,} cases")
        if not isinstance(row.get("id"), str):  # at once: millions of others may follow
            raise BundleError(f"{path}:{number}  damaged: a case has no id")
        if ids is not None and row["id"] not in ids:
            continue
        try:
            yield entry_of(row, store)
        except ConsistencyError as error:
            raise BundleError(f"{path}:{number}  {error}") from None


def entry_of(row: Mapping[str, Any], store: Mapping[str, bytes]) -> CaseEntry:
    """Parse one line. Raises a ConsistencyError that describes the damage."""
    case = Case.from_json(row.get("case"), store)
    if row.get("id") != case.id:
        raise BundleError(f"damaged: case {one_line(case.id, 80)} is filed under another id")
    directions = row.get("directions", list(DIRECTIONS))
    if (
        not isinstance(directions, list)
        or not directions
        or not all(direction in DIRECTIONS for direction in directions)
    ):
        raise BundleError(f"damaged: its directions are {shown(directions)}")
    kinds = row.get("found", [])
    if (
        not isinstance(kinds, list)
        or len(kinds) > MAX_KINDS
        or not all(_is_kind(kind) for kind in kinds)
    ):
        raise BundleError(f"damaged: it was found as {shown(kinds)}")
    return CaseEntry(case, tuple(directions), tuple(_with_current_verdict(kind) for kind in kinds))


def _is_kind(kind: object) -> bool:
    return (
        isinstance(kind, list)
        and 0 < len(kind) <= 8
        and all(isinstance(part, str) and len(part) <= 200 for part in kind)
    )


def _with_current_verdict(kind: Sequence[str]) -> FailureKind:
    """A kind of failure with the current name of its verdict."""
    return (*kind[:3], *map(verdict_name, kind[3:4]), *kind[4:])
