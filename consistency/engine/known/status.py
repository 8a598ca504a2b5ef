"""What a run did with each known divergence: how many results it explained, and which entries are
obsolete.

"No longer happens" requires enough passing results: their number must be implausible (p < 1e-3) at
the failure rate that the entry states or that is assumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ... import backends, operators
from ...core.files import write_text
from ...core.model import Result
from ...core.output import writing
from ...core.schema import checked_lines, row_type
from ...core.text import format_factor, pluralize
from ...core.verdict import VerdictKind
from ...errors import BundleError, did_you_mean
from ...generate.calls import opinfo
from ...generate.shipped.cases import is_shipped
from ...judge.file_vocabulary import base_of
from ...judge.known.entries import Expectation, Occasion
from ..events import Event, Finished, Judged, Started

FILE = "expectations.jsonl"  # in a bundle
MOST_TEXT = 400  # characters of a name or a reason
HAPPENS, GONE, EXPIRED, OTHERWISE, MISNAMED, IDLE = (
    "happens", "no longer happens", "expired", "otherwise", "matches nothing", "not exercised",
)  # fmt: skip
_COUNTS = ("failed", "passed", "otherwise", "grown", "expired")
_USUAL = frozenset({"cpu", "numpy", "cuda", "directml"})
_ONLY_IF_REPEATED = frozenset({"nondeterministic"})


@dataclass(frozen=True, slots=True)
class KnownStatus:
    """The results that one entry covers: ``failed`` as expected, ``passed``, exceeded max_rho
    (``grown``), would have been expected before it ``expired``, or failed ``otherwise``. ``enough``
    passing results without a failure mean that it no longer happens. ``rho`` is the largest ×
    budget that was expected. ``problem`` describes a misspelled name."""

    entry: str
    place: str
    about: str
    reason: str = ""
    ticket: str = ""
    expires: str = ""
    likely: float = 1.0
    flaky: bool = False
    enough: int = 1
    failed: int = 0
    passed: int = 0
    otherwise: int = 0
    grown: int = 0
    expired: int = 0
    rho: float = 0.0
    problem: str = ""

    @property
    def status(self) -> str:
        if self.problem:
            return MISNAMED
        if self.failed:
            return HAPPENS
        if self.expired:
            return EXPIRED
        if self.otherwise or self.grown:
            return OTHERWISE
        return GONE if self.passed >= self.enough else IDLE

    @property
    def covered(self) -> int:
        """The number of conclusive results that the entry covers."""
        return self.failed + self.passed + self.otherwise + self.grown + self.expired

    def plus(self, other: KnownStatus) -> KnownStatus:
        """The combined status of the same entry in two runs, or in two processes of one."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return replace(
            self, **counts, rho=max(self.rho, other.rho), problem=self.problem and other.problem
        )

    def to_json(self) -> dict[str, Any]:
        row = {name: value for name, value in asdict(self).items() if value not in ("", 0, False)}
        return row | {"rho": min(self.rho, 1e300), "status": self.status}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> KnownStatus:
        """Read what :meth:`to_json` wrote. Raises KeyError, TypeError or ValueError for invalid
        data."""
        kinds: dict[str, Callable[[Any], Any]] = {
            "str": lambda text: str(text)[:MOST_TEXT],
            "int": int,
            "float": float,
            "bool": bool,
        }
        return KnownStatus(
            **{
                f.name: kinds[str(f.type)](row[f.name])
                for f in fields(KnownStatus)
                if f.name in row
            }
        )


KnownStatusRow = row_type(KnownStatus)


