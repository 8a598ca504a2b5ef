"""recording.json: kind, backend, environment and settings of a corpus or a recording."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...core.codec import MAX_TEXT
from ...core.version import __version__
from ...errors import BundleError
from ..header import read_header_file

FORMAT = 1
CORPUS, RECORDING = "corpus", "recording"
FILE = "recording.json"


@dataclass(frozen=True)
class Header:
    """recording.json. ``configurations`` are additional environments of the same backend by name,
    to which single outcomes refer."""

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


def read_header(folder: Path) -> Header:
    """Read recording.json. Raises BundleError."""
    data = read_header_file(folder, FILE, "recording", FORMAT, objects=())
    path = folder / FILE
    if data.get("kind") not in (CORPUS, RECORDING):
        raise BundleError(f"{path} does not describe a recording")
    configurations = data.get("configurations", {})
    backend, settings = data.get("backend", ""), data.get("settings", {})
    if (
        not isinstance(configurations, dict)
        or not isinstance(backend, str)
        or not isinstance(settings, dict)
    ):
        raise BundleError(
            f"{path} does not describe a recording: 'backend', 'settings' or 'configurations' is "
            "malformed"
        )
    if data["kind"] == RECORDING and not backend:
        raise BundleError(f"{path} does not say which backend was recorded")
    named = {str(name): _texts(path, environment_) for name, environment_ in configurations.items()}
    environment = _texts(path, data.get("environment", {}))
    return Header(
        data["kind"], backend[:200], environment, settings, named, data.get("complete") is True
    )


def _texts(path: Path, data: Any) -> dict[str, str]:
    if not isinstance(data, dict):
        raise BundleError(f"{path}: an environment is an object of texts")
    return {str(key)[:200]: str(value)[:MAX_TEXT] for key, value in data.items()}
