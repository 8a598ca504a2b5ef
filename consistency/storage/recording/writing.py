"""Writing a corpus or a recording."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from ...core.codec import Json, encode_outcome
from ...core.files import write_json
from ...core.folders import is_ours
from ...core.locking import Lock
from ...core.model import Case, Outcome, Output
from ...core.output import LineWriter, writing
from ...core.reading import lines, read_object
from ...core.text import pluralize
from ...errors import BundleError
from .. import provenance
from ..cases import CaseEntry, read_cases
from ..literals import write_literals
from .header import RECORDING, Header, read_header
from .tensors import TensorWriter

_REMEDY = "name another folder with -o"


class RecordingWriter:
    """Writes a corpus or a recording line by line; a kill loses at most the current outcome.

    Raises OutputError where something cannot be written; what was written stays readable, and can
    be completed.
    """

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
        with writing(folder, remedy=_REMEDY):
            folder.mkdir(parents=True, exist_ok=True)
            is_ours(folder, "recording", "recording.json", _REMEDY)
            self._lock = Lock(folder)
        try:
            with writing(folder, remedy=_REMEDY):
                self._begin(resume)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, resume: bool) -> None:
        folder = self.folder
        keys: set[str] = set()
        exists = (folder / "recording.json").is_file()
        if exists and not resume:
            raise BundleError(
                f"{folder} already holds a recording; add --resume to complete it, or name "
                f"another folder"
            )
        if exists:
            self._check_same_header()
            self._own &= provenance.is_own(folder / "cases.jsonl")
            self.known = {entry.case.id for entry in read_cases(folder)}
            for _, data in lines(folder / "outcomes.jsonl"):
                self.done.add(str(data.get("id")))
                keys.update(
                    str(output.get("key")) for output in data.get("outputs", ()) if "key" in output
                )
        else:
            self._write_header(complete=False)
        recording = self.header.kind == RECORDING
        with contextlib.ExitStack() as opened:  # closed again if one of them cannot be
            self._cases = LineWriter(folder / "cases.jsonl")
            opened.callback(self._cases.close)
            self._outcomes = LineWriter(folder / "outcomes.jsonl") if recording else None
            if self._outcomes is not None:
                opened.callback(self._outcomes.close)
            self._tensors = TensorWriter(folder, frozenset(keys)) if recording else None
            opened.pop_all()

    def case(self, case: Case, directions: Sequence[str]) -> None:
        """Write a case unless it was written before."""
        if case.id not in self.known:
            with self._counted():
                write_literals(self.folder, case)
                self._cases.write(json.dumps(CaseEntry(case, tuple(directions)).to_json()) + "\n")
            self.known.add(case.id)

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
        row: Json = {"id": name, "case_id": case.id, "direction": direction}
        row |= {"configuration": configuration} if configuration else {}
        row |= {"problem": problem} if problem else {}
        row |= encoded | {"seconds": round(outcome.seconds, 6)}
        with self._counted():
            self._outcomes.check()
            self._tensors.add(tensors)
            self._outcomes.write(json.dumps(row) + "\n")
        self.done.add(name)

    def finish(self) -> None:
        """Mark the recording as complete."""
        with self._counted():
            self._cases.check()
            self._close_files()
            self._write_header(complete=True)

    def close(self) -> None:
        """Release the folder. Safe to call after a failed write, which was told before."""
        try:
            with contextlib.suppress(OSError):
                self._close_files()
        finally:
            self._lock.release()

    def _close_files(self) -> None:
        self._cases.close()
        if self._own:
            provenance.register(self.folder / "cases.jsonl")
        if self._outcomes is not None and self._tensors is not None:
            self._outcomes.close()
            self._tensors.gather()

    def _counted(self) -> AbstractContextManager[None]:
        """A failed write as an OutputError that says what there is."""
        many = len(self.done if self.header.kind == RECORDING else self.known)
        what = "outcome" if self.header.kind == RECORDING else "case"
        return writing(self.folder, f"it holds {pluralize(many, what)}, later ones are lost")

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