@dataclass
class StatusCollector:
    """Counts results by entry. ``identities``: the environment of each backend, by name."""

    entries: Sequence[Expectation]
    identities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    repeated: bool = False
    today: date = field(default_factory=date.today)
    _counts: dict[int, KnownStatus] = field(default_factory=dict)
    _about: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    _named: dict[tuple[str, ...], list[int]] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        """Count one result for every entry that covers it."""
        if not self.entries or not result.verdict.tested:
            return
        for number in self._relevant_entries(result):
            entry = self.entries[number]
            outcome = self._kind(entry, result) if entry.describes(result.case) else ""
            if outcome:
                status = self._counts.get(number) or blank(entry)
                rho = result.metrics.get("rho_max", 0.0) if outcome == "failed" else 0.0
                self._counts[number] = replace(
                    status, **{outcome: getattr(status, outcome) + 1}, rho=max(status.rho, rho)
                )

    def _relevant_entries(self, result: Result) -> list[int]:
        case = result.case
        key = (case.operator, case.source, case.dtype, result.direction, result.backend)
        numbers = self._about.get(key)
        if numbers is None:
            occasion = Occasion(
                case, result.backend, result.direction, self.identities.get(result.backend, {})
            )
            numbers = [n for n in self._naming(occasion) if occasion.spoken_of_by(self.entries[n])]
            self._about[key] = numbers
        return numbers

    def _naming(self, occasion: Occasion) -> list[int]:
        """The valid entries that name an occasion's operator: a few of hundreds, for all dtypes,
        directions and backends."""
        names = occasion.names
        if names not in self._named:
            self._named[names] = [
                n
                for n, e in enumerate(self.entries)
                if (e.since or self.today) <= self.today and _matches(names, e.operator)
            ]
        return self._named[names]

    def _kind(self, entry: Expectation, result: Result) -> str:
        """How a covered result counts for an entry; empty if it does not count."""
        if result.known is not None:
            return "failed" if result.known.entry == entry.id else ""
        if not result.verdict.fails:
            if result.verdict.kind is VerdictKind.KNOWN or (
                not self.repeated and _ONLY_IF_REPEATED.issuperset(entry.verdicts)
            ):
                return ""
            # Shipped cases were chosen among those that torch's CPU passes: that they pass says
            # nothing of how often others fail.
            return "" if is_shipped(result.case) else "passed"
        if result.verdict.value not in entry.verdicts:
            return "otherwise"
        return "expired" if entry.admits(result.metrics.get("rho_max", 0.0)) else "grown"

    def covered(self) -> list[KnownStatus]:
        """The statuses of the entries that covered a result."""
        return [self._counts[number] for number in sorted(self._counts)]

    def standings(self) -> list[KnownStatus]:
        """The statuses of entries that covered a result or contain an unknown name, in order of the
        entries."""
        result = []
        for number, entry in enumerate(self.entries):
            status = self._counts.get(number)
            problem = misnamed(entry) if status is None else ""
            if status is not None or problem:
                result.append(status or replace(blank(entry), problem=problem))
        return result


def blank(entry: Expectation) -> KnownStatus:
    """The status of an entry without results."""
    about = (
        str(entry)[:MOST_TEXT],
        entry.reason[:MOST_TEXT],
        entry.ticket[:MOST_TEXT],
        str(entry.expires or ""),
    )
    return KnownStatus(
        entry.id, entry.place, *about, likely=entry.likely, flaky=entry.flaky, enough=entry.enough
    )


def misnamed(entry: Expectation) -> str:
    """The unknown operator, or the misspelled backend, that an entry names."""
    declared = operators.registry()
    matches = entry.operator.startswith("aten.") or _matches(declared, entry.operator)
    if not matches and not _matches(
        (item.name for item in opinfo.database()), entry.operator
    ):  # which takes a second to load
        return (
            f"operator {entry.operator!r:.80} matches none that is "
            f"known{did_you_mean(entry.operator, declared)}"
        )
    base = base_of(entry.backend)
    if base in _USUAL or set(base) & set("*?["):
        return ""
    names = {base_of(backend.name) for backend in backends.catalog()}
    meant = did_you_mean(base, names) if base not in names else ""
    return f"backend {entry.backend!r:.80} is none that is known{meant}" if meant else ""


