"""The entries of ``tolerances.yaml`` by backend and by name, so that a look-up reads the few that
may apply and not all of them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .rule_entries import Entry

_PATTERN = frozenset("*?[")
FAMILY, OPERATOR = 2, 3  # levels of an entry


class Environment(NamedTuple):
    """Where results come from: the conditions of an entry that most of a run's look-ups share."""

    backend: str
    device: str
    driver: str


class EntryIndex:
    """All entries, laid out once for each environment that is asked for.

    Immutable entries, so that an index is never outdated. Entries keep the order of their file.
    """

    __slots__ = ("_entries", "_laid")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = tuple(entries)
        self._laid: dict[Environment, _NamedEntries] = {}

    def entries(self, environment: Environment, operator: str, family: str) -> list[Entry]:
        """The entries for an operator and its family in an environment, whatever the dtype."""
        laid = self._laid.get(environment)
        if laid is None:
            reached = (entry for entry in self._entries if entry.reaches(environment))
            laid = self._laid[environment] = _NamedEntries(reached)
        return laid.of(operator, family)


class _NamedEntries:
    """Entries by the name of their family or operator; those of a pattern are tried one by one."""

    __slots__ = ("_always", "_families", "_operators", "_patterns")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._always: list[tuple[int, Entry]] = []
        self._families: dict[str, list[tuple[int, Entry]]] = {}
        self._operators: dict[str, list[tuple[int, Entry]]] = {}
        self._patterns: list[tuple[int, Entry]] = []
        for place in enumerate(entries):
            entry = place[1]
            if entry.level == FAMILY:
                self._families.setdefault(entry.name, []).append(place)
            elif entry.level != OPERATOR:
                self._always.append(place)
            elif _PATTERN.isdisjoint(entry.name):
                self._operators.setdefault(entry.name, []).append(place)
            else:
                self._patterns.append(place)

    def of(self, operator: str, family: str) -> list[Entry]:
        found = [
            *self._always,
            *self._families.get(family, ()),
            *self._operators.get(operator, ()),
            *(place for place in self._patterns if fnmatchcase(operator, place[1].name)),
        ]
        return [entry for _, entry in sorted(found, key=lambda place: place[0])]
