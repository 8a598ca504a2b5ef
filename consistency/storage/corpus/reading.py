"""Reading a corpus, which comes from another machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import recipe
from ...core.model import DIRECTIONS, Case
from ...core.verdict import verdict_name
from ...errors import BundleError, ConsistencyError
from ...generate import literals
from ..bundle import lines
from ..bundle.machine import tidy
from ..recording.folder import CORPUS, Header, read_header
from .value import Corpus

MAX_CASES = 1_000_000
MAX_KINDS = 64  # of failure that one case stands for
STANDARD = "standard"

Kind = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One case of a corpus: with the directions to be run, and the kinds of failure it was found
    with (none: it was drawn)."""

    case: Case
    directions: tuple[str, ...] = DIRECTIONS
    found: tuple[Kind, ...] = ()

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"id": self.case.id, "directions": list(self.directions)}
        row |= {"found": [list(kind) for kind in self.found]} if self.found else {}
        return row | {"case": self.case.to_json()}


def header_of(folder: Path) -> Header:
    """recording.json of a corpus. Raises BundleError."""
    if not (folder / "recording.json").exists():
        why = "it has no recording.json" if folder.is_dir() else "there is no such folder"
        raise BundleError(
            f"{folder} is not a corpus: {why}; consistency corpus make -o FOLDER makes one"
        )
    header = read_header(folder)
    if header.kind != CORPUS:
        raise BundleError(
            f"{folder} is a recording of {header.backend}, not a corpus: name the one that it "
            f"was made of"
        )
    return header


def load(folder: Path) -> Corpus:
    """The corpus in ``folder``. Raises BundleError with file and line where anything is damaged."""
    header = header_of(folder)
    cases = tuple({line.case.id: line.case for line in read(folder)}.values())
    if not cases:
        raise BundleError(
            f"{folder} holds no case; consistency corpus make -o FOLDER makes a corpus"
        )
    named = header.settings.get("name")
    return Corpus(
        tidy(named) if isinstance(named, str) and named else tidy(folder.resolve().name), cases
    )


def read(folder: Path) -> Iterator[Line]:
    """The lines of a corpus, in order. Raises BundleError with file and line."""
    path, beside = folder / "cases.jsonl", literals.Beside(folder)
    for number, row in lines(path):
        if number > MAX_CASES:
            raise BundleError(f"{path} holds more than {MAX_CASES:,} cases")
        try:
            yield parsed(row, beside)
        except ConsistencyError as error:
            raise BundleError(f"{path}:{number}  {error}") from None


def parsed(row: Mapping[str, Any], beside: Mapping[str, bytes]) -> Line:
    """One line. Raises a ConsistencyError that says what is wrong with it."""
    case = Case.from_json(row.get("case"), beside)
    if row.get("id") != case.id:
        raise BundleError(f"damaged: case {case.id} is filed under another id")
    directions = row.get("directions", list(DIRECTIONS))
    if (
        not isinstance(directions, list)
        or not directions
        or not all(d in DIRECTIONS for d in directions)
    ):
        raise BundleError(f"damaged: its directions are {str(directions)[:60]}")
    found = row.get("found", [])
    if (
        not isinstance(found, list)
        or len(found) > MAX_KINDS
        or not all(_is_kind(kind) for kind in found)
    ):
        raise BundleError(f"damaged: it was found as {str(found)[:60]}")
    return Line(case, tuple(directions), tuple(_current(kind) for kind in found))


def _current(kind: Sequence[str]) -> Kind:
    """A kind of failure in today's words: its fourth part is a verdict."""
    return (*kind[:3], *map(verdict_name, kind[3:4]), *kind[4:])


def _is_kind(kind: object) -> bool:
    return (
        isinstance(kind, list)
        and 0 < len(kind) <= 8
        and all(isinstance(part, str) and len(part) <= 200 for part in kind)
    )


def elements(case: Case) -> int:
    """How many numbers its tensors hold: what a case costs, roughly."""
    total = 0
    for tensor in recipe.tensors((case.args, case.kwargs)):
        size = 1
        for extent in tensor.base if isinstance(tensor, recipe.TensorRecipe) else tensor.shape:
            size *= extent
        total += size
    return total
