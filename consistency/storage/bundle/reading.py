"""Reading a bundle: its cases and its results."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...core.files import lines
from ...core.model import Case, Result
from ...errors import BundleError, ConsistencyError
from ...generate import literals
from .header import read_header
from .results import result_from_json


def cases_of(folder: Path, ids: Collection[str]) -> dict[str, Case]:
    """Some of a bundle's cases, by id; the others are not looked into. Raises BundleError."""
    return _cases(folder, ids)


def _cases(folder: Path, ids: Collection[str] | None = None) -> dict[str, Case]:
    found: dict[str, Case] = {}
    path, beside = folder / "cases.jsonl", literals.Beside(folder)
    for number, row in lines(path):
        if ids is not None and str(row.get("id")) not in ids:
            continue
        try:
            case = Case.from_json(row.get("case"), beside)
        except ConsistencyError as error:
            raise BundleError(f"{path}:{number}  {error}") from None
        if row.get("id") != case.id:
            raise BundleError(f"{path}:{number}  damaged: case {case.id} is filed under another id")
        found[case.id] = case
    return found


def read_results(folder: str | Path) -> list[Result]:
    """Every complete result of a bundle, in order. Raises BundleError with file and line."""
    folder = Path(folder)
    read_header(folder)
    cases = _cases(folder)
    return [
        result_from_json(folder / "results.jsonl", number, row, cases)
        for number, row in lines(folder / "results.jsonl")
    ]
