"""Writing a corpus or a recording, line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import torch

from ...core import dtypes, recipe
from ...core.files import lines, mend, write_json
from ...core.locking import Lock
from ...core.model import Case, Outcome, Output
from ...errors import BundleError, ConsistencyError
from ...generate import literals
from .folder import RECORDING, Header, read_cases, read_header
from .tensors import Appending


class Writer:
    """Writes a corpus or a recording, line by line; a kill at any moment loses at most the outcome
    in hand."""

    def __init__(self, folder: Path, header: Header, *, resume: bool = False) -> None:
        """Raises BundleError where there is a recording already (or, to be resumed, another
        one)."""
        self.folder, self.header = folder, header
        self.known: set[str] = set()
        self.done: set[str] = set()
        keys: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder)
        except OSError as error:
            raise BundleError(
                f"cannot write {folder}: {error.strerror}; name another folder with -o"
            ) from None
        try:
            there = (folder / "recording.json").exists()
            if there and not resume:
                raise BundleError(
                    f"{folder} already holds a recording; add --resume to complete it, or name "
                    f"another folder"
                )
            for name in ("cases.jsonl", "outcomes.jsonl"):
                mend(folder / name)
            if there:
                self._check_same()
                self.known = {entry.case.id for entry in read_cases(folder)}
                for _, data in lines(folder / "outcomes.jsonl"):
                    self.done.add(str(data.get("id")))
                    keys.update(
                        str(output.get("key"))
                        for output in data.get("outputs", ())
                        if "key" in output
                    )
            else:
                self._head(complete=False)
            self._cases: IO[str] = (folder / "cases.jsonl").open(
                "a", encoding="utf-8", newline="\n"
            )
            recording = header.kind == RECORDING
            self._outcomes = (
                (folder / "outcomes.jsonl").open("a", encoding="utf-8", newline="\n")
                if recording
                else None
            )
            self._tensors = Appending(folder, frozenset(keys)) if recording else None
        except OSError as error:
            self._lock.release()
            raise BundleError(
                f"cannot write {folder}: {error.strerror}; name another folder with -o"
            ) from None
        except BundleError:
            self._lock.release()
            raise

    def case(self, case: Case, directions: Sequence[str]) -> None:
        """Write a case, once."""
        if case.id not in self.known:
            self.known.add(case.id)
            literals.write(self.folder, case)
            self._cases.write(
                json.dumps({"id": case.id, "directions": list(directions), "case": case.to_json()})
                + "\n"
            )
            self._cases.flush()

    def outcome(
        self,
        name: str,
        case: Case,
        direction: str,
        outcome: Outcome,
        *,
        configuration: str = "",
        problem: str = "",
    ) -> None:
        """Write an outcome under the id ``name``: first its tensors, then the line that refers to
        them."""
        assert self._outcomes is not None
        assert self._tensors is not None
        held: dict[str, torch.Tensor] = {}
        outputs = [_output_to_json(name, output, held) for output in outcome.outputs]
        self._tensors.add(held)
        row: dict[str, Any] = {
            "id": name,
            "case_id": case.id,
            "direction": direction,
            "status": outcome.status,
        }
        more = {
            "configuration": configuration, "problem": problem, "exception": outcome.exception,
            "message": outcome.message,
            "warnings": list(outcome.warnings), "modified": list(outcome.modified),
            "unsteady": outcome.unsteady,
        }  # fmt: skip
        row |= {key: value for key, value in more.items() if value}
        self._outcomes.write(
            json.dumps(row | {"seconds": round(outcome.seconds, 6), "outputs": outputs}) + "\n"
        )
        self._outcomes.flush()
        self.done.add(name)

    def finish(self) -> None:
        """Everything that was to be recorded is."""
        self._head(complete=True)

    def close(self) -> None:
        self._cases.close()
        if self._outcomes is not None and self._tensors is not None:
            self._outcomes.close()
            self._tensors.gather()
        self._lock.release()

    def _head(self, *, complete: bool) -> None:
        body = self.header.to_json() | {"complete": complete}
        path = self.folder / "recording.json"
        if path.exists():
            body["created"] = json.loads(path.read_text(encoding="utf-8")).get(
                "created", body["created"]
            )
        write_json(path, body)

    def _check_same(self) -> None:
        saved = read_header(self.folder)
        wanted = self.header
        for what, old, new in (
            ("kind", saved.kind, wanted.kind),
            ("backend", saved.backend, wanted.backend),
        ):
            if old != new:
                raise BundleError(
                    f"{self.folder} was begun with other {what} ({old}, now {new}); name "
                    f"another "
                    f"folder with -o"
                )
        if dict(saved.settings) != json.loads(json.dumps(dict(wanted.settings))):
            raise BundleError(
                f"{self.folder} was begun with other settings; resume with the same, or name "
                f"another folder with -o"
            )
        if wanted.kind == RECORDING and dict(saved.environment) != dict(wanted.environment):
            raise BundleError(
                f"{self.folder} was begun in another environment; name another folder with -o"
            )


def _output_to_json(name: str, output: Output, held: dict[str, torch.Tensor]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": output.name}
    tensor = output.tensor
    if tensor is None:
        return row | {"value": _value(output.value)}
    row |= {
        "dtype": output.dtype or dtypes.name_of(tensor.dtype),
        "shape": list(tensor.shape),
        "device": output.device,
    }
    if tensor.layout != torch.strided:
        return row | {"layout": str(tensor.layout).removeprefix("torch.")}
    key = f"{name}/{output.name}"
    held[key] = tensor
    return row | {"key": key}


def _value(value: Any) -> Any:
    """A returned value that is no tensor: as recipes write arguments, or what Python calls it."""
    try:
        return recipe.encode(value)
    except ConsistencyError:
        return {"other": f"{type(value).__name__}: {value!r:.200}"}
