"""Writing a corpus or a recording."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import torch

from ...core.codec import Json, encode_outcome
from ...core.files import appending, mend, write_json
from ...core.folders import is_ours
from ...core.locking import Lock
from ...core.model import Case, Outcome, Output
from ...core.reading import lines, read_object
from ...errors import BundleError
from .. import provenance
from ..cases import CaseEntry, read_cases
from ..literals import write_literals
from .header import RECORDING, Header, read_header
from .tensors import TensorWriter


class RecordingWriter:
    """Writes a corpus or a recording line by line; a kill loses at most the current outcome."""

    def __init__(
        self, folder: Path, header: Header, *, resume: bool = False, own: bool = True
    ) -> None:
        """``own``: its cases are the user's own (:mod:`consistency.storage.provenance`).

        Raises BundleError if the folder already has a recording (to resume: another one).
        """
        self._own = own
        self.folder, self.header = folder, header
        self.known: set[str] = set()
        self.done: set[str] = set()
        keys: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_ours(folder, "recording", "recording.json", "name another folder with -o")
            self._lock = Lock(folder)
        except OSError as error:
            raise BundleError(
                f"cannot write {folder}: {error.strerror}; name another folder with -o"
            ) from None
        try:
            exists = (folder / "recording.json").is_file()
            if exists and not resume:
                raise BundleError(
                    f"{folder} already holds a recording; add --resume to complete it, or name "
                    f"another folder"
                )
            for name in ("cases.jsonl", "outcomes.jsonl"):
                mend(folder / name)
            if exists:
                self._check_same_header()
                self._own &= provenance.is_own(folder / "cases.jsonl")
                self.known = {entry.case.id for entry in read_cases(folder)}
                for _, data in lines(folder / "outcomes.jsonl"):
                    self.done.add(str(data.get("id")))
                    keys.update(
                        str(output.get("key"))
                        for output in data.get("outputs", ())
                        if "key" in output
                    )
            else:
                self._write_header(complete=False)
            self._cases: IO[str] = appending(folder / "cases.jsonl")
            recording = header.kind == RECORDING
            self._outcomes = appending(folder / "outcomes.jsonl") if recording else None
            self._tensors = TensorWriter(folder, frozenset(keys)) if recording else None
        except OSError as error:
            self._lock.release()
            raise BundleError(
                f"cannot write {folder}: {error.strerror}; name another folder with -o"
            ) from None
        except BundleError:
            self._lock.release()
            raise

    def case(self, case: Case, directions: Sequence[str]) -> None:
        """Write a case unless it was written before."""
        if case.id not in self.known:
            self.known.add(case.id)
            write_literals(self.folder, case)
            self._cases.write(json.dumps(CaseEntry(case, tuple(directions)).to_json()) + "\n")
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
        """Write an outcome with the id ``name``: first its tensors, then the line that refers to
        them."""
        assert self._outcomes is not None
        assert self._tensors is not None
        tensors: dict[str, torch.Tensor] = {}

        def store(output: Output, tensor: torch.Tensor) -> Json:
            if tensor.layout != torch.strided:
                return {"layout": str(tensor.layout).removeprefix("torch.")}
            key = f"{name}/{output.name}"
            tensors[key] = tensor
            return {"key": key}

        encoded = encode_outcome(outcome, store)
        self._tensors.add(tensors)
        row: Json = {"id": name, "case_id": case.id, "direction": direction}
        row |= {"configuration": configuration} if configuration else {}
        row |= {"problem": problem} if problem else {}
        row |= encoded | {"seconds": round(outcome.seconds, 6)}
        self._outcomes.write(json.dumps(row) + "\n")
        self._outcomes.flush()
        self.done.add(name)

    def finish(self) -> None:
        """Mark the recording as complete."""
        self._write_header(complete=True)

    def close(self) -> None:
        self._cases.close()
        if self._own:
            provenance.register(self.folder / "cases.jsonl")
        if self._outcomes is not None and self._tensors is not None:
            self._outcomes.close()
            self._tensors.gather()
        self._lock.release()

    def _write_header(self, *, complete: bool) -> None:
        body = self.header.to_json() | {"complete": complete}
        path = self.folder / "recording.json"
        with contextlib.suppress(FileNotFoundError):
            earlier = read_object(path, "a recording")
            body["created"] = earlier.get("created", body["created"])
        write_json(path, body)

    def _check_same_header(self) -> None:
        saved = read_header(self.folder)
        header = self.header
        for field, old, new in (
            ("kind", saved.kind, header.kind),
            ("backend", saved.backend, header.backend),
        ):
            if old != new:
                raise BundleError(
                    f"{self.folder} was begun with other {field} ({old}, now {new}); name another "
                    "folder with -o"
                )
        if dict(saved.settings) != json.loads(json.dumps(dict(header.settings))):
            raise BundleError(
                f"{self.folder} was begun with other settings; resume with the same, or name "
                f"another folder with -o"
            )
        if header.kind == RECORDING and dict(saved.environment) != dict(header.environment):
            raise BundleError(
                f"{self.folder} was begun in another environment; name another folder with -o"
            )
