"""Reading a recording, which comes from another machine and may be damaged."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ...core import recipe
from ...core.model import DIRECTIONS, Outcome, Output
from ...errors import BundleError
from ..bundle import lines
from .folder import MAX_TEXT, RECORDING, STATUSES, Row, read_cases, read_header
from .tensors import Reading

MAX_OUTPUTS = 1 << 16


class Recording:
    """A recording, read: header, cases by id, and rows; tensors when they are asked for. Raises
    BundleError."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.header = read_header(self.folder)
        if self.header.kind != RECORDING:
            raise BundleError(
                f"{self.folder} is a corpus: it has cases, but no outcomes; record them with "
                f"--corpus"
            )
        self.cases = {entry.case.id: entry.case for entry in read_cases(self.folder)}
        self._tensors = Reading(self.folder)
        path = self.folder / "outcomes.jsonl"
        self.rows: list[Row] = []
        seen: set[str] = set()
        for number, data in lines(path):
            row = self._row(f"{path}:{number}", data)
            if row.id in seen:
                raise BundleError(
                    f"{path}:{number}  damaged: the id {row.id[:80]!r} stands there twice"
                )
            seen.add(row.id)
            self.rows.append(row)

    def outcome(self, row: Row) -> Outcome:
        """The row's outcome with its tensors. Raises BundleError where one cannot be read."""
        keys = iter(row.keys)
        outputs = []
        for output in row.outcome.outputs:
            if output.tensor is None or output.tensor.layout != torch.strided:
                outputs.append(output)
                continue
            key = next(keys)
            tensor = self._tensors.get(key, output.tensor.dtype)
            if tensor.shape != output.tensor.shape:
                raise BundleError(
                    f"{self.folder}: the tensor {key!r:.120} has shape {list(tensor.shape)}, "
                    f"not "
                    f"what its outcome says"
                )
            outputs.append(replace(output, tensor=tensor))
        return replace(row.outcome, outputs=tuple(outputs))

    def close(self) -> None:
        self._tensors.close()

    def _row(self, place: str, data: dict[str, Any]) -> Row:
        try:
            name, case_id, direction, status = (
                _text(data, key) for key in ("id", "case_id", "direction", "status")
            )
            if case_id not in self.cases:
                raise BundleError(f"{place}  damaged: cases.jsonl has no case {case_id[:80]!r}")
            if direction not in DIRECTIONS or status not in STATUSES:
                raise BundleError(
                    f"{place}  damaged: direction {direction[:40]!r}, status {status[:40]!r}"
                )
            outputs = data.get("outputs", [])
            if not isinstance(outputs, list) or len(outputs) > MAX_OUTPUTS:
                raise BundleError(f"{place}  damaged: its outputs are no list, or too many")
            pairs = [self._output(place, output) for output in outputs]
            seconds = float(data.get("seconds", 0.0))
            outcome = Outcome(
                status, tuple(output for output, _ in pairs), _text(data, "exception", ""),
                _text(data, "message", ""),
                tuple(str(text)[:MAX_TEXT] for text in data.get("warnings", ())),
                tuple(int(i) for i in data.get("modified", ())),
                seconds if math.isfinite(seconds) else 0.0, _text(data, "unsteady", ""),
            )  # fmt: skip
            keys = tuple(key for _, key in pairs if key)
            return Row(
                name,
                case_id,
                direction,
                _text(data, "configuration", ""),
                _text(data, "problem", ""),
                outcome,
                keys,
            )
        except KeyError as error:
            raise BundleError(f"{place}  damaged: it has no {error}") from None
        except BundleError:
            raise
        except (TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
            raise BundleError(
                f"{place}  damaged: {type(error).__name__} {str(error).splitlines()[0][:100]}"
            ) from None

    def _output(self, place: str, data: dict[str, Any]) -> tuple[Output, str]:
        name = _text(data, "name")
        if "value" in data:
            value = data["value"]
            other = value.get("other") if isinstance(value, dict) else None
            return Output(
                name, None, value=str(other)[:200] if other is not None else recipe.decode(value)
            ), ""
        spelled = _text(data, "dtype")
        dtype = getattr(torch, spelled, None)
        if not isinstance(dtype, torch.dtype):
            raise BundleError(
                f"{place}  damaged: {name[:40]} has the dtype {spelled[:40]!r}, which torch "
                f"{torch.__version__} lacks"
            )
        shape = recipe._sizes(data["shape"])
        layout = (
            torch.strided if "layout" not in data else getattr(torch, _text(data, "layout"), None)
        )
        if layout is not torch.strided:
            if not isinstance(layout, torch.layout):
                raise BundleError(f"{place}  damaged: {name[:40]} has an unknown layout")
            return Output(
                name,
                torch.empty(shape, dtype=dtype, layout=torch.sparse_coo),
                spelled,
                _text(data, "device", ""),
            ), ""
        key = _text(data, "key")
        if key not in self._tensors:
            raise BundleError(f"{place}  no file of the recording holds the tensor {key[:120]!r}")
        return Output(
            name, torch.empty(shape, dtype=dtype, device="meta"), spelled, _text(data, "device", "")
        ), key


def _text(data: Any, key: str, default: str | None = None) -> str:
    value = data.get(key, default) if default is not None else data[key]
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is no text")
    return value[:MAX_TEXT]
