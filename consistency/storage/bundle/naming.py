"""Names within a bundle: its page, and the folder of a failure."""

from __future__ import annotations

import hashlib
import re

from ...core.model import Result

PAGE = "report.html"
MAX_NAME = 120  # characters of a folder's name; Windows allows 260 for the whole path
_SPEC = re.compile(r"[a-z][a-z0-9]*(:[0-9]+)?(\+[a-z][a-z0-9]*(=[a-z0-9]+)?)*")
_IN_NAMES = str.maketrans({":": "_", "+": "_", "=": "-"})
_PORTABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_UNPORTABLE = re.compile(r"[^A-Za-z0-9_-]+")


def failure_id(result: Result) -> str:
    """A folder name that every file system takes: case id, backend and direction, made of letters,
    digits, minus and _.

    What is no spec, or too long, ends with a hash instead: no two failures share a folder, not even
    where case is ignored.
    """
    return folder_name(result.case.id, result.backend, result.direction)


def folder_name(case_id: str, backend: str, direction: str) -> str:
    """The same, of a result that is known by these."""
    name = f"{case_id}-{backend.translate(_IN_NAMES)}-{direction}"
    if _SPEC.fullmatch(backend) and _PORTABLE.fullmatch(name) and len(name) <= MAX_NAME:
        return name
    full = f"{case_id}\n{backend}\n{direction}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(full).hexdigest()[:8]
    return f"{_UNPORTABLE.sub('_', name).lstrip('-')[: MAX_NAME - 9]}-{digest}"
