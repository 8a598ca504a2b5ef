"""Merge corpora and the failures of runs into one corpus.

All generated cases are kept. Failing cases are many and similar, so a few are kept of each *kind*
(operator, dtype, direction, verdict, cause, backend): the smallest minimized ones, and some
original ones chosen by digest. These are the first few in a fixed order, so merging is idempotent,
commutative and associative.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.case_source import YOURS, parse_source
from ...core.files import write_json, write_text
from ...core.folders import is_ours, remove_files
from ...core.locking import Lock
from ...core.model import Case, Result
from ...core.verdict import verdict_name
from ...errors import BundleError, UsageError
from .. import provenance
from ..bundle import lines, read_header, result_from_json
from ..bundle.reading import cases_of
from ..cases import MAX_KINDS, CaseEntry, FailureKind
from ..literals import FOLDER, LiteralStore, write_literals
from ..lookup import find
from ..recording.header import CORPUS, Header
from .reading import MAX_CASES, header_of, read

SMALL, DRAWN = "small", "drawn"
PER_KIND = {SMALL: 2, DRAWN: 3}


@dataclass
class CorpusMerger:
    """The merged cases by digest; ``sources`` lists the number of cases from each place."""

    lines: dict[str, CaseEntry] = field(default_factory=dict)
    always: set[str] = field(default_factory=set)  # digests of generated cases
    sources: list[tuple[Path, str, int]] = field(default_factory=list)

    def add(self, place: Path) -> None:
        """Add a corpus, a bundle, or the folder of a failure. Raises BundleError with file and
        line."""
        if (place / "recording.json").is_file():
            header_of(place)
            self._take(place, CORPUS, read(place))
        elif (place / "bundle.json").is_file():
            self._take(place, "bundle", failures(place))
        elif (place / "case.json").is_file():
            stored = find(str(place))
            self._take(place, "failure", _minimized(stored.case, stored.results))
        else:
            raise BundleError(
                f"{place} is neither a corpus, nor a bundle, nor the folder of a failure"
            )

    def _take(self, place: Path, source_kind: str, offered: Iterator[CaseEntry]) -> None:
        count = 0
        for line in offered:
            count += 1
            digest = line.case.digest
            existing = self.lines.get(digest, line)
            directions = tuple(sorted({*existing.directions, *line.directions}, reverse=True))
            self.lines[digest] = CaseEntry(
                existing.case, directions, tuple(sorted({*existing.failures, *line.failures}))
            )
            if not line.failures:
                self.always.add(digest)
            if len(self.lines) > MAX_CASES:
                raise UsageError(f"together these are more than {MAX_CASES:,} cases; merge fewer")
        self.sources.append((place, source_kind, count))

    def chosen(self) -> list[CaseEntry]:
        """The cases of the merged corpus by operator and dtype, failures first."""
        kinds: defaultdict[FailureKind, list[str]] = defaultdict(list)
        for digest, line in self.lines.items():
            for kind in line.failures:
                kinds[kind].append(digest)
        represented: defaultdict[str, list[FailureKind]] = defaultdict(list)
        for kind, digests in sorted(kinds.items()):
            for digest in sorted(digests, key=lambda candidate: self._rank(kind, candidate))[
                : PER_KIND.get(kind[-1], 1)
            ]:
                represented[digest].append(kind)
        entries = [
            CaseEntry(line.case, line.directions, tuple(represented[digest][:MAX_KINDS]))
            for digest, line in self.lines.items()
            if digest in self.always or digest in represented
        ]
        return [
            *sorted(
                entries,
                key=lambda line: (
                    line.case.operator,
                    line.case.dtype,
                    not line.failures,
                    line.case.digest,
                ),
            )
        ]

    def _rank(self, kind: FailureKind, digest: str) -> tuple[int, str]:
        return (_size(self.lines[digest].case) if kind[-1] == SMALL else 0, digest)


def failures(folder: Path) -> Iterator[CaseEntry]:
    """The failing cases of a bundle that were not replayed from a corpus. Raises BundleError with
    file and line."""
    read_header(folder)
    path = folder / "results.jsonl"
    rows = {number: row for number, row in lines(path) if _explored(row)}
    cases = cases_of(folder, {str(row.get("case_id")) for row in rows.values()})
    for number, row in rows.items():
        result = result_from_json(path, number, row, cases)
        if result.comparison is None and result.evidence is None:
            continue  # a result about many cases
        if parse_source(result.case.source).kind != YOURS:
            yield CaseEntry(
                result.case, failures=(kind_of(result, small=row.get("shrunk") is True),)
            )


def _explored(row: Mapping[str, Any]) -> bool:
    return (
        row.get("fails") is True or verdict_name(str(row.get("verdict"))) == "known"
    ) and row.get("origin") != "replayed"


def _minimized(case: Case, results: Sequence[Result]) -> Iterator[CaseEntry]:
    failing = [result for result in results if result.verdict.diverges]
    yield CaseEntry(case, failures=tuple(sorted(kind_of(result, small=True) for result in failing)))


def kind_of(result: Result, *, small: bool) -> FailureKind:
    """The kind by which failures count as duplicates; devices and settings of a backend are
    ignored."""
    cause = (
        result.evidence.cause.name
        if result.evidence is not None and result.evidence.cause is not None
        else ""
    )
    backend = result.backend.partition("+")[0].partition("@")[0].partition(":")[0]
    parts = (result.operator, result.dtype, result.direction, result.verdict.value, cause, backend)
    return (*(part[:200] for part in parts), SMALL if small else DRAWN)


def _size(case: Case) -> int:
    return len(case.line) + sum(len(literal.data) for literal in case.literals)


def write(folder: Path, merged: Sequence[CaseEntry], name: str, *, own: bool = True) -> None:
    """Write a corpus in place of any old one in ``folder``. ``own``: every case is the user's own
    (:mod:`consistency.storage.provenance`). Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_ours(folder, "corpus", "recording.json", "name another folder with -o")
        lock = Lock(folder)
        try:
            for line in merged:
                write_literals(folder, line.case)
            header = Header(CORPUS, settings={"name": name}, complete=True)
            write_text(
                folder / "cases.jsonl",
                "".join(f"{json.dumps(line.to_json())}\n" for line in merged),
            )
            write_json(folder / "recording.json", header.to_json())
            _remove_unused_literals(folder, merged)
            if own:
                provenance.register(folder / "cases.jsonl")
        finally:
            lock.release()
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror}; name another folder with -o"
        ) from None


def _remove_unused_literals(folder: Path, merged: Sequence[CaseEntry]) -> None:
    """Remove literal tensors to which no case refers any more."""
    digests = {literal.digest for line in merged for literal in line.case.literals}
    remove_files(
        folder, [f"{FOLDER}/{digest}.safetensors" for digest in LiteralStore(folder)
        if digest not in digests],
    )  # fmt: skip
