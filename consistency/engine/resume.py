"""The results of an interrupted run, for completing it."""

from __future__ import annotations

from pathlib import Path

from ..core.model import Key, Result, kind
from ..core.reading import lines
from ..storage.bundle.header import read_header
from ..storage.bundle.reading import cases_of
from ..storage.bundle.results import result_from_json
from .events import ResumeState


def earlier_results(folder: Path) -> ResumeState:
    """The results in the bundle of an interrupted run; none without a bundle. Raises
    BundleError."""
    if not (folder / "bundle.json").exists():
        return ResumeState()
    read_header(folder)
    cases, path = cases_of(folder), folder / "results.jsonl"
    judged: dict[Key, Result] = {}
    shrunk: dict[tuple[str, ...], Result] = {}
    for number, row in lines(path):
        result = result_from_json(path, number, row, cases)
        if row.get("shrunk") is True:
            shrunk[kind(result)] = result
        elif result.comparison is not None:
            judged[result.key] = result
    return ResumeState(judged, shrunk)
