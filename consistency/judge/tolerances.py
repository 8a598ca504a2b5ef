"""Tolerances: the numbers of ``tolerances.yaml``, by operator, dtype, direction and backend.

The budget of an element is ``c·ulp(ref) + λ·G(n)·u·S + floor``. c (in ulp of the output dtype) and
λ (a factor) come from here, the rest from the operator. docs/tolerances.md describes the file;
``python -m consistency.judge.tolerances`` prints its JSON schema.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

from . import tolerances_file as file
from .entry_index import EntryIndex, Environment
from .file_vocabulary import COMPLEX, in_range, is_backend
from .known import Expectation, entries_of
from .known.schema import read as read_expectations
from .known.schema import read_text
from .located_yaml import Located

_NARROWER = {"float64": "float32", "complex128": "complex64"}
GRADIENT = 2.0  # × the forward bounds: gradients have about twice the error


@dataclass(frozen=True, slots=True)
class RangeRule:
    """Other bounds for elements whose argument number ``argument`` lies in [low, high].

    ``c`` (ulp), ``lam`` (factor) and ``absolute`` (in units of the output) are None if those of the
    rule apply. ``unspecified``: *outside* of the range results are not judged.
    """

    argument: int
    low: float
    high: float
    c: float | None = None
    lam: float | None = None
    absolute: float | None = None
    unspecified: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """The bounds for one kind of result.

    ``c`` in ulp of the output dtype, ``lam`` the factor λ, ``absolute`` (or None) a bound in units
    of the output: if no error is larger, c and λ are ignored. ``rmse_ratio`` and ``scaled_ratio``
    are × the CPU's error in the same dtype, ``sign_bias`` is |n₊−n₋|/√n. ``source`` and ``place``
    (``tolerances.yaml:41``) belong to the most specific entry that gave a bound.
    """

    c: float
    lam: float
    absolute: float | None = None
    ranges: tuple[RangeRule, ...] = ()
    rmse_ratio: float = 4.0
    scaled_ratio: float = 4.0
    sign_bias: float = 6.0
    source: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a backend is free to do: sets of admissible answers.

    ``flush_subnormals``: subnormals may become zero. ``nan_in_max``: min and max of (NaN, x) give
    NaN, or ``any`` of the two. ``signed_zero``: whether the sign of a zero counts.
    ``saturating_casts``: which numbers beyond an integer's range may saturate: none, floats, or
    integers too. ``reduced_precision``: TF32 and similar only warn. ``overflow``: beyond the
    largest number of a format the result is infinity, or ``any`` of that number and infinity, as in
    rounding toward zero. ``nondeterminism``: repeated calls give the same bits, or may sum in
    another order (``rounding``). ``strides``: new results have those that torch documents
    (memory formats), all that its shape functions state, or ``any``.
    """

    flush_subnormals: bool = False
    nan_in_max: Literal["propagate", "any"] = "propagate"
    signed_zero: Literal["strict", "any"] = "strict"
    saturating_casts: Literal["never", "floats", "any"] = "floats"
    reduced_precision: bool = False
    overflow: Literal["infinity", "any"] = "infinity"
    nondeterminism: Literal["none", "rounding"] = "none"
    strides: Literal["documented", "stated", "any"] = "documented"


@dataclass(frozen=True, slots=True, eq=False)
class Tolerances:
    """A loaded file. ``digest`` is the SHA-256 of its text, with which bundles identify their
    tolerances."""

    digest: str
    expectations: tuple[Expectation, ...]
    _entries: tuple[Entry, ...] = field(repr=False)
    _index: EntryIndex = field(init=False, repr=False)
    _rules: dict[tuple[str, ...], Rule] = field(default_factory=dict, init=False, repr=False)
    _policies: dict[tuple[str, ...], Policy] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", EntryIndex(self._entries))

    def rule(
        self, operator: str, dtype: str, *, family: str = "", direction: str = "forward",
        backend: str = "cpu",
        device: str = "", driver: str = "",
    ) -> Rule:  # fmt: skip
        """The rule for one kind of result; cached."""
        query = (operator, dtype, family, backend, device, driver, direction)
        cached = self._rules.get(query)
        if cached is None:
            cached = self._rules[query] = self._find_rule(_RuleQuery(*query[:6]), direction)
        return cached

    def policy(
        self,
        backend: str,
        *,
        operator: str = "",
        dtype: str = "",
        family: str = "",
        device: str = "",
        driver: str = "",
    ) -> Policy:
        """What ``backend`` may do. Entries for an operator, family or dtype apply only if that
        is given."""
        query = (operator, dtype, family, backend, device, driver)
        cached = self._policies.get(query)
        if cached is None:
            values = self._merged(_RuleQuery(*query))
            cached = self._policies[query] = Policy(
                **{key: values[key] for key in _POLICY if key in values}
            )
        return cached

    def _find_rule(self, query: _RuleQuery, direction: str) -> Rule:
        if query.dtype == "bool" or query.dtype.startswith(("int", "uint")):
            return Rule(0.0, 0.0, source="integers and booleans are exact")
        values = self._merged(query, gradient=direction == "backward")
        return Rule(**{key: values[key] for key in _RULE if key in values})

    def _merged(self, query: _RuleQuery, *, gradient: bool = False) -> dict[str, Any]:
        """The values of all applicable entries, key by key, the most specific last.

        Complex numbers are judged by part: entries for them can only loosen those of their parts'
        dtype.
        """
        parts = COMPLEX.get(query.dtype)
        if parts is None:
            return self._values_for_dtype(query, gradient)
        values, complex_values = (
            self._values_for_dtype(query._replace(dtype=parts), gradient),
            self._values_for_dtype(query, gradient, named=True),
        )
        return (
            values
            | complex_values
            | {
                key: max(complex_values[key], values[key])
                for key in ("c", "lam")
                if key in complex_values and key in values
            }
        )

    def _values_for_dtype(
        self, query: _RuleQuery, gradient: bool, named: bool = False
    ) -> dict[str, Any]:
        """The values of one dtype; with ``named`` only from entries that name it, or complex64
        for complex128."""
        environment = Environment(query.backend, query.device, query.driver)
        named_entries = self._index.entries(environment, query.operator, query.family)
        applicable = [
            entry
            for entry in named_entries
            if entry.backward <= gradient and entry.covers(query.dtype)
        ]
        if named:
            applicable = [entry for entry in applicable if "any" not in entry.dtypes]
        merged: dict[str, Any] = {}
        for entry in sorted(applicable, key=lambda entry: entry.rank(query.dtype)):
            values = entry.values if entry.names(query.dtype) else _float64_values(entry.values)
            values = _gradient_values(values) if gradient and not entry.backward else values
            merged |= values
            if values.keys() & {"c", "lam", "absolute", "ranges"}:
                merged |= {"source": entry.source, "place": entry.place}
        return merged


