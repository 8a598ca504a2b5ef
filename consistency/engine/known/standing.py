"""The status of an entry of known failures in one run or in several: what it covered, and what is
told of it.

"No longer happens" requires enough passing results: their number must be implausible (p < 1e-3) at
the failure rate that the entry states or that is assumed. Reading them needs no torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ...core.files import write_text
from ...core.schema import checked_lines, row_type
from ...core.text import format_factor, pluralize
from ...errors import BundleError

FILE = "expectations.jsonl"  # in a bundle
MOST_TEXT = 400  # characters of a name or a reason
HAPPENS, GONE, EXPIRED, OTHERWISE, MISNAMED, IDLE = (
    "happens", "no longer happens", "expired", "otherwise", "matches nothing", "not exercised",
)  # fmt: skip
_COUNTS = ("failed", "passed", "otherwise", "grown", "expired", "shared")


@dataclass(frozen=True, slots=True)
class KnownStatus:
    """The results that one entry covers: ``failed`` as expected, ``passed``, exceeded max_rho
    (``grown``), would have been expected before it ``expired``, or failed ``otherwise``; ``shared``
    failures are excused by an entry before it, and this one would excuse them, too. ``enough``
    passing results without any of these failures mean that it no longer happens. ``rho`` is the
    largest × budget that was expected. ``problem`` describes a misspelled name."""

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
    shared: int = 0
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
        return GONE if self.passed >= self.enough and not self.shared else IDLE

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


def counted(standings: Iterable[KnownStatus], *, without: Collection[str] = ()) -> Iterator[str]:
    """A line for each entry that explained failures, but for those with the ids ``without``."""
    for standing in standings:
        if standing.failed and standing.entry not in without:
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
