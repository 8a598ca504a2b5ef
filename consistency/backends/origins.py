"""Where a Backend object of a program comes from, as a spec that a command can use."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path

from .base import Backend

UNNAMED = "FILE.py:NAME"  # in commands, where no spec leads to the object


def origin_of(backend: Backend) -> str:
    """``file.py:Class``, ``module:Class`` or ``file.py:object`` of an object that a program made;
    empty where no command can make it again: its class is inside a function or a notebook, or needs
    arguments, or its file is a program without ``if __name__ == "__main__"``."""
    kind = type(backend)
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None or not file.endswith(".py") or not Path(file).is_file():
        return ""
    if kind.__module__.startswith("consistency."):
        return ""
    if kind.__module__ == "__main__" and not _is_guarded(Path(file)):
        return ""
    same = next((name for name, value in vars(module).items() if value is backend), "")
    name = same or (kind.__qualname__ if _is_made_without_arguments(kind) else "")
    if not name or "<" in name or not _leads_to(module, name):
        return ""
    if kind.__module__ == "__main__" or "." not in kind.__module__:
        return f"{_short(Path(file))}:{name}"
    return f"{kind.__module__}:{name}"


def _is_guarded(file: Path) -> bool:
    """Whether a program can be imported without running."""
    try:
        return "__name__" in file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _is_made_without_arguments(kind: type) -> bool:
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        return False
    return all(
        one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        for one in parameters
    )


def _leads_to(module: object, name: str) -> bool:
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


def _short(file: Path) -> str:
    """The path from the working directory, if the file is below it."""
    here = Path.cwd()
    path = file.resolve()
    short = str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
    return short if os.sep in short or short.endswith(".py") else f".{os.sep}{short}"
