"""A corpus in memory: its cases and their common digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ...core.model import Case
from ..bundle.header import CorpusEntry


@dataclass(frozen=True)
class Corpus:
    """``name`` is a label; ``problems`` describe cases that cannot be replayed.

    ``groups`` is the number of operators × dtypes in a standard corpus whose generation ran out of
    time; 0 if it is complete.
    """

    name: str
    cases: tuple[Case, ...]
    problems: tuple[str, ...] = ()
    groups: int = 0

    @cached_property
    def digest(self) -> str:
        return digest_of(case.digest for case in self.cases)

    def to_json(self) -> CorpusEntry:
        """The entry in bundle.json; ``replayed`` is the number of cases run so far."""
        entry: CorpusEntry = {
            "name": self.name,
            "digest": self.digest,
            "cases": len(self.cases),
            "replayed": 0,
        }
        if self.groups:
            entry["groups"] = self.groups
        return entry


def digest_of(digests: Iterable[str]) -> str:
    """SHA-256 over the sorted digests, one per line, so that the cases' order does not matter."""
    return hashlib.sha256(
        "".join(f"{digest}\n" for digest in sorted(set(digests))).encode("ascii")
    ).hexdigest()
