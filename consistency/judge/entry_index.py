"""The entries of ``tolerances.yaml`` by backend and by name, so that a look-up reads the few that
may apply and not all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .named_entries import NamedEntries

if TYPE_CHECKING:
    from .rule_entries import Entry

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
        self._laid: dict[Environment, _ReachedEntries] = {}

    def entries(self, environment: Environment, operator: str, family: str) -> list[Entry]:
        """The entries for an operator and its family in an environment, whatever the dtype."""
        laid = self._laid.get(environment)
        if laid is None:
            reached = (entry for entry in self._entries if entry.reaches(environment))
            laid = self._laid[environment] = _ReachedEntries(reached)
        return laid.of(operator, family)


class _ReachedEntries:
    """Entries of one environment, by the name of their family or operator."""

    __slots__ = ("_entries", "_everywhere", "_families", "_operators")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = tuple(entries)
        self._everywhere: list[int] = []
        self._families: dict[str, list[int]] = {}
        for number, entry in enumerate(self._entries):
            if entry.level == FAMILY:
                self._families.setdefault(entry.name, []).append(number)
            elif entry.level != OPERATOR:
                self._everywhere.append(number)
        self._operators = NamedEntries(e.name if e.level == OPERATOR else "" for e in self._entries)

    def of(self, operator: str, family: str) -> list[Entry]:
        numbers = [
            *self._everywhere, *self._families.get(family, ()), *self._operators.of(operator),
        ]  # fmt: skip
        return [self._entries[number] for number in sorted(numbers)]
