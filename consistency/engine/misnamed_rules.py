"""Rules of a user's file of tolerances whose operator does not exist, so that they do nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from .. import operators
from ..errors import did_you_mean
from ..generate.calls import opinfo
from ..judge.tolerances import Tolerances

_OPERATORS = 3  # the level of entries that name operators (judge.rule_entries)


def misnamed_rules(rules: Tolerances) -> Iterator[str]:
    """A line for each name that matches no operator; a name is told once."""
    places = {e.name: e.place for e in reversed(rules.entries) if e.level == _OPERATORS}
    for name, place in reversed(places.items()):
        if problem := misnamed_operator(name):
            yield f"{place}: {problem}"


def misnamed_operator(pattern: str) -> str:
    """That no operator has this name or glob, also none of PyTorch's database, which takes a second
    to load; empty if one has."""
    declared = operators.registry()
    if pattern.startswith("aten.") or pattern in declared or _matches(declared, pattern):
        return ""
    if _matches(opinfo.names(), pattern):
        return ""
    hint = did_you_mean(pattern, declared)
    return f"operator {pattern!r:.80} matches none that is known{hint}"


def _matches(names: Collection[str], pattern: str) -> bool:
    if pattern.removesuffix("*") in names:  # as most patterns do: each name is looked at only else
        return True
    start = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    return any(name.startswith(start) and fnmatchcase(name, pattern) for name in names)
