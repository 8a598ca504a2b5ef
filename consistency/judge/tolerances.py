"""Tolerances: the numbers of ``tolerances.yaml``, by operator, dtype, direction and backend.

The budget of an element is ``c·ulp(ref) + λ·G(n)·u·S + floor``. c (in ulp of the output dtype) and
λ (a factor) come from here, the rest from the operator. docs/tolerances.md describes the file;
``python -m consistency.judge.tolerances`` prints its JSON schema.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from . import kept_tolerances
from . import tolerances_file as file
from .entry_index import FAMILY, OPERATOR, EntryIndex, Environment
from .file_vocabulary import COMPLEX
from .known import Expectation, entries_of
from .known.schema import read as read_expectations
from .known.schema import read_text
from .located_yaml import Located
from .rule_entries import Entry, entries_in
from .rule_values import POLICY_KEYS, RULE_KEYS, Policy, Rule, float64_values, gradient_values


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

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of the file, in its order."""
        return self._entries

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
                **{key: values[key] for key in POLICY_KEYS if key in values}
            )
        return cached

    def _find_rule(self, query: _RuleQuery, direction: str) -> Rule:
        if query.dtype == "bool" or query.dtype.startswith(("int", "uint")):
            return Rule(0.0, 0.0, source="integers and booleans are exact")
        values = self._merged(query, gradient=direction == "backward")
        return Rule(**{key: values[key] for key in RULE_KEYS if key in values})

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
        for complex128. A backend's entry for a family does not take from an operator what every
        backend is granted: it was written for the usual ones of that family."""
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
        granted: dict[str, float] = {}  # to an operator by name, on every backend
        for entry in sorted(applicable, key=lambda entry: entry.rank(query.dtype)):
            values = entry.values if entry.names(query.dtype) else float64_values(entry.values)
            values = gradient_values(values) if gradient and not entry.backward else values
            if entry.level == OPERATOR and not entry.backend:
                granted |= {key: values[key] for key in ("c", "lam") if key in values}
            elif entry.level == FAMILY:
                kept = granted.keys() & values.keys()
                values = {**values, **{key: max(values[key], granted[key]) for key in kept}}
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
    path = path if path.exists() else path.parents[1] / path.name
    label, text = read_text(path, "a tolerances file")
    kept = kept_tolerances.find(text)
    if kept is None:
        read = from_text(label, text)
        kept_tolerances.keep(text, read.entries, read.expectations)
        return read
    entries, expectations = kept
    return Tolerances(_digest(text), expectations, entries)


def _read(path: Path) -> Tolerances:
    return from_text(*read_text(path, "a tolerances file"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def from_text(label: str, text: str) -> Tolerances:
    """The tolerances in a text; ``label`` is the name of its file. Raises ConfigurationError."""
    located = Located(text, label)
    parsed = located.validate(file.File, file.SYNONYMS)
    base = _packaged_tolerances() if parsed.extends else Tolerances("", (), ())
    return Tolerances(
        digest=_digest(base.digest + text),
        expectations=base.expectations + tuple(entries_of(parsed.expectations, located)),
        _entries=base._entries + tuple(entries_in(parsed, located)),
    )


class _RuleQuery(NamedTuple):
    operator: str
    dtype: str
    family: str
    backend: str
    device: str
    driver: str


if __name__ == "__main__":
    print(json.dumps(file.json_schema(), indent=2, ensure_ascii=False))
