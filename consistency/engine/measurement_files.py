"""Files of a bundle with one line per measurement on many cases: how errors scale with the
precision, determinism, growth of memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..core.output import LineWriter
from ..core.reading import lines
from ..core.schema import Finite, Name
from .events import DeterminismChecked, Event, MemoryGrowth, PrecisionScalingMeasured

# The fields that say what was measured. A run that is completed measures some of it again.
_KEYS = {
    "scaling.jsonl": ("operator", "backend"),
    "determinism.jsonl": ("operator", "dtype", "direction", "backend", "kind"),
    "memory.jsonl": ("operator", "backend"),
}


class MemoryRow(TypedDict):
    """A line of memory.jsonl: how many bytes each call keeps."""

    operator: Name
    backend: Name
    bytes: Finite


class MeasurementFiles:
    """Writes the measurements of a run; those that an interrupted run has written stay. Raises
    OSError and BundleError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, LineWriter] = {}
        self._earlier = {
            name: {_key(name, row) for _, row in lines(folder / name)} for name in _KEYS
        }

    def take(self, event: Event) -> None:
        """Write what an event measured."""
        match event:
            case PrecisionScalingMeasured():
                self._append("scaling.jsonl", (item.to_json() for item in event.scalings))
            case DeterminismChecked():
                self._append("determinism.jsonl", (item.to_json() for item in event.found))
            case MemoryGrowth():
                grown: MemoryRow = {
                    "operator": event.operator,
                    "backend": event.backend,
                    "bytes": event.bytes,
                }
                self._append("memory.jsonl", [grown])

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _append(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        fresh = [row for row in rows if _key(name, row) not in self._earlier[name]]
        if fresh:
            if name not in self._files:
                self._files[name] = LineWriter(self._folder / name)
            self._files[name].write("".join(json.dumps(row) + "\n" for row in fresh))


def _key(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(field)) for field in _KEYS[name])
