"""Reading a bundle: its cases, its results, and what an interrupted run left."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from .. import literals
from ..errors import BundleError, ConsistencyError
from ..events import Earlier, Key, kind
from ..model import Case, Result
from .files import lines
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
    return [result_from_json(folder / "results.jsonl", number, row, cases) for number, row in lines(folder / "results.jsonl")]


def earlier_results(folder: Path) -> Earlier:
    """What an interrupted run left in its bundle, for resuming it; nothing when there is no bundle yet. Raises BundleError."""
    if not (folder / "bundle.json").exists():
        return Earlier()
    read_header(folder)
    cases, path = _cases(folder), folder / "results.jsonl"
    judged: dict[Key, Result] = {}
    shrunk: dict[tuple[str, ...], Result] = {}
    for number, row in lines(path):
        result = result_from_json(path, number, row, cases)
        if row.get("shrunk") is True:
            shrunk[kind(result)] = result
        elif result.comparison is not None:
            judged[result.key] = result
    return Earlier(judged, shrunk)
