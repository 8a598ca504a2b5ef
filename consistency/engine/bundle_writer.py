"""Write a bundle: a handler of the engine's events."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from typing_extensions import TypedDict

from ..core.files import appending, mend, write_json
from ..core.folders import is_ours, subfolder
from ..core.locking import Lock
from ..core.model import Key, Result
from ..core.reading import lines
from ..core.schema import Finite, Name
from ..errors import BundleError
from ..storage.bundle.header import BundleHeader, CorpusEntry, new_header, new_id, read_header
from ..storage.bundle.machine import label_of, machine, tidy
from ..storage.bundle.naming import failure_id
from ..storage.bundle.packing import unpack
from ..storage.bundle.reading import cases_of
from ..storage.bundle.rows import row_of
from ..storage.literals import write_literals
from .events import (
    DeterminismChecked,
    Event,
    Finished,
    Judged,
    MemoryGrowth,
    Minimized,
    PrecisionScalingMeasured,
    Started,
    UnitDone,
)

SECONDS_BETWEEN_COUNTS = 20.0
MAX_FAILURE_FOLDERS = 200  # beyond the shrunk ones, which all get theirs
KeepFailure = Callable[..., object]  # of a folder, a result, and what is known of its backend
_BEFORE = {
    "reference": "float64",
    "source": "drawn",
}  # what bundles mean that are older than these settings


class MemoryRow(TypedDict):
    """A line of memory.jsonl: how many bytes each call keeps."""

    operator: Name
    backend: Name
    bytes: Finite


class BundleWriter:
    """The handler that writes a bundle. Each line is flushed before the next case begins."""

    def __init__(
        self, folder: Path, *, resume: bool = False, label: str = "", about: Mapping[str,
        Any] | None = None,
        keep_failure: KeepFailure | None = None,
    ) -> None:  # fmt: skip
        """``label``: what the user calls this environment. ``about``: the machine
        (:func:`~consistency.storage.bundle.machine`), where that is not this one. ``keep_failure``
        writes a failure's folder (:func:`consistency.report.bundles.writer`).
        """
        self.folder = folder
        self._resume = resume
        self._keep_failure = keep_failure
        self._label = tidy(label)
        self._about = about
        self._lock: Lock | None = None
        self._corpus: CorpusEntry | None = None
        self._replayed: set[str] = set()
        self._explores = False  # hence the whole corpus was replayed, and the rest has no end
        self._said = time.monotonic()
        self._known: set[str] = set()
        self._there: set[Key] = set()  # written by an interrupted run
        self._group: set[Key] = set()  # what this run wrote for the current operator × dtype
        self._specs: Mapping[str, str] = {}
        self._identities: Mapping[str, Mapping[str, str]] = {}
        self._results: IO[str] | None = None
        self._cases: IO[str] | None = None
        self._failures = 0

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case Judged():
                self._write(event.results, origin=event.origin)
                self._count(event)
            case Minimized():
                self._write(
                    (event.result,),
                    shrunk=True,
                    origin="explored" if self._corpus is not None else "",
                )
            case PrecisionScalingMeasured():
                rows = [scaling.to_json() for scaling in event.scalings]
                with appending(self.folder / "scaling.jsonl") as stream:
                    stream.writelines(json.dumps(row) + "\n" for row in rows)
            case DeterminismChecked():
                with appending(self.folder / "determinism.jsonl") as stream:
                    stream.writelines(json.dumps(item.to_json()) + "\n" for item in event.found)
            case MemoryGrowth():
                with appending(self.folder / "memory.jsonl") as stream:
                    row: MemoryRow = {
                        "operator": event.operator,
                        "backend": event.backend,
                        "bytes": event.bytes,
                    }
                    stream.write(json.dumps(row) + "\n")
            case UnitDone():
                self._group.clear()
            case Finished():
                self._finish(event)

    def _start(self, event: Started) -> None:
        self._specs = event.config.specs
        self._corpus = event.config.corpus.to_json() if event.config.corpus is not None else None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            is_ours(self.folder, "bundle", "bundle.json", "name another folder with --out")
            self._lock = Lock(self.folder)
            exists = (self.folder / "bundle.json").is_file()
            if exists and not self._resume:
                raise BundleError(
                    f"{self.folder} already holds a bundle; add --resume to complete it, or name "
                    "another folder"
                )
            self._identities = {
                b.name: b.identity for b in event.config.backends if b.name not in event.unavailable
            }
            if exists:
                self._check_same(event)
                unpack(self.folder)
                self._known = set(cases_of(self.folder))
                rows = (row for _, row in lines(self.folder / "results.jsonl"))
                self._there = {
                    (str(row.get("case_id")), str(row.get("backend")), str(row.get("direction")))
                    for row in rows
                }
            else:
                write_json(self.folder / "bundle.json", self._header(event))
            write_json(self.folder / "environment.json", self._identities)
            for name in ("cases.jsonl", "results.jsonl"):
                mend(self.folder / name)
            self._cases = appending(self.folder / "cases.jsonl")
            self._results = appending(self.folder / "results.jsonl")
        except OSError as error:
            raise BundleError(
                f"cannot write the bundle {self.folder}: {error.strerror}; name another folder "
                f"with --out"
            ) from None

    def _header(self, event: Started) -> BundleHeader:
        about = machine() if self._about is None else self._about
        versions = next(
            (
                str(identity["torch"])
                for identity in self._identities.values()
                if identity.get("torch")
            ),
            "",
        )
        return new_header(
            event.config.identity or new_id(), event.config.describe(), machine=about,
            label=self._label or label_of(about, versions), corpus=self._corpus,
            unavailable=event.unavailable,
        )  # fmt: skip

    def _check_same(self, event: Started) -> None:
        header: Mapping[str, Any] = read_header(self.folder)
        described: Mapping[str, object] = dict(event.config.describe())
        saved = header["settings"]
        then, now = (
            (corpus or {}).get("digest", "no corpus") for corpus in (header["corpus"], self._corpus)
        )
        if then != now:
            raise BundleError(
                f"{self.folder} was begun with another corpus ({then[:12]}, now {now[:12]}); "
                "resume with the same, or name another folder with --out"
            )
        for key in (
            "operators",
            "backends",
            "dtypes",
            "directions",
            "examples",
            "seed",
            "tolerances",
            "reference",
            "source",
        ):
            if saved.get(key, _BEFORE.get(key)) != described[key]:
                raise BundleError(
                    f"{self.folder} was begun with other {key} ({_brief(saved.get(key))}, now "
                    f"{_brief(described[key])}); "
                    "resume with the same settings, or name another folder with --out"
                )
        before, now = sorted(header.get("unavailable", {})), sorted(event.unavailable)
        if before != now:
            raise BundleError(
                f"{self.folder} was begun where other backends were unavailable "
                f"({_brief(before)}, now {_brief(now)}); name another folder with --out"
            )

    def _write(
        self, results: tuple[Result, ...], *, shrunk: bool = False, origin: str = ""
    ) -> None:
        assert self._results is not None
        assert self._cases is not None
        results = tuple(r for r in results if r.key not in self._there and r.key not in self._group)
        self._group.update(r.key for r in results)
        for result in results:
            if result.case.id not in self._known:
                self._known.add(result.case.id)
                write_literals(self.folder, result.case)
                self._cases.write(
                    json.dumps({"id": result.case.id, "case": result.case.to_json()}) + "\n"
                )
        self._cases.flush()
        for result in results:
            row = row_of(result)
            if shrunk:
                row["shrunk"] = True
            if origin:
                row["origin"] = origin
            self._results.write(json.dumps(row, default=str) + "\n")
        self._results.flush()
        for result in results:
            if result.verdict.fails and (shrunk or self._failures < MAX_FAILURE_FOLDERS):
                self._failures += not shrunk
                self._write_failure(result, results)

    def _count(self, event: Judged) -> None:
        """Store how much of the corpus was replayed; also during the run, which may be killed."""
        self._explores |= event.origin == "explored"
        if event.origin != "replayed" or self._corpus is None:
            return
        self._replayed.add(event.case.id)
        if time.monotonic() - self._said > SECONDS_BETWEEN_COUNTS:
            self._said = time.monotonic()
            self._say({})

    def _say(self, more: dict[str, Any]) -> None:
        header = read_header(self.folder) | more
        if self._corpus is not None:
            header["corpus"] = {**self._corpus, "replayed": len(self._replayed)}
        write_json(self.folder / "bundle.json", header)

    def _write_failure(self, result: Result, others: Sequence[Result]) -> None:
        if self._keep_failure is None:
            return
        self._keep_failure(
            subfolder(self.folder, "failures", failure_id(result)), result,
            spec=self._specs.get(result.backend),
            identity=self._identities.get(result.backend, {}),
            others=[
                other
                for other in others
                if other.direction == result.direction and other.backend != result.backend
            ],
        )  # fmt: skip

    def _finish(self, event: Finished) -> None:
        self._say(
            {
                "seconds": round(event.seconds, 3),
                "complete": not event.out_of_time or self._explores,
            }
        )
        self.close()

    def close(self) -> None:
        for stream in (self._cases, self._results):
            if stream is not None:
                stream.close()
        if self._lock is not None:
            self._lock.release()


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"