def load(path: str | Path | Tolerances | None = None) -> Tolerances:
    """The tolerances in a file; None means the packaged ones, which are cached; what was loaded
    already is returned as it is.

    Raises ConfigurationError with one ``file:line:column key …`` line per mistake.
    """
    if isinstance(path, Tolerances):
        return path
    return _packaged_tolerances() if path is None else _read(Path(path))


def with_more(rules: Tolerances, paths: Iterable[str | Path] | str | Path) -> Tolerances:
    """The same rules with additional expectation files. Raises ConfigurationError."""
    paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
    return with_texts(rules, [read_text(Path(path), "an expectations file") for path in paths])


def with_texts(rules: Tolerances, files: Iterable[Iterable[str]]) -> Tolerances:
    """The same for files already read, as (label, text)."""
    texts = [(label, text) for label, text in files]
    if not texts:
        return rules
    more = tuple(entry for label, text in texts for entry in read_expectations(text, label))
    digest = hashlib.sha256(
        (rules.digest + "\0".join(text for _, text in texts)).encode()
    ).hexdigest()
    return replace(rules, digest=digest, expectations=more + rules.expectations)


@functools.cache
def _packaged_tolerances() -> Tolerances:
    # In a wheel; a source checkout has it one folder up.
    path = Path(__file__).parents[1] / "tolerances.yaml"
    return _read(path if path.exists() else path.parents[1] / path.name)


def _read(path: Path) -> Tolerances:
    return from_text(*read_text(path, "a tolerances file"))


def from_text(label: str, text: str) -> Tolerances:
    """The tolerances in a text; ``label`` is the name of its file. Raises ConfigurationError."""
    located = Located(text, label)
    parsed = located.validate(file.File, file.SYNONYMS)
    base = _packaged_tolerances() if parsed.extends else Tolerances("", (), ())
    return Tolerances(
        digest=hashlib.sha256((base.digest + text).encode()).hexdigest(),
        expectations=base.expectations + tuple(entries_of(parsed.expectations, located)),
        _entries=base._entries + tuple(_entries(parsed, located)),
    )


class _RuleQuery(NamedTuple):
    operator: str
    dtype: str
    family: str
    backend: str
    device: str
    driver: str


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


def _entries(parsed: file.File, located: Located) -> Iterator[Entry]:
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


_POLICY = tuple(field_info.name for field_info in fields(Policy))
_RULE = tuple(field_info.name for field_info in fields(Rule))


def _float64_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What float64 inherits from float32: bounds that scale with the dtype, without absolute
    ones and policies."""
    scalable = {
        key: value for key, value in values.items() if key != "absolute" and key not in _POLICY
    }
    return scalable | (
        {"ranges": tuple(replace(range_rule, absolute=None) for range_rule in scalable["ranges"])}
        if "ranges" in scalable
        else {}
    )


def _gradient_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of a gradient, derived from those of the forward direction."""

    def doubled(bound: float | None) -> float | None:
        return None if bound is None else GRADIENT * bound

    result = {
        key: doubled(value) if key in ("c", "lam", "absolute") else value
        for key, value in values.items()
    }
    if "ranges" in values:
        result["ranges"] = tuple(
            replace(
                range_rule,
                c=doubled(range_rule.c),
                lam=doubled(range_rule.lam),
                absolute=doubled(range_rule.absolute),
            )
            for range_rule in values["ranges"]
        )
    return result


if __name__ == "__main__":
    print(json.dumps(file.json_schema(), indent=2, ensure_ascii=False))
