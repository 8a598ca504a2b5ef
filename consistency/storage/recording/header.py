"""recording.json: kind, backend, environment and settings of a corpus or a recording."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import torch
from pydantic import Field
from typing_extensions import TypedDict

from ...core.codec import MAX_TEXT
from ...core.schema import Count, Integer, Name, Scalar, Text, check
from ...core.text import one_line
from ...core.version import __version__
from ...errors import BundleError
from ..header import read_header_file
from .format import CORPUS, FILE, FORMAT, RECORDING

__all__ = [
    "CORPUS", "FILE", "FORMAT", "RECORDING", "Header", "RecordingSettings", "StoredHeader",
    "read_header",
]  # fmt: skip


class RecordingSettings(TypedDict, total=False):
    """What a corpus was drawn with, its ``name``, where a recording was imported from, or of which
    ``model`` and how many ``calls`` it was captured."""

    name: Text
    model: Text
    calls: Count
    imported: Text
    operators: list[Name]
    dtypes: list[Name] | None
    directions: list[Name]
    examples: Count
    shipped: bool
    seed: Integer
    source: Text
    literal: bool


class StoredHeader(TypedDict):
    """recording.json as it is stored."""

    format: int
    kind: Literal["corpus", "recording"]
    consistency: NotRequired[Text]
    torch: NotRequired[Text]
    created: NotRequired[Text]
    complete: NotRequired[bool]
    backend: NotRequired[Annotated[str, Field(max_length=200)]]
    environment: NotRequired[dict[Name, Scalar]]
    configurations: NotRequired[dict[Name, dict[Name, Scalar]]]
    settings: NotRequired[RecordingSettings]


@dataclass(frozen=True)
class Header:
    """recording.json. ``configurations`` are additional environments of the same backend by name,
    to which single outcomes refer."""

    kind: Literal["corpus", "recording"]
    backend: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: RecordingSettings = field(default_factory=RecordingSettings)
    configurations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    complete: bool = False

    def to_json(self) -> StoredHeader:
        body: StoredHeader = {
            "format": FORMAT,
            "kind": self.kind,
            "consistency": __version__,
            "torch": str(torch.__version__),
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "complete": self.complete,
        }
        if self.kind == RECORDING:
            body["backend"], body["environment"] = self.backend, dict(self.environment)
            if self.configurations:
                body["configurations"] = {k: dict(v) for k, v in self.configurations.items()}
        body["settings"] = self.settings
        return body


def read_header(folder: Path) -> Header:
    """Read recording.json. Raises BundleError."""
    data = read_header_file(folder, FILE, "recording", FORMAT)
    path = folder / FILE
    check(data, StoredHeader, path)
    backend = data.get("backend", "")
    if data["kind"] == RECORDING and not backend:
        raise BundleError(f"{path} does not say which backend was recorded")
    configurations = data.get("configurations", {}).items()
    return Header(
        data["kind"], one_line(backend), _texts(data.get("environment", {})),
        data.get("settings", {}),
        {one_line(name): _texts(environment) for name, environment in configurations},
        data.get("complete") is True,
    )  # fmt: skip


def _texts(environment: Mapping[str, Any]) -> dict[str, str]:
    return {
        one_line(key, 200): one_line(str(value), MAX_TEXT) for key, value in environment.items()
    }
