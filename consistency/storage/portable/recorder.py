"""Runs the cases of a portable zip on one backend and writes a recording.

Needs torch, NumPy and this package's rooms ``core operators generate backends storage``. Each case
runs in a worker process: one that kills it, or hangs, costs one case. Started by ``record.py`` in
the zip's folder; what it writes is a recording as any other (:mod:`consistency.storage.recording`),
and is judged as untrusted as any other.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ... import backends
from ...backends.base import Backend, attempt
from ...backends.subprocess.backend import AHEAD, SubprocessBackend
from ...core.codec import encode_outcome
from ...core.files import write_bytes, write_json
from ...core.model import Case, Outcome, Output
from ...core.verdict import OutcomeStatus
from ...core.version import __version__
from ...errors import ConsistencyError
from ...generate.materialize import prepare
from ...operators import exactly
from ..recording.format import FILE, FORMAT, RECORDING
from .plain_safetensors import as_safetensors

SETTINGS = "portable.json"
RAW_LITERALS = "literals"  # in the zip: raw bytes, named by their SHA-256
SHARD_BYTES, SHARD_SECONDS = 32 << 20, 20.0  # written at the latest; a kill loses that much
SECONDS_BETWEEN_LINES = 5.0
Item = tuple[str, Case, str]  # id, case, direction


def main(arguments: Sequence[str], home: Path) -> int:
    """The command of the zip; ``home`` is its folder. Returns the exit status."""
    settings = json.loads((home / SETTINGS).read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(
        prog="record.py", description="Run the cases of this folder on a backend and record them."
    )
    parser.add_argument("--backend", default=settings["backend"], help="default: %(default)s")
    parser.add_argument("-o", "--out", type=Path, default=home / "recorded", help="a new folder, "
                        "or one to complete; default: %(default)s")  # fmt: skip
    chosen = parser.parse_args(arguments)
    try:
        backend = in_process_of_its_own(chosen.backend)
        reason = backends.availability(backend)
    except ConsistencyError as error:
        print(error, file=sys.stderr)
        return 2
    if reason:
        print(f"{chosen.backend} cannot run here: {reason}", file=sys.stderr)
        return 3
    try:
        record(backend, home, chosen.out, settings["settings"])
    except KeyboardInterrupt:
        print(f"interrupted; the same command completes {chosen.out}", file=sys.stderr)
        return 130
    finally:
        backend.close()
    return 0


def in_process_of_its_own(spec: str) -> Backend:
    """The backend that ``spec`` names, which may die without ending this process. Raises
    UsageError."""
    (backend,) = backends.resolve_all([spec])
    backend = backends.isolated(backend, spec)
    if isinstance(backend, SubprocessBackend) or backends.availability(backend):
        return backend
    return SubprocessBackend(backend.name, spec)


def record(backend: Backend, home: Path, out: Path, settings: dict[str, Any]) -> None:
    """Run what ``out`` does not hold yet, and mark it as complete."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home / "cases.jsonl", out / "cases.jsonl")
    literals = {path.stem: path.read_bytes() for path in (home / RAW_LITERALS).glob("*.bin")}
    for digest, data in literals.items():
        (out / "literals").mkdir(exist_ok=True)
        numbers = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        write_bytes(out / "literals" / f"{digest}.safetensors", as_safetensors({"bytes": numbers}))
    header = {
        "format": FORMAT, "kind": RECORDING, "consistency": __version__,
        "torch": str(torch.__version__),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "complete": False, "backend": backend.name, "environment": dict(backend.identity),
        "settings": settings,
    }  # fmt: skip
    write_json(out / FILE, header)
    shard = Shard(out)
    todo = [item for item in items(home, literals) if item[0] not in shard.done]
    began = told = time.monotonic()
    for number, (name, case, direction) in enumerate(todo):
        backend.prefetch(_coming(todo[number : number + AHEAD]))
        shard.add(name, case, direction, outcome_of(backend, case, direction))
        if time.monotonic() - told > SECONDS_BETWEEN_LINES:
            told = time.monotonic()
            print(f"{number + 1:,} / {len(todo):,}  {case.operator}", flush=True)
    shard.write()
    write_json(out / FILE, header | {"complete": True})
    seconds = time.monotonic() - began
    print(f"{len(shard.done):,} outcomes in {out}, {seconds:.0f} s: bring this folder back")


def items(home: Path, literals: dict[str, bytes]) -> Iterator[Item]:
    """Every case and direction, in order."""
    with (home / "cases.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            case = Case.from_json(row["case"], literals)
            for direction in row["directions"]:
                yield f"{case.id}/{direction}", case, direction


def outcome_of(backend: Backend, case: Case, direction: str) -> Outcome:
    """The outcome of one case; one that cannot be built here has one, too."""
    try:
        return attempt(backend, exactly(case.operator), prepare(case), direction)
    except ConsistencyError as error:
        return Outcome(OutcomeStatus.UNSUPPORTED, message=str(error))


def _coming(batch: Sequence[Item]) -> Iterator[tuple[Any, Case, str]]:
    for _, case, direction in batch:
        try:
            yield exactly(case.operator), case, direction
        except ConsistencyError:
            continue  # its outcome will report it


class Shard:
    """Outcomes that are not on disk yet. Their tensors are written first, then their lines."""

    def __init__(self, folder: Path) -> None:
        self._lines, self._tensors = folder / "outcomes.jsonl", folder / "tensors"
        self._tensors.mkdir(exist_ok=True)
        self._rows: list[str] = []
        self._held: dict[str, torch.Tensor] = {}
        self._since = time.monotonic()
        self.done = self._read()

    def add(self, name: str, case: Case, direction: str, outcome: Outcome) -> None:
        def store(output: Output, tensor: torch.Tensor) -> dict[str, Any]:
            if tensor.layout != torch.strided:
                return {"layout": str(tensor.layout).removeprefix("torch.")}
            key = f"{name}/{output.name}"
            self._held[key] = tensor
            return {"key": key}

        row = {"id": name, "case_id": case.id, "direction": direction}
        self._rows.append(json.dumps(row | encode_outcome(outcome, store)) + "\n")
        self.done.add(name)
        size = sum(tensor.nbytes for tensor in self._held.values())
        if size > SHARD_BYTES or time.monotonic() - self._since > SHARD_SECONDS:
            self.write()

    def write(self) -> None:
        if self._held:
            number = 1 + max((int(p.stem[-6:]) for p in self._tensors.glob("shard-*")), default=-1)
            path = self._tensors / f"shard-{number:06d}.safetensors"
            write_bytes(path, as_safetensors(self._held))
        with self._lines.open("a", encoding="utf-8", newline="\n") as lines:
            lines.writelines(self._rows)
        self._rows, self._held, self._since = [], {}, time.monotonic()

    def _read(self) -> set[str]:
        """The ids on disk; a line that was being written when the process ended is removed."""
        if not self._lines.exists():
            return set()
        text = self._lines.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self._lines.write_text(whole, encoding="utf-8", newline="\n")
        return {json.loads(line)["id"] for line in whole.splitlines()}
