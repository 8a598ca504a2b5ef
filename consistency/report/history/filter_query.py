"""The query language of the search box: ``verdict:divergent backend:directml driver:>=31
-operator:conv*``.

All terms must hold; ``a,b`` means a or b; ``-`` negates a term; ``*`` matches anything; quotes keep
spaces together; a word without a key is part of an operator's name. The page's script
(templates/filter_query.js) implements the same language; tests compare both, including error
messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from .events import FORMER_WORDS, LATEST

TEXTS = (
    "operator",
    "family",
    "dtype",
    "direction",
    "verdict",
    "cause",
    "workaround",
    "kind",
    "environment",
    "label",
    "backend",
)
NUMBERS = ("rho", "flaky")
OTHERS = ("since", "count", "fingerprint")
STATES = ("pass", "warn", "fail", "untested")
_OPERATORS = (">=", "<=", ">", "<", "=")
_TERM = re.compile(r'-?(?:[^\s":]+:)?(?:"[^"]*"|[^\s"]+)')
_COUNT = re.compile(r"(>=|<=|>|<|=)?(\d+)\((\w+)\)", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?", re.ASCII)
MAX_LENGTH = 2000

Entry = Mapping[str, Any]
Test = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. ``holds(entry)``: entries have the texts and numbers named above,
    ``identity`` (name → value) and ``counts`` (state → number of environments in which the same
    operator, dtype and direction has it)."""

    tests: tuple[Test, ...]

    def holds(self, entry: Entry) -> bool:
        return all(test(entry) for test in self.tests)


def parse(text: str, names: Sequence[str] = (), verdicts: Sequence[str] = ()) -> Query:
    """Parse a query. ``names`` are those of environments' values (driver, device, torch …),
    ``verdicts`` the existing ones.

    Raises UsageError with one line that names the term.
    """
    if len(text) > MAX_LENGTH:
        raise UsageError(f"a query has at most {MAX_LENGTH} characters")
    if text.count('"') % 2:
        raise UsageError('a quotation mark " is not closed')
    return Query(tuple(_term(term, names, verdicts) for term in _TERM.findall(text)))


def _term(term: str, names: Sequence[str], verdicts: Sequence[str]) -> Test:
    negated, body = (True, term[1:]) if term.startswith("-") else (False, term)
    key, colon, value = body.partition(":")
    if not colon or key.startswith('"'):
        key, value = "operator", f"*{body.replace(chr(34), '')}*"
    value = value.replace('"', "")
    if not value:
        raise UsageError(f"{body!s} has nothing behind the colon")
    test = _test(key, value, names, verdicts)
    return (lambda entry: not test(entry)) if negated else test


def _test(key: str, value: str, names: Sequence[str], verdicts: Sequence[str]) -> Test:
    if key == "count":
        return _count_test(value)
    if key in NUMBERS:
        return _number_test(key, value)
    if key == "since":
        return _date_test(value)
    if key == "fingerprint":
        return _fingerprint_test(value)
    if key in TEXTS:
        known = {"verdict": (*verdicts, *STATES), "kind": LATEST}.get(key, ())
        parts = value.split(",")
        if key == "kind":
            parts = [FORMER_WORDS.get(part, part) for part in parts]
        for part in parts:
            if known and "*" not in part and part not in known:
                raise UsageError(f"{part} is no {key}{suggestion(part, known)}")
        patterns = [_glob(part) for part in parts]
        if key == "verdict":
            return lambda entry: any(
                p.fullmatch(entry["verdict"]) or p.fullmatch(entry["state"]) for p in patterns
            )
        return lambda entry: any(p.fullmatch(str(entry.get(key, "")).lower()) for p in patterns)
    if key in names:
        return _identity_test(key, value)
    raise UsageError(f"{key} is no key{suggestion(key, [*TEXTS, *NUMBERS, *OTHERS, *names])}")


def _split(value: str) -> tuple[str, str]:
    for operator in _OPERATORS:
        if value.startswith(operator):
            return operator, value[len(operator) :]
    return "", value


def _holds(operator: str, order: int) -> bool:
    return {
        ">": order > 0,
        ">=": order >= 0,
        "<": order < 0,
        "<=": order <= 0,
        "=": order == 0,
        "": order == 0,
    }[operator]


def _count_test(value: str) -> Test:
    found = _COUNT.fullmatch(value)
    if found is None or found[3] not in STATES:
        raise UsageError(
            f"count:{value} is no count; write count:1(fail), count:>=2(warn); states are "
            f"{', '.join(STATES)}"
        )
    operator, number, state = found[1] or "", int(found[2]), found[3]
    return lambda entry: (
        entry["state"] == state and _holds(operator, entry["counts"].get(state, 0) - number)
    )


def _number_test(key: str, value: str) -> Test:
    operator, rest = _split(value)
    if not _NUMBER.fullmatch(rest):
        raise UsageError(f"{key}:{value} is no number; write {key}:>1")
    number = float(rest)

    def test(entry: Entry) -> bool:
        found = entry.get(key)
        return found is not None and _holds(operator, (found > number) - (found < number))

    return test


def _date_test(value: str) -> Test:
    operator, rest = _split(value)
    if not re.fullmatch(r"\d{4}(-\d{2}(-\d{2})?)?", rest, re.ASCII):
        raise UsageError(f"since:{value} is no date; write since:>=2026-11-01")

    def test(entry: Entry) -> bool:
        found = entry.get("since") or ""
        short = found[: len(rest)]
        return bool(found) and _holds(operator, (short > rest) - (short < rest))

    return test


def _fingerprint_test(value: str) -> Test:
    pattern = _glob(f"*{value}*")
    return lambda entry: any(
        name.startswith("fingerprint") and pattern.fullmatch(f"{name} {told}".lower())
        for name, told in entry["identity"].items()
    )


def _identity_test(key: str, value: str) -> Test:
    """A test of text with asterisks, or of versions compared number by number: 31.0.15 is at least
    31."""
    operator, rest = _split(value)
    if operator and operator != "=":
        lowest = _version(rest)
        if not lowest:
            raise UsageError(f"{key}:{value} is no version; write {key}:>=31")

        def test(entry: Entry) -> bool:
            found = _version(entry["identity"].get(key, ""))[: len(lowest)]
            return bool(found) and _holds(operator, (found > lowest) - (found < lowest))

        return test
    patterns = [_glob(part) for part in rest.split(",")]
    return lambda entry: any(
        p.fullmatch(str(entry["identity"].get(key, "")).lower()) for p in patterns
    )


def _version(text: str) -> list[int]:
    return [int(part[:9]) for part in re.findall(r"[0-9]+", text)[:8]]


def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.lower().split("*"))), re.DOTALL)


def suggestion(word: str, known: Sequence[str]) -> str:
    """``; did you mean verdict?`` with the nearest name, if it is close."""
    best, smallest = "", max(len(word) // 3, min(2, len(word) // 2)) + 1
    for name in known:
        distance = _distance(word, name)
        if distance < smallest:
            best, smallest = name, distance
    return f"; did you mean {best}?" if best else f"; there are {', '.join(known[:14])}"


def _distance(a: str, b: str) -> int:
    """Edit distance (Levenshtein 1966)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a[:40], start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
