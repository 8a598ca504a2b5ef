"""What is in the folder that :mod:`consistency.storage.recording` describes: its header, its cases,
and the lines of its outcomes.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...core.model import DIRECTIONS, Case, Outcome
from ...core.version import __version__
from ...errors import BundleError, ConsistencyError
from ...generate import literals
from ..bundle import lines

FORMAT = 1
CORPUS, RECORDING = "corpus", "recording"
STATUSES = ("ok", "raised", "crash", "timeout", "unsupported", "fallback", "unavailable")
MAX_TEXT = 2000


@dataclass(frozen=True)
class Header:
    """recording.json. ``configurations`` are further environments of the same backend, by name,
    that single outcomes refer to."""

    kind: str
    backend: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    configurations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    complete: bool = False

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "format": FORMAT,
            "kind": self.kind,
            "consistency": __version__,
            "torch": torch.__version__,
        }
        body |= {
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "complete": self.complete,
        }
        if self.kind == RECORDING:
            body |= {"backend": self.backend, "environment": dict(self.environment)}
            body |= (
                {"configurations": {k: dict(v) for k, v in self.configurations.items()}}
                if self.configurations
                else {}
            )
        return body | {"settings": dict(self.settings)}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of outcomes.jsonl: what is known of one case in one direction without reading a
    tensor."""

    id: str
    case_id: str
    direction: str
    configuration: str
    problem: str
    # its tensors are empty ones on the meta device until :meth:`Recording.outcome` reads them
    outcome: Outcome
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of cases.jsonl."""

    case: Case
    directions: tuple[str, ...]


def read_header(folder: Path) -> Header:
    """recording.json. Raises BundleError."""
    path = folder / "recording.json"
    try:
        if path.stat().st_size > 1 << 24:
            raise BundleError(f"{path} is larger than it may be")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        why = "it has no recording.json" if folder.is_dir() else "there is no such folder"
        raise BundleError(f"{folder} is not a recording: {why}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None
    if not isinstance(data, dict) or data.get("kind") not in (CORPUS, RECORDING):
        raise BundleError(f"{path} does not describe a recording")
    if data.get("format") != FORMAT:
        raise BundleError(
            f"{path} has format {data.get('format')!r:.40}; this version reads format {FORMAT}"
        )
    configurations = data.get("configurations", {})
    backend, settings = data.get("backend", ""), data.get("settings", {})
    if (
        not isinstance(configurations, dict)
        or not isinstance(backend, str)
        or not isinstance(settings, dict)
    ):
        raise BundleError(
            f"{path} does not describe a recording: 'backend', 'settings' or 'configurations' "
            f"is "
            f"malformed"
        )
    if data["kind"] == RECORDING and not backend:
        raise BundleError(f"{path} does not say which backend was recorded")
    named = {str(name): _texts(path, found) for name, found in configurations.items()}
    environment = _texts(path, data.get("environment", {}))
    return Header(
        data["kind"], backend[:200], environment, settings, named, data.get("complete") is True
    )


def _texts(path: Path, data: Any) -> dict[str, str]:
    if not isinstance(data, dict):
        raise BundleError(f"{path}: an environment is an object of texts")
    return {str(key)[:200]: str(value)[:MAX_TEXT] for key, value in data.items()}


def read_cases(folder: Path) -> Iterator[Entry]:
    """The cases of a corpus or a recording, in order. Raises BundleError with file and line."""
    path, beside = folder / "cases.jsonl", literals.Beside(folder)
    for number, data in lines(path):
        try:
            case = Case.from_json(data.get("case"), beside)
        except ConsistencyError as error:
            raise BundleError(f"{path}:{number}  {error}") from None
        if data.get("id") != case.id:
            raise BundleError(f"{path}:{number}  damaged: case {case.id} is filed under another id")
        directions = data.get("directions", list(DIRECTIONS))
        if (
            not isinstance(directions, list)
            or not directions
            or not all(d in DIRECTIONS for d in directions)
        ):
            raise BundleError(
                f"{path}:{number}  damaged: its directions are {str(directions)[:60]}"
            )
        yield Entry(case, tuple(directions))
