"""Where in a program a call is made: the program's own lines, without those of libraries."""

from __future__ import annotations

import functools
import linecache
import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

_PACKAGE = Path(__file__).resolve().parents[2]
_LIBRARIES = (str(_PACKAGE), str(Path(torch.__file__).resolve().parent), "<frozen")
_STANDARD = str(Path(os.__file__).parent)
_SHOWN = 3  # places in the program


@dataclass(frozen=True)
class ProgramLine:
    """A line of the program."""

    file: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        where = f", in {self.function}" if self.function != "<module>" else ""
        return f"{self.file}:{self.line}{where}: {self.code}"


def places_of(frame: FrameType | None) -> tuple[ProgramLine, ...]:
    """The lines of the program that led here, the innermost first."""
    found: list[ProgramLine] = []
    while frame is not None and len(found) < _SHOWN:
        file = frame.f_code.co_filename
        if not _is_library(file):
            code = linecache.getline(file, frame.f_lineno).strip()
            found.append(
                ProgramLine(_shown(file), frame.f_lineno, frame.f_code.co_name, code[:200])
            )
        frame = frame.f_back
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    """Whether a file is torch's, this package's, the standard library's, or of what started the
    program: the command line."""
    if file.startswith(_LIBRARIES) or not Path(file).is_file():
        return True
    installed = "site-packages" in file
    if not installed and file.startswith(_STANDARD):
        return True
    path = Path(file)
    return (installed and "click" in path.parts) or path.name in ("consistency", "consistency.exe")


def _shown(file: str) -> str:
    path, current = Path(file), Path.cwd()
    return str(path.relative_to(current)) if path.is_relative_to(current) else file


def traceback_of(error: BaseException) -> str:
    """As Python prints it, without the frames of this package and runpy."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_library(frame.filename) or frame.filename.startswith(_LIBRARIES[1])
    ]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()
