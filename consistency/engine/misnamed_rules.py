"""Rules of a user's file of tolerances whose operator does not exist, so that they do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from .. import operators
from ..errors import did_you_mean
from ..generate.calls import opinfo
from ..judge.tolerances import Tolerances

_OPERATORS = 3  # the level of entries that name operators (judge.rule_entries)


def misnamed_rules(rules: Tolerances) -> Iterator[str]:
    """A line for each name that matches no operator, also none of PyTorch's database, which takes
    a second to load; a name is told once."""
    declared, told = operators.registry(), set[str]()
    for entry in rules.entries:
        name = entry.name
        if entry.level != _OPERATORS or name in told or name.startswith("aten."):
            continue
        told.add(name)
        if name in declared or _matches(declared, name):
            continue
        if not _matches(opinfo.names(), name):
            hint = did_you_mean(name, declared)
            yield f"{entry.place}: operator {name!r:.80} matches none that is known{hint}"


def _matches(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
