"""Write a bundle: a handler of the engine's events."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..core.files import is_temporary, write_json
from ..core.folders import is_ours, remove_files, subfolder
from ..core.locking import Lock
from ..core.model import Key, Result
from ..core.output import LineWriter, output_error, writing
from ..core.reading import lines
from ..core.text import pluralize
from ..errors import BundleError
from ..storage import provenance
from ..storage.bundle.header import BundleHeader, CorpusEntry, new_header, new_id, read_header
from ..storage.bundle.machine import label_of, machine, tidy
from ..storage.bundle.naming import failure_id
from ..storage.bundle.packing import unpack
from ..storage.bundle.reading import cases_of
from ..storage.bundle.rows import row_text
from ..storage.cases import case_row
from ..storage.literals import write_literals
from .bundle_settings import check_same
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
from .measurement_files import MeasurementFiles

SECONDS_BETWEEN_COUNTS = 20.0
MAX_FAILURE_FOLDERS = 200  # beyond the shrunk ones, which all get theirs
KeepFailure = Callable[..., object]  # of a folder, a result, and what is known of its backend


class BundleWriter:
    """The handler that writes a bundle. Each line is on the disk before the next case begins, and
    the row of a failure after its folder, so that whatever has no row is judged again.

    Raises OutputError where something cannot be written; the bundle stays readable, and can be
    completed.
    """

    def __init__(
        self, folder: Path, *, resume: bool = False, label: str = "", about: Mapping[str,
        Any] | None = None,
        keep_failure: KeepFailure | None = None, own: bool = True,
    ) -> None:  # fmt: skip
        """``label``: what the user calls this environment. ``about``: the machine
        (:func:`~consistency.storage.bundle.machine`), where that is not this one. ``keep_failure``
        writes a failure's folder (:func:`consistency.report.bundles.writer`). ``own``: its cases
        are the user's own (:mod:`consistency.storage.provenance`); where a bundle is completed,
        only if those that it holds are.
        """
        self.folder = folder
        self._resume = resume
        self._keep_failure = keep_failure
        self._label = tidy(label)
        self._about = about
        self._own = own
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
        self._results: LineWriter | None = None
        self._cases: LineWriter | None = None
        self._measurements: MeasurementFiles | None = None
        self._failures = 0  # folders of failures that are not shrunk
        self._rows = 0
        self.finished = False  # every result and the end of the run are written

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            with writing(self.folder, remedy="name another folder with --out"):
                self._start(event)
            return
        try:
            self._take(event)
        except OSError as error:
            held = f"the bundle holds {pluralize(self._rows, 'result')}"
            if isinstance(error, FileNotFoundError):
                lost = "later results are lost"
            else:
                lost = held if isinstance(event, Finished) else f"{held}, later ones are lost"
            raise output_error(self.folder, error, lost) from None

    def _take(self, event: Event) -> None:
        assert self._results is not None
        assert self._measurements is not None
        self._results.check()
        match event:
            case Judged():
                self._write(event.results, origin=event.origin, rows=event.rows)
                self._count(event)
            case Minimized():
                self._write(
                    (event.result,),
                    shrunk=True,
                    origin="explored" if self._corpus is not None else "",
                )
            case PrecisionScalingMeasured() | DeterminismChecked() | MemoryGrowth():
                self._measurements.take(event)
            case UnitDone():
                self._group.clear()
            case Finished():
                self._finish(event)

    def _start(self, event: Started) -> None:
        self._specs = event.config.spelled
        self._corpus = event.config.corpus.to_json() if event.config.corpus is not None else None
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
            check_same(self.folder, event, self._corpus)
            unpack(self.folder)
            self._own &= provenance.is_own(self.folder / "cases.jsonl")
            left = [*self.folder.glob("*"), *self.folder.glob("failures/*/*")]
            names = [p.relative_to(self.folder).as_posix() for p in left if is_temporary(p.name)]
            remove_files(self.folder, names)
            self._known = set(cases_of(self.folder))
            for _, row in lines(self.folder / "results.jsonl"):
                key = tuple(str(row.get(name)) for name in ("case_id", "backend", "direction"))
                self._there.add((key[0], key[1], key[2]))
                self._rows += 1
                self._failures += row.get("fails") is True and row.get("shrunk") is not True
        else:
            write_json(self.folder / "bundle.json", self._header(event))
        write_json(self.folder / "environment.json", self._identities)
        self._cases = LineWriter(self.folder / "cases.jsonl")
        self._results = LineWriter(self.folder / "results.jsonl")
        self._measurements = MeasurementFiles(self.folder)

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

    def _write(
        self,
        results: tuple[Result, ...],
        *,
        shrunk: bool = False,
        origin: str = "",
        rows: Mapping[Key, bytes] = MappingProxyType({}),
    ) -> None:
        """``rows``: the results' JSON text, as far as it exists already."""
        assert self._results is not None
        assert self._cases is not None
        keyed = [(result.key, result) for result in results]
        keyed = [(k, r) for k, r in keyed if k not in self._there and k not in self._group]
        cases = {r.case.id: r.case for _, r in keyed if r.case.id not in self._known}
        for case in cases.values():
            write_literals(self.folder, case)
        if cases:
            self._cases.write("".join(f"{case_row(case)}\n" for case in cases.values()))
            self._known.update(cases)
        failures = 0
        for _, result in keyed:
            if result.verdict.fails and (shrunk or self._failures + failures < MAX_FAILURE_FOLDERS):
                failures += not shrunk
                self._write_failure(result, [r for _, r in keyed])
        more = ({"shrunk": True} if shrunk else {}) | ({"origin": origin} if origin else {})
        end = f", {json.dumps(more)[1:]}\n".encode() if more else b"}\n"
        texts = [rows.get(key) or row_text(result).encode() for key, result in keyed]
        self._results.write(b"".join(text.removesuffix(b"}") + end for text in texts))
        self._group.update(key for key, _ in keyed)
        self._failures += failures
        self._rows += len(keyed)

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
        folder = subfolder(self.folder, "failures", failure_id(result))
        self._keep_failure(
            folder, result,
            spec=self._specs.get(result.backend),
            identity=self._identities.get(result.backend, {}),
            others=[
                other
                for other in others
                if other.direction == result.direction and other.backend != result.backend
            ],
        )  # fmt: skip
        if self._own:
            provenance.register(folder / "case.json")

    def _finish(self, event: Finished) -> None:
        self._close_files()
        results = self.folder / "results.jsonl"
        self._say(
            {
                "seconds": round(event.seconds, 3),
                "complete": not event.out_of_time or self._explores,
                "size": results.stat().st_size if results.exists() else 0,
            }
        )
        self.close()
        self.finished = True

    def close(self) -> None:
        """Release the folder. Safe to call twice, and after a failed write."""
        with contextlib.suppress(OSError):  # what was written was told before
            self._close_files()
        if self._own and self._cases is not None:
            provenance.register(self.folder / "cases.jsonl")
        if self._lock is not None:
            self._lock.release()

    def _close_files(self) -> None:
        for file in (self._cases, self._results, self._measurements):
            if file is not None:
                file.close()
