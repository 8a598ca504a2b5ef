"""Reading a corpus, which is not trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...core import recipe
from ...core.model import Case
from ...errors import BundleError
from ..bundle.machine import tidy
from ..cases import CaseEntry, read_cases
from ..header import read_header_file
from ..recording.header import CORPUS, FILE, FORMAT, Header, read_header
from .corpus import Corpus

MAX_CASES = 1_000_000
STANDARD = "standard"


def header_of(folder: Path) -> Header:
    """Read recording.json of a corpus. Raises BundleError."""
    if not os.path.lexists(folder / FILE):
        remedy = "; consistency corpus make -o FOLDER makes one"
        read_header_file(folder, FILE, CORPUS, FORMAT, remedy=remedy)
    header = read_header(folder)
    if header.kind != CORPUS:
        raise BundleError(
            f"{folder} is a recording of {header.backend}, not a corpus: name the one that it "
            f"was made of"
        )
    return header


def load(folder: Path) -> Corpus:
    """Read the corpus in ``folder``. Raises BundleError with file and line."""
    header = header_of(folder)
    cases = tuple({entry.case.id: entry.case for entry in read(folder)}.values())
    if not cases:
        raise BundleError(
            f"{folder} holds no case; consistency corpus make -o FOLDER makes a corpus"
        )
    named = header.settings.get("name")
    return Corpus(
        tidy(named) if isinstance(named, str) and named else tidy(folder.resolve().name), cases
    )


def read(folder: Path) -> Iterator[CaseEntry]:
    """The lines of a corpus, in order. Raises BundleError with file and line."""
    return read_cases(folder, max_cases=MAX_CASES)


def elements(case: Case) -> int:
    """Number of elements in the case's tensors, a rough measure of its cost."""
    total = 0
    for tensor in recipe.tensors((case.args, case.kwargs)):
        size = 1
        for extent in tensor.base if isinstance(tensor, recipe.TensorRecipe) else tensor.shape:
            size *= extent
        total += size
    return total
