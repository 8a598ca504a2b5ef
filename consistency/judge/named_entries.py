"""Entries of a file by the name of their operator: a look-up tries the patterns only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate

_MARKS = frozenset("*?[")


def is_pattern(name: str) -> bool:
    """Whether a name may match others than itself (:mod:`fnmatch`)."""
    return not _MARKS.isdisjoint(name)


class NamedEntries:
    """The numbers of entries, in order, that name an operator or have a pattern that matches it."""

    __slots__ = ("_found", "_numbers", "_patterns")

    def __init__(self, names: Iterable[str]) -> None:
        """``names``: one for each entry, in their order."""
        self._numbers: dict[str, list[int]] = {}
        self._patterns: list[tuple[int, re.Pattern[str]]] = []
        self._found: dict[tuple[str, ...], tuple[int, ...]] = {}
        for number, name in enumerate(names):
            if is_pattern(name):
                self._patterns.append((number, re.compile(translate(name))))
            else:
                self._numbers.setdefault(name, []).append(number)

    def of(self, *names: str) -> tuple[int, ...]:
        """The numbers of the entries for an operator that is called by any of ``names``."""
        if names not in self._found:
            self._found[names] = tuple(sorted(set(self._look_up(names))))
        return self._found[names]

    def _look_up(self, names: tuple[str, ...]) -> Iterator[int]:
        for name in names:
            yield from self._numbers.get(name, ())
            yield from (n for n, pattern in self._patterns if pattern.match(name))
