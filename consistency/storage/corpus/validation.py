"""Checks of a corpus before replay: damaged lines, unknown operators, large cases, duplicates."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.case_source import parse_source
from ...core.reading import MAX_LINE, opened
from ...errors import BundleError, ConsistencyError
from ...generate.calls.case_operator import operator_of
from ..cases import FILE, entry_of
from ..literals import LiteralStore
from .corpus import digest_of
from .reading import MAX_CASES, elements, header_of

LARGE = 1 << 24  # elements of one case, 128 MiB per copy in float64
MOST = 1000  # reported lines


@dataclass
class CorpusCheck:
    """Content and problems of a corpus. ``damaged`` lines make it unusable; cases of ``unknown``
    operators are not replayed."""

    name: str
    digest: str = ""
    cases: int = 0
    elements: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, ...]] = field(default_factory=Counter)
    found: int = 0
    damaged: list[str] = field(default_factory=list)
    duplicates: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    large: list[tuple[int, str]] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        return not self.damaged and self.cases > 0

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "digest": self.digest, "cases": self.cases,
            "elements": self.elements,
            "operators": dict(self.operators), "dtypes": dict(self.dtypes),
            "sources": dict(self.sources),
            "found": self.found, "kinds": [[*kind, count] for kind,
            count in self.kinds.most_common()],
            "damaged": self.damaged, "duplicates": self.duplicates, "unknown": dict(self.unknown),
            "large": [list(entry) for entry in self.large],
        }  # fmt: skip


def check(folder: Path) -> CorpusCheck:
    """Check every line. Raises BundleError if the folder is not a corpus."""
    header = header_of(folder)
    checked = CorpusCheck(str(header.settings.get("name") or folder.resolve().name)[:80])
    path, store = folder / FILE, LiteralStore(folder)
    digests: set[str] = set()
    unknown_reasons: dict[tuple[str, str], str] = {}

    def damage(number: int, words: object) -> None:
        if len(checked.damaged) < MOST:
            checked.damaged.append(f"{path.name}:{number}  {str(words)[:200]}")

    try:
        with opened(path) as stream:
            for number, text in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
                if number > MAX_CASES:
                    raise BundleError(f"{path} holds more than {MAX_CASES:,} cases")
                if not text.endswith(b"\n"):
                    damage(number, "incomplete: the file was cut off, or the line is too long")
                    break
                try:
                    row = json.loads(text)
                    line = entry_of(row if isinstance(row, dict) else {}, store)
                except ConsistencyError as error:
                    damage(number, error)
                    continue
                except (ValueError, RecursionError) as error:
                    damage(number, f"damaged: {str(error)[:100]}")
                    continue
                case = line.case
                checked.duplicates += case.digest in digests
                digests.add(case.digest)
                size = elements(case)
                checked.elements += size
                if size > LARGE:
                    checked.large.append((size, case.id))
                checked.operators[case.operator] += 1
                checked.dtypes[case.dtype] += 1
                checked.sources[parse_source(case.source).kind or "drawn"] += 1
                checked.found += bool(line.failures)
                checked.kinds.update(line.failures)
                key = (case.operator, case.source)
                if key not in unknown_reasons:
                    unknown_reasons[key] = _unknown(case)
                if unknown_reasons[key]:
                    checked.unknown[unknown_reasons[key]] += 1
    except FileNotFoundError:
        damage(0, "is missing")
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from None
    checked.cases, checked.digest = len(digests), digest_of(digests)
    checked.large.sort(reverse=True)
    return checked


def _unknown(case: Any) -> str:
    """Why the operator of a case cannot be called with this torch; empty if it can."""
    try:
        operator = operator_of(case)
    except ConsistencyError as error:
        return str(error)[:160]
    return "" if operator.callable is not None else f"this torch has no {operator.name}"
