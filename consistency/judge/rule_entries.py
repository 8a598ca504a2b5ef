"""The entries of ``tolerances.yaml``: their conditions and values, and which is more specific."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from . import tolerances_file as file
from .entry_index import Environment
from .file_vocabulary import in_range, is_backend
from .located_yaml import Located
from .rule_values import RangeRule

_NARROWER = {"float64": "float32", "complex128": "complex64"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the file with its conditions; ``level``: 0 policy, 1 defaults, 2 a family, 3
    operators."""

    backend: str  # "" for all
    device: str
    driver: str
    level: int
    name: str
    dtypes: tuple[str, ...]
    backward: bool
    values: Mapping[str, Any]
    source: str
    place: str

    def names(self, dtype: str) -> bool:
        return dtype in self.dtypes or "any" in self.dtypes

    def covers(self, dtype: str) -> bool:
        """Whether this entry is about a dtype. Entries for float32 also cover float64, as
        complex64 does complex128."""
        return self.names(dtype) or _NARROWER.get(dtype) in self.dtypes

    def reaches(self, environment: Environment) -> bool:
        """Whether results of this backend, device and driver are within its conditions."""
        return (
            (not self.backend or is_backend(environment.backend, self.backend))
            and fnmatchcase(environment.device, self.device)
            and in_range(environment.driver, self.driver)
        )

    def rank(self, dtype: str) -> tuple[int, ...]:
        """The larger, the more specific. Among equals the later entry in the file wins."""
        of_dtype = (
            9 - len(self.dtypes) if dtype in self.dtypes else 0 if "any" in self.dtypes else 1
        )
        qualifiers = (self.device != "*") + bool(self.driver)
        block = (
            bool(self.backend),
            qualifiers,
            *_glob_precision(self.backend),
            self.level,
            *_glob_precision(self.name),
        )
        return (*block, self.backward, of_dtype)


@functools.cache
def _glob_precision(glob: str) -> tuple[int, int]:
    """Sort key of globs: plain names after patterns, then by the number of plain characters."""
    plain = re.sub(r"\[.*?\]|[*?]", "", glob)
    return plain == glob, len(plain)


def entries_in(parsed: file.File, located: Located) -> Iterator[Entry]:
    yield from _scope("", parsed, located, ())
    for backend, overrides in parsed.backends.items():
        for number, override in enumerate(overrides):
            yield from _scope(backend, override, located, ("backends", backend, number))


def _scope(
    backend: str, scope: file.Scope, located: Located, at: tuple[str | int, ...]
) -> Iterator[Entry]:
    device, driver = (scope.device, scope.driver) if isinstance(scope, file.Override) else ("*", "")
    make_entry = functools.partial(Entry, backend, device, driver)
    yield make_entry(
        0, "", ("any",), False, _given_values(scope.policy), "", located.line((*at, "policy"))
    )
    blocks = [(1, "", scope.defaults, (*at, "defaults"))]
    blocks += [(2, name, block, (*at, "families", name)) for name, block in scope.families.items()]
    for key, block in scope.operators.items():
        blocks += [(3, name, block, (*at, "operators", key)) for name in file.split(key)]
    for level, name, block, path in blocks:
        for key, entry in block.dtypes.items():
            dtypes, place = file.split(key), located.line((*path, key))
            yield make_entry(level, name, dtypes, False, _given_values(entry), entry.source, place)
        for key, numbers in block.backward.items():
            dtypes, place = file.split(key), located.line((*path, "backward", key))
            yield make_entry(
                level, name, dtypes, True, _given_values(numbers), numbers.source, place
            )


def _given_values(part: file.RuleNumbers | file.Freedoms) -> dict[str, Any]:
    """Only the keys that were given."""
    values = {name: getattr(part, name) for name in part.model_fields_set if name != "source"}
    return values | (
        {"ranges": tuple(_range_rule(item) for item in values["ranges"])}
        if "ranges" in values
        else {}
    )


def _range_rule(item: file.Range) -> RangeRule:
    low = -math.inf if item.low is None else item.low
    high = math.inf if item.high is None else item.high
    return RangeRule(
        item.argument, low, high, item.c, item.lam, item.absolute, item.outside == "unspecified"
    )
