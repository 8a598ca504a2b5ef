"""How large a difference may be: the numbers of ``tolerances.yaml``, by operator, dtype, direction
and backend.

An element's budget is ``c·ulp(ref) + λ·G(n)·u·S + floor``. c (in ulp of the output dtype) and λ (a
factor) come from here, the rest from the operator. docs/tolerances.md describes the file; ``python
-m consistency.judge.tolerances`` prints its JSON schema.
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
from .file_vocabulary import COMPLEX, in_range, is_backend
from .known import Expectation, entries_of
from .known.schema import read as read_expectations
from .known.schema import read_text
from .located_yaml import Located

_NARROWER = {"float64": "float32", "complex128": "complex64"}
GRADIENT = 2.0  # a gradient's bounds, × the forward's: gradients carry about twice the error


@dataclass(frozen=True, slots=True)
class RangeRule:
    """Another bound for the elements whose argument number ``argument`` lies in [low, high].

    ``c`` (ulp), ``lam`` (factor) and ``absolute`` (in the output's own units) are None where the
    rule's own number holds. ``unspecified`` says that *outside* of the range a backend may return
    anything: that is not judged.
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
    """What one kind of result is judged by.

    ``c`` in ulp of the output dtype, ``lam`` the factor λ, ``absolute`` (or None) a bound in the
    output's own units: where no error is larger, c and λ do not matter. ``rmse_ratio`` and
    ``scaled_ratio`` are × the CPU's error in the same dtype, ``sign_bias`` is |n₊−n₋|/√n.
    ``source`` and ``place`` (``tolerances.yaml:41``) belong to the most specific entry that gave a
    bound.
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
    """What a backend is free to do: sets of admissible answers, never a blur.

    ``flush_subnormals``: subnormals may become zero. ``nan_in_max``: min and max of (NaN, x) give
    NaN, or ``any`` of the two. ``signed_zero``: whether the sign of a zero counts.
    ``saturating_casts``: which numbers beyond an integer's range may become its limit: none,
    floats, or integers too. ``reduced_precision``: TF32 and the like only warn. ``overflow``:
    beyond the largest number of a format there is infinity, or ``any`` of that number and infinity,
    as rounding toward zero gives. ``nondeterminism``: repeating a call gives the same bits, or sums
    in another order (``rounding``).
    """

    flush_subnormals: bool = False
    nan_in_max: Literal["propagate", "any"] = "propagate"
    signed_zero: Literal["strict", "any"] = "strict"
    saturating_casts: Literal["never", "floats", "any"] = "floats"
    reduced_precision: bool = False
    overflow: Literal["infinity", "any"] = "infinity"
    nondeterminism: Literal["none", "rounding"] = "none"


@dataclass(frozen=True, slots=True, eq=False)
class Tolerances:
    """A loaded file. ``digest`` is the SHA-256 of its text, so that a bundle can say by which
    numbers it was judged."""

    digest: str
    expectations: tuple[Expectation, ...]
    _entries: tuple[_Entry, ...] = field(repr=False)
    _rules: dict[tuple[str, ...], Rule] = field(default_factory=dict, init=False, repr=False)
    _policies: dict[tuple[str, ...], Policy] = field(default_factory=dict, init=False, repr=False)

    def rule(
        self, operator: str, dtype: str, *, family: str = "", direction: str = "forward",
        backend: str = "cpu",
        device: str = "", driver: str = "",
    ) -> Rule:  # fmt: skip
        """The rule for one kind of result; remembered, so that asking again costs less than a
        microsecond."""
        query = (operator, dtype, family, backend, device, driver, direction)
        found = self._rules.get(query)
        if found is None:
            found = self._rules[query] = self._find_rule(_RuleQuery(*query[:6]), direction)
        return found

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
        """What ``backend`` may do. Entries for an operator, family or dtype count only where that
        is named."""
        query = (operator, dtype, family, backend, device, driver)
        found = self._policies.get(query)
        if found is None:
            values = self._merged(_RuleQuery(*query))
            found = self._policies[query] = Policy(
                **{key: values[key] for key in _POLICY if key in values}
            )
        return found

    def _find_rule(self, query: _RuleQuery, direction: str) -> Rule:
        if query.dtype == "bool" or query.dtype.startswith(("int", "uint")):
            return Rule(0.0, 0.0, source="integers and booleans are exact")
        values = self._merged(query, gradient=direction == "backward")
        return Rule(**{key: values[key] for key in _RULE if key in values})

    def _merged(self, query: _RuleQuery, *, gradient: bool = False) -> dict[str, Any]:
        """Every entry that speaks of what was asked, laid over each other key by key, the most
        specific last.

        Complex numbers are judged part by part: what is said of them can only add to what is said
        of their parts' dtype.
        """
        parts = COMPLEX.get(query.dtype)
        if parts is None:
            return self._laid(query, gradient)
        values, own = (
            self._laid(query._replace(dtype=parts), gradient),
            self._laid(query, gradient, named=True),
        )
        return (
            values
            | own
            | {
                key: max(own[key], values[key])
                for key in ("c", "lam")
                if key in own and key in values
            }
        )

    def _laid(self, query: _RuleQuery, gradient: bool, named: bool = False) -> dict[str, Any]:
        """The values of one dtype; with ``named`` only from entries that name it, or complex64 for
        complex128."""
        speaking = [
            entry for entry in self._entries if entry.backward <= gradient and entry.applies(query)
        ]
        if named:
            speaking = [entry for entry in speaking if "any" not in entry.dtypes]
        merged: dict[str, Any] = {}
        for entry in sorted(speaking, key=lambda entry: entry.rank(query.dtype)):
            values = entry.values if entry.names(query.dtype) else _multiples(entry.values)
            values = _doubled(values) if gradient and not entry.backward else values
            merged |= values
            if values.keys() & {"c", "lam", "absolute", "ranges"}:
                merged |= {"source": entry.source, "place": entry.place}
        return merged


def load(path: str | Path | None = None) -> Tolerances:
    """The tolerances in a file; None means those that this package brings, which are read once.

    Raises ConfigurationError with one ``file:line:column  key …`` line per mistake.
    """
    return _packaged() if path is None else _read(Path(path))


def with_more(rules: Tolerances, paths: Iterable[str | Path] | str | Path) -> Tolerances:
    """The same rules with the expectations of some files as well. Raises ConfigurationError."""
    paths = [paths] if isinstance(paths, (str, Path)) else list(paths)
    return with_texts(rules, [read_text(Path(path), "an expectations file") for path in paths])


def with_texts(rules: Tolerances, files: Iterable[Iterable[str]]) -> Tolerances:
    """The same, of files that were read elsewhere: what each is called, and its text."""
    found = [(label, text) for label, text in files]
    if not found:
        return rules
    more = tuple(entry for label, text in found for entry in read_expectations(text, label))
    digest = hashlib.sha256(
        (rules.digest + "\0".join(text for _, text in found)).encode()
    ).hexdigest()
    return replace(rules, digest=digest, expectations=more + rules.expectations)


@functools.cache
def _packaged() -> Tolerances:
    here = (
        Path(__file__).parents[1] / "tolerances.yaml"
    )  # in a wheel; a source checkout has it one folder up
    return _read(here if here.exists() else here.parents[1] / here.name)


def _read(path: Path) -> Tolerances:
    return from_text(*read_text(path, "a tolerances file"))


def from_text(label: str, text: str) -> Tolerances:
    """The tolerances in the text of a file that is called ``label``. Raises ConfigurationError."""
    located = Located(text, label)
    said = located.validate(file.File, file.SYNONYMS)
    base = _packaged() if said.extends else Tolerances("", (), ())
    return Tolerances(
        digest=hashlib.sha256((base.digest + text).encode()).hexdigest(),
        expectations=base.expectations + tuple(entries_of(said.expectations, located)),
        _entries=base._entries + tuple(_entries(said, located)),
    )


class _RuleQuery(NamedTuple):
    operator: str
    dtype: str
    family: str
    backend: str
    device: str
    driver: str


@dataclass(frozen=True, slots=True)
class _Entry:
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

    def applies(self, query: _RuleQuery) -> bool:
        """Whether this speaks of what was asked. What is said of float32 also holds for float64, as
        of complex64 for complex128."""
        return (
            (self.names(query.dtype) or _NARROWER.get(query.dtype) in self.dtypes)
            and (self.level != 2 or self.name == query.family)
            and (self.level != 3 or fnmatchcase(query.operator, self.name))
            and (not self.backend or is_backend(query.backend, self.backend))
            and fnmatchcase(query.device, self.device)
            and in_range(query.driver, self.driver)
        )

    def rank(self, dtype: str) -> tuple[int, ...]:
        """The larger, the more specific. Of equals the one further down in the file wins."""
        of_dtype = (
            9 - len(self.dtypes) if dtype in self.dtypes else 0 if "any" in self.dtypes else 1
        )
        qualifiers = (self.device != "*") + bool(self.driver)
        block = (
            bool(self.backend),
            qualifiers,
            *_precision(self.backend),
            self.level,
            *_precision(self.name),
        )
        return (*block, self.backward, of_dtype)


def _precision(glob: str) -> tuple[int, int]:
    """How precise a glob is: a plain name before any pattern, then the one with more plain
    characters."""
    plain = re.sub(r"\[.*?\]|[*?]", "", glob)
    return plain == glob, len(plain)


# From the model of the file to entries.


def _entries(said: file.File, located: Located) -> Iterator[_Entry]:
    yield from _scope("", said, located, ())
    for backend, overrides in said.backends.items():
        for number, override in enumerate(overrides):
            yield from _scope(backend, override, located, ("backends", backend, number))


def _scope(
    backend: str, scope: file.Scope, located: Located, at: tuple[str | int, ...]
) -> Iterator[_Entry]:
    device, driver = (scope.device, scope.driver) if isinstance(scope, file.Override) else ("*", "")
    where = functools.partial(_Entry, backend, device, driver)
    yield where(0, "", ("any",), False, _said(scope.policy), "", located.line((*at, "policy")))
    blocks = [(1, "", scope.defaults, (*at, "defaults"))]
    blocks += [(2, name, block, (*at, "families", name)) for name, block in scope.families.items()]
    for key, block in scope.operators.items():
        blocks += [(3, name, block, (*at, "operators", key)) for name in file.split(key)]
    for level, name, block, path in blocks:
        for key, entry in block.dtypes.items():
            dtypes, place = file.split(key), located.line((*path, key))
            yield where(level, name, dtypes, False, _said(entry), entry.source, place)
        for key, numbers in block.backward.items():
            dtypes, place = file.split(key), located.line((*path, "backward", key))
            yield where(level, name, dtypes, True, _said(numbers), numbers.source, place)


def _said(part: file.RuleNumbers | file.Freedoms) -> dict[str, Any]:
    """The keys that were given, and no others."""
    values = {name: getattr(part, name) for name in part.model_fields_set if name != "source"}
    return values | (
        {"ranges": tuple(_range_rule(one) for one in values["ranges"])}
        if "ranges" in values
        else {}
    )


def _range_rule(said: file.Range) -> RangeRule:
    low = -math.inf if said.low is None else said.low
    high = math.inf if said.high is None else said.high
    return RangeRule(
        said.argument, low, high, said.c, said.lam, said.absolute, said.outside == "unspecified"
    )


_POLICY = tuple(one.name for one in fields(Policy))
_RULE = tuple(one.name for one in fields(Rule))


def _multiples(values: Mapping[str, Any]) -> dict[str, Any]:
    """What float64 takes over from float32: bounds that scale with the dtype, so neither absolute
    ones nor freedoms."""
    kept = {key: value for key, value in values.items() if key != "absolute" and key not in _POLICY}
    return kept | (
        {"ranges": tuple(replace(one, absolute=None) for one in kept["ranges"])}
        if "ranges" in kept
        else {}
    )


def _doubled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of a gradient from those of the forward."""

    def twice(bound: float | None) -> float | None:
        return None if bound is None else GRADIENT * bound

    result = {
        key: twice(value) if key in ("c", "lam", "absolute") else value
        for key, value in values.items()
    }
    if "ranges" in values:
        result["ranges"] = tuple(
            replace(one, c=twice(one.c), lam=twice(one.lam), absolute=twice(one.absolute))
            for one in values["ranges"]
        )
    return result


if __name__ == "__main__":
    print(json.dumps(file.json_schema(), indent=2, ensure_ascii=False))
