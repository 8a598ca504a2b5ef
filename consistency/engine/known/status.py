"""What a run did with each known divergence: how many results it explained, and which entries are
obsolete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from ... import backends
from ...core.model import Case, Result
from ...core.output import writing
from ...core.verdict import VerdictKind
from ...errors import did_you_mean
from ...generate.shipped.cases import is_shipped
from ...judge.file_vocabulary import base_of
from ...judge.known.entries import Expectation, Occasion, by_operator
from ...judge.named_entries import is_pattern
from ...judge.output_judgment import excusable
from ..events import Event, Finished, Judged, Started
from ..misnamed_rules import misnamed_operator
from .standing import FILE, MOST_TEXT, KnownStatus, write

_USUAL = frozenset({"cpu", "numpy", "cuda", "directml"})
_ONLY_IF_REPEATED = frozenset({"nondeterministic"})


@dataclass
class StatusCollector:
    """Counts results by entry. ``identities``: the environment of each backend, by name."""

    entries: Sequence[Expectation]
    identities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    repeated: bool = False
    today: date = field(default_factory=date.today)
    _counts: dict[int, KnownStatus] = field(default_factory=dict)
    _about: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    # What is wrong with the names of an operator and a backend, which many entries share.
    _misnamed: dict[tuple[str, str], str] = field(default_factory=dict)
    # Whether entries describe the case of the last result: that of the next is mostly the same.
    _described: tuple[Case | None, dict[int, bool]] = (None, {})

    def add(self, result: Result) -> None:
        """Count one result for every entry that covers it."""
        if not self.entries or not result.verdict.tested:
            return
        for number in self._relevant_entries(result):
            entry = self.entries[number]
            outcome = self._kind(entry, result)
            if outcome and self._describes(number, result.case):
                if outcome == "passed" and is_shipped(result.case):
                    continue  # chosen among what torch's CPU passes: tells nothing of the others
                status = self._counts.get(number) or blank(entry)
                rho = excusable(result.metrics) if outcome == "failed" else 0.0
                self._counts[number] = replace(
                    status, **{outcome: getattr(status, outcome) + 1}, rho=max(status.rho, rho)
                )

    def _describes(self, number: int, case: Case) -> bool:
        if self._described[0] is not case:
            self._described = case, {}
        found = self._described[1]
        if number not in found:
            found[number] = self.entries[number].describes(case)
        return found[number]

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
        """The valid entries that name an occasion's operator."""
        numbers = by_operator(self.entries).of(*occasion.names)
        return [n for n in numbers if (self.entries[n].since or self.today) <= self.today]

    def _kind(self, entry: Expectation, result: Result) -> str:
        """How a covered result counts for an entry; empty if it does not count."""
        if result.known is not None:
            if result.known.entry == entry.id:
                return "failed"
            return "shared" if result.known.verdict in entry.verdicts else ""
        if not result.verdict.fails:
            if result.verdict.kind is VerdictKind.KNOWN or (
                not self.repeated and _ONLY_IF_REPEATED.issuperset(entry.verdicts)
            ):
                return ""
            return "passed"
        if result.verdict.value not in entry.verdicts:
            return "otherwise"
        return "expired" if entry.admits(excusable(result.metrics)) else "grown"

    def covered(self) -> list[KnownStatus]:
        """The statuses of the entries that covered a result."""
        return [self._counts[number] for number in sorted(self._counts)]

    def standings(self) -> list[KnownStatus]:
        """The statuses of entries that covered a result or contain an unknown name, in order of the
        entries."""
        result = []
        for number, entry in enumerate(self.entries):
            status = self._counts.get(number)
            problem = self._problem_of(entry) if status is None else ""
            if status is not None or problem:
                result.append(status or replace(blank(entry), problem=problem))
        return result

    def _problem_of(self, entry: Expectation) -> str:
        names = entry.operator, entry.backend
        if names not in self._misnamed:
            self._misnamed[names] = misnamed(entry)
        return self._misnamed[names]


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
    if problem := misnamed_operator(entry.operator):
        return problem
    base = base_of(entry.backend)
    if base in _USUAL or is_pattern(base):
        return ""
    if ".py:" in entry.backend:
        return (
            f"backend {entry.backend!r:.80} is a file's class; results have the `name` of that "
            f"class, which an entry has to give"
        )
    names = {base_of(backend.name) for backend in backends.catalog()}
    meant = did_you_mean(base, names) if base not in names else ""
    return f"backend {entry.backend!r:.80} is none that is known{meant}" if meant else ""


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
