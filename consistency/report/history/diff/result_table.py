"""The results of a bundle in a few bytes each, read line by line.

A million results take some 30 MB: what many of them share (operator, backend, verdict, cause) is
stored once, and the sentences of those that pass, most of all, are not kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from ....core.model import Known
from ....core.schema import Number, checked_lines
from ....core.text import shown
from ....core.verdict import VERDICTS, Verdict, verdict_name
from ....errors import BundleError
from ....storage.bundle.results import known_of
from ....storage.bundle.rows import KnownRow
from .compared_results import ComparedResult, GroupKey

MAX_TEXT = 400  # characters kept of a name or a sentence
CASE_BITS = 32  # of a key
CASE = (1 << CASE_BITS) - 1
_BLOCK = 1 << 16  # results that are looked up together
Positions = NDArray[np.integer[Any]]


class _Metrics(TypedDict, total=False):
    rho_max: Number


class _Cause(TypedDict, total=False):
    name: str


class _Evidence(TypedDict, total=False):
    cause: _Cause | None


class ComparedRow(TypedDict):
    """What is read of a row of results.jsonl."""

    operator: str
    dtype: str
    direction: str
    backend: str
    case_id: str
    verdict: str
    explanation: str
    metrics: _Metrics
    fails: NotRequired[bool]
    shrunk: NotRequired[bool]
    origin: NotRequired[str]
    evidence: NotRequired[_Evidence | None]
    expectation: NotRequired[KnownRow | None]


# Verdict, fails, tested, cause, origin, known: what many results share.
Kind = tuple[str, bool, bool, str, str, Known | None]
Row = tuple[GroupKey, str, float, Kind, str]  # group, case, × budget, kind, explanation


class Numbering(dict[Any, int]):
    """Numbers of distinct values, from 0 in the order of their first use."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


@dataclass
class Names:
    """The groups and cases of all tables that are compared."""

    groups: Numbering = field(default_factory=Numbering)
    cases: Numbering = field(default_factory=Numbering)


class ResultTable:
    """Results by group and case in the order of their first appearance; of several for the same
    case the last counts.

    ``keys`` are the numbers of group and case in one, ``rho`` × budget; ``kinds`` are positions in
    ``distinct``, ``texts`` in the list of explanations.
    """

    def __init__(self, names: Names, rows: Iterable[Row] = ()) -> None:
        self.names = names
        kinds, texts = Numbering(), Numbering()
        empty = texts[""]
        keys, rho, of_kind, of_text = array("q"), array("d"), array("i"), array("i")
        groups, cases = names.groups, names.cases
        for group, case, error, kind, text in rows:
            keys.append(groups[group] << CASE_BITS | cases[case])
            rho.append(error)
            of_kind.append(kinds[kind])
            of_text.append(texts[text] if text else empty)
        self.distinct = [
            ComparedResult(verdict, fails, tested, 0.0, "", cause, origin, known)
            for verdict, fails, tested, cause, origin, known in kinds
        ]
        self.explanations = list(texts)
        self.keys, self.rho = _in_place(keys, np.int64), _in_place(rho, np.float64)
        narrow = np.int16 if len(kinds) < 1 << 15 else np.intc
        self.kinds = _in_place(of_kind, np.intc).astype(narrow)
        del of_kind
        self.texts = _in_place(of_text, np.intc)
        self._sorted = self._order()
        ordered = self.keys[self._sorted]
        repeated = ordered[1:] == ordered[:-1]
        if repeated.any():
            firsts = self._sorted[np.concatenate(([True], ~repeated))]
            lasts = self._sorted[np.concatenate((~repeated, [True]))]
            lasts = lasts[np.argsort(firsts, kind="stable")]
            self.keys, self.rho = self.keys[lasts], self.rho[lasts]
            self.kinds, self.texts = self.kinds[lasts], self.texts[lasts]
            self._sorted = self._order()

    def _order(self) -> NDArray[np.int32]:
        """The positions in the order of the keys."""
        return np.argsort(self.keys, kind="stable").astype(np.int32)

    @staticmethod
    def of(names: Names, results: Mapping[tuple[GroupKey, str], ComparedResult]) -> ResultTable:
        """The table of results in memory."""
        return ResultTable(
            names,
            (
                (group, case, r.rho, (r.verdict, r.fails, r.tested, r.cause, r.origin, r.known),
                r.explanation)
                for (group, case), r in results.items()
            ),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def groups(self) -> Positions:
        """The number of each result's group."""
        return self.keys >> CASE_BITS

    def flags(self, hold: Callable[[ComparedResult], bool]) -> NDArray[np.bool_]:
        """Of each result, whether ``hold`` is true; it must not depend on error or explanation."""
        held = np.array([hold(one) for one in self.distinct], np.bool_)
        chosen: NDArray[np.bool_] = held[self.kinds]
        return chosen

    def find(self, keys: Positions) -> Positions:
        """The positions of results by key; −1 where there is none."""
        ordered, found = self.keys[self._sorted], np.full(len(keys), -1, np.int32)
        for start in range(0, len(keys) if len(ordered) else 0, _BLOCK):
            block = keys[start : start + _BLOCK]
            places = np.searchsorted(ordered, block)
            places[places == len(ordered)] = 0
            same = ordered[places] == block
            found[start : start + _BLOCK][same] = self._sorted[places[same]]
        return found

    def lacking_in(self, other: ResultTable) -> NDArray[np.bool_]:
        """Of each result, whether ``other`` has none for its group and case."""
        lacking: NDArray[np.bool_] = other.find(self.keys) < 0
        return lacking

    def result(self, position: int) -> ComparedResult:
        kind = self.distinct[self.kinds[position]]
        text = self.explanations[self.texts[position]]
        return ComparedResult(
            kind.verdict, kind.fails, kind.tested, float(self.rho[position]), text, kind.cause,
            kind.origin, kind.known,
        )  # fmt: skip


def _in_place(numbers: array[Any], dtype: Any) -> NDArray[Any]:
    """The numbers without a copy; of none, an empty array."""
    return np.frombuffer(numbers, dtype) if numbers else np.empty(0, dtype)


def read(folder: Path, names: Names) -> ResultTable:
    """The results of a bundle, without minimized ones. Raises BundleError with file and line."""
    return ResultTable(names, _rows(folder / "results.jsonl"))


def _rows(path: Path) -> Iterator[Row]:
    verdicts: dict[tuple[str, bool], Verdict] = {}
    for number, row in checked_lines(path, ComparedRow):
        if row.get("shrunk") is True:
            continue
        name = row["verdict"]
        allowed = name == "reduced-precision" and row.get("fails") is False
        verdict = verdicts.get((name, allowed))
        if verdict is None:
            if verdict_name(name) not in VERDICTS:
                raise BundleError(f"{path}:{number}  damaged: {shown(name)} is no verdict")
            verdict = verdicts[name, allowed] = Verdict(name, allowed)
        fails, tested = verdict.fails, verdict.tested
        evidence, known = row.get("evidence"), row.get("expectation")
        cause = (evidence.get("cause") or {}).get("name", "") if evidence else ""
        names = (row["operator"], row["dtype"], row["direction"], row["backend"])
        passes = tested and not fails and verdict.value != "known"
        yield (
            tuple(name[:MAX_TEXT] for name in names),
            row["case_id"][:MAX_TEXT],
            float(row["metrics"].get("rho_max", 0.0)),
            (verdict.value, fails, tested, cause[:MAX_TEXT], row.get("origin", "")[:MAX_TEXT],
            known_of(known) if known else None),
            "" if passes else row["explanation"][:MAX_TEXT],
        )  # fmt: skip