def _matches(names: Iterable[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)


class StatusWriter:
    """The handler that counts during a run; with a folder it writes the counts into the bundle at
    the end."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.collector = StatusCollector(())

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                chosen = event.config
                identities = {
                    b.name: b.identity for b in chosen.backends if b.name not in event.unavailable
                }
                self.collector = StatusCollector(
                    chosen.tolerances.expectations, identities, repeated=chosen.repeat > 0
                )
            case Judged():
                for result in event.results:
                    self.collector.add(result)
            case Finished() if self.folder is not None:
                with writing(self.folder / FILE, "the bundle lacks what became of expectations"):
                    write(self.folder, self.collector.standings())


def write(folder: Path, standings: Iterable[KnownStatus]) -> None:
    """Store statuses in a bundle; no file if there are none."""
    rows = [json.dumps(standing.to_json()) + "\n" for standing in standings]
    path = folder / FILE
    if rows or path.exists():
        write_text(path, "".join(rows))


def kept(folder: Path) -> list[KnownStatus]:
    """The statuses stored in a bundle. Raises BundleError with file and line."""
    statuses, path = [], folder / FILE
    for number, row in checked_lines(path, KnownStatusRow):
        try:
            statuses.append(KnownStatus.from_json(row))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BundleError(
                f"{path}:{number}  damaged: {type(error).__name__} {str(error)[:100]}"
            ) from None
    return statuses


def together(runs: Iterable[Iterable[KnownStatus]]) -> list[KnownStatus]:
    """The statuses of several runs, added up by entry."""
    by_entry: dict[str, KnownStatus] = {}
    for standing in (standing for run in runs for standing in run):
        status = by_entry.get(standing.entry)
        by_entry[standing.entry] = standing if status is None else status.plus(standing)
    return list(by_entry.values())


def counted(standings: Iterable[KnownStatus]) -> Iterator[str]:
    """A line for each entry that explained failures."""
    for standing in standings:
        if standing.failed:
            many = f"{pluralize(standing.failed, 'result')} of {standing.covered:,}"
            size = f", up to {format_factor(standing.rho)} × budget" if standing.rho > 1.0 else ""
            where = "; ".join(filter(None, (standing.place, standing.ticket)))
            yield f"expected: {standing.about}: {many}{size}: {standing.reason}" + (
                f" ({where})" if where else ""
            )


def told(standings: Sequence[KnownStatus]) -> Iterator[str]:
    """The lines for the user: entries to remove, expired or misspelled ones, and rates of flaky
    failures."""
    for standing in standings:
        where = f"({'; '.join(filter(None, (standing.place, standing.ticket)))})"
        match standing.status:
            case "no longer happens":
                yield (
                    f"no longer happens: remove expectation {standing.about} {where}: all of "
                    f"{standing.passed:,} results pass"
                )
            case "expired":
                many = pluralize(standing.expired, "failure")
                yield (
                    f"expired: {standing.about} {where} was expected until {standing.expires}: "
                    f"{many}"
                )
            case "matches nothing":
                yield f"expectation {standing.place or standing.about}: {standing.problem}"
            case "happens" if standing.flaky:
                yield f"flaky: {standing.about} {where}: {_rate(standing)}"
        if standing.grown:
            many = pluralize(standing.grown, "failure")
            yield f"grown: {standing.about} {where}: {many} beyond its max_rho"


def _rate(standing: KnownStatus) -> str:
    runs = standing.failed + standing.passed
    text = (
        f"failed in {standing.failed:,} of {runs:,} ({standing.failed / max(runs, 1):.2g}; "
        f"{standing.likely:.2g} is stated)"
    )
    often = more_often(standing.failed, runs, standing.likely)
    return text + (f", more often than stated (p = {often:.0e})" if often < 1e-3 else "")


def more_often(failed: int, runs: int, rate: float) -> float:
    """Probability of at least ``failed`` failures at the stated rate (binomial upper tail)."""
    if rate >= 1.0 or failed == 0:
        return 1.0
    log, miss = math.log(rate), math.log1p(-rate)
    log_binomials = [
        math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
        for k in range(failed, runs + 1)
    ]
    return math.fsum(
        math.exp(log_binomial + k * log + (runs - k) * miss)
        for k, log_binomial in enumerate(log_binomials, start=failed)
    )
