"""A corpus as a value: its cases, and what identifies them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...core.model import Case


@dataclass(frozen=True)
class Corpus:
    """``name`` is for people; ``problems`` are lines about what of it cannot be replayed here.

    ``groups``: of a standard corpus that there was no time to draw, how many operators × dtypes are
    in it; 0 where all are.
    """

    name: str
    cases: tuple[Case, ...]
    problems: tuple[str, ...] = ()
    groups: int = 0

    @cached_property
    def digest(self) -> str:
        return digest_of(case.digest for case in self.cases)

    def to_json(self) -> dict[str, Any]:
        """As bundle.json has it; ``replayed`` counts what was run of it."""
        part = {"groups": self.groups} if self.groups else {}
        return {
            "name": self.name,
            "digest": self.digest,
            "cases": len(self.cases),
            "replayed": 0,
        } | part


def digest_of(digests: Iterable[str]) -> str:
    """The same for the same cases in any order: SHA-256 over their sorted digests, a line each."""
    return hashlib.sha256(
        "".join(f"{one}\n" for one in sorted(set(digests))).encode("ascii")
    ).hexdigest()
