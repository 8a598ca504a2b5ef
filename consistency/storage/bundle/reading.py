"""Reading a bundle: its cases and its results."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...core.model import Case, Result
from ...core.reading import lines
from ..cases import read_cases
from .header import read_header
from .results import result_from_json


def cases_of(folder: Path, ids: Collection[str] | None = None) -> dict[str, Case]:
    """A bundle's cases by id; of those with other ``ids`` nothing is read. Raises BundleError."""
    return {entry.case.id: entry.case for entry in read_cases(folder, ids)}


def read_results(folder: str | Path) -> list[Result]:
    """Every complete result of a bundle, in order. Raises BundleError with file and line."""
    folder = Path(folder)
    read_header(folder)
    cases, path = cases_of(folder), folder / "results.jsonl"
    return [result_from_json(path, number, row, cases) for number, row in lines(path)]
