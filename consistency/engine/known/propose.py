"""A new entry for a failing case: where it fails, how often, under which condition, and the largest
error allowed."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import backends as _backends
from ...core.model import Result
from ...errors import UsageError
from ...judge.known import schema
from ...judge.known.entries import Expectation, Occasion
from ...judge.output_judgment import excusable
from . import write
from .entry_fields import covers, entry_fields, notes_of, often, reason_of
from .failing_case import ProposalRequest, related_cases, settings, target_of
from .predicate_evidence import PredicateTrials, search

_RUNS_OF_FLAKES = 25


@dataclass(frozen=True)
class Proposal:
    """An entry that is ready to be written. ``told``: the evidence for it."""

    path: Path
    said: dict[str, Any]
    notes: tuple[str, ...]
    told: tuple[str, ...]

    @property
    def text(self) -> str:
        return write.entry_text(self.said)

    def written(self) -> str:
        """Append it to its file; returns ``FILE:LINE``."""
        return write.append(self.path, self.said, self.notes)


def propose(
    request: ProposalRequest,
    *,
    ticket: str,
    reason: str | None,
    expires: datetime.date | None,
    say: Callable[[str], None] = lambda text: None,
) -> Proposal:
    """The entry for a case. Raises UsageError if it does not fail or is known already."""
    chosen, absent = settings(request)
    (backend,), (operator,) = chosen.backends, chosen.operators
    try:
        absent = absent or _backends.availability(backend) or ""
        if absent:
            say(f"nothing is run here to find a condition: {absent}")
        target, other_results = target_of(request, chosen, absent)
        entries = (
            *chosen.tolerances.expectations,
            *(write.read(request.path) if request.path.exists() else ()),
        )
        identity = (
            dict(request.found.environments.get(target.backend, {})) if absent else backend.identity
        )
        occasion = Occasion(target.case, target.backend, target.direction, identity)
        _refuse_known(target, occasion, entries)
        evidence = related_cases(request, target, other_results, say)
        failed = runs = 0
        trials = None
        if not absent and request.seconds > 0:
            trials = PredicateTrials(
                operator,
                backend,
                target.direction,
                chosen.tolerances,
                time.monotonic() + request.seconds,
            )
            failed, runs = trials.rate(target.case, evidence.verdicts)
            if 0 < failed < runs:
                failed, runs = trials.rate(target.case, evidence.verdicts, _RUNS_OF_FLAKES)
            say(often(failed, runs))
        narrowed = search(
            target.case, evidence, trials if failed == runs else None
        )  # for flaky failures one more run proves nothing
    finally:
        backend.close()
    fields = entry_fields(target, evidence, narrowed)
    if 0 < failed < runs:
        fields |= {"flaky": True, "rate": float(f"{failed / runs:.2g}")}
    fields |= {
        "reason": reason or reason_of(target),
        "ticket": ticket,
        "since": datetime.date.today(),
        "expires": expires,
    }
    _check(fields, occasion, target, entries)
    return Proposal(
        request.path,
        fields,
        (f"{target.case.id}: {covers(narrowed)}",),
        tuple(notes_of(fields, narrowed, evidence, trials)),
    )


def _refuse_known(target: Result, occasion: Occasion, entries: Sequence[Expectation]) -> None:
    verdict, rho = target.verdict.value, excusable(target.metrics)
    entry = occasion.known(entries, verdict, rho)
    place = (
        entry.place if entry is not None else target.known.place if target.known is not None else ""
    )
    if entry is not None or verdict == "known":
        raise UsageError(
            f"{target.case.id} is expected already, by {place or 'another entry'}; nothing is "
            f"written"
        )


def _check(
    fields: dict[str, Any], occasion: Occasion, target: Result, entries: Sequence[Expectation]
) -> None:
    """Check that the entry matches its own case and does not exist yet."""
    text = "expectations:\n" + write.entry_text(fields)
    (entry,) = schema.read(text, "the new entry")
    twin = next((other for other in entries if other.id == entry.id), None)
    if twin is not None:
        raise UsageError(
            f"{twin.place} says the same, but has expired or allows a smaller error: change it "
            f"there; nothing is written"
        )
    if (
        occasion.known([replace(entry, place="")], target.verdict.value, excusable(target.metrics))
        is None
    ):
        raise UsageError(f"no entry could be made that covers {target.case.id}; please report it")
