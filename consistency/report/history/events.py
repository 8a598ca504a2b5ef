"""The kinds of events in a history, with their titles and marks: between two runs
(`consistency diff`) and over many (`consistency matrix` and queries)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...core.text import pluralize


class EventKind(StrEnum):
    """An event in the results of an operator, in the order of listing."""

    OUTAGE = "trouble"
    NEW_FAILURE = "new"
    KNOWN_GREW = "grown"
    FAILURE_CHANGED = "changed"
    ERROR_GREW = "error_grew"
    UNTESTED = "untested"
    TURNED_KNOWN = "known"
    FIXED = "fixed"
    KNOWN_VANISHED = "gone"
    ERROR_SHRANK = "error_shrank"
    TESTED_AGAIN = "tested"
    TRANSIENT = "transient"
    FLAKY = "flaky"

    @property
    def regression(self) -> bool:
        return self in REGRESSIONS

    @property
    def heading(self) -> str:
        return _TITLES[self]

    @property
    def mark(self) -> str:
        return _MARKS[self]


REGRESSIONS = frozenset(
    {
        EventKind.OUTAGE,
        EventKind.NEW_FAILURE,
        EventKind.KNOWN_GREW,
        EventKind.ERROR_GREW,
        EventKind.UNTESTED,
    }
)
# Events found by the segmentation of many runs; the other kinds compare the cases of two runs, or
# are about the latest run only.
CHANGE_POINTS = (
    EventKind.NEW_FAILURE, EventKind.ERROR_GREW, EventKind.UNTESTED,
    EventKind.FIXED, EventKind.ERROR_SHRANK, EventKind.TESTED_AGAIN,
)  # fmt: skip
LATEST = (*CHANGE_POINTS, EventKind.FLAKY, EventKind.TRANSIENT)  # events in cells of the matrix
FORMER_WORDS = {"drifted": "error_grew", "calmed": "error_shrank", "once": "transient"}
_TITLES = {
    EventKind.OUTAGE: "machine in trouble",
    EventKind.NEW_FAILURE: "fails now",
    EventKind.KNOWN_GREW: "known divergence with a larger error",
    EventKind.FAILURE_CHANGED: "fails in another way",
    EventKind.ERROR_GREW: "larger error, still passing",
    EventKind.UNTESTED: "no longer tested",
    EventKind.TURNED_KNOWN: "fails as a known divergence now",
    EventKind.FIXED: "fixed",
    EventKind.KNOWN_VANISHED: "known divergence no longer happens",
    EventKind.ERROR_SHRANK: "smaller error",
    EventKind.TESTED_AGAIN: "tested again",
    EventKind.TRANSIENT: "not certain yet",
    EventKind.FLAKY: "fails on some runs, at random",
}
_MARKS = {
    EventKind.OUTAGE: "✗", EventKind.NEW_FAILURE: "✗", EventKind.KNOWN_GREW: "↑",
    EventKind.FAILURE_CHANGED: "≠", EventKind.ERROR_GREW: "↗", EventKind.UNTESTED: "–",
    EventKind.TURNED_KNOWN: "!", EventKind.FIXED: "✓", EventKind.KNOWN_VANISHED: "✓",
    EventKind.ERROR_SHRANK: "↘", EventKind.TESTED_AGAIN: "+", EventKind.TRANSIENT: "?",
    EventKind.FLAKY: "~",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of one group in one environment, first seen in ``run`` (an index into the
    environment's runs) and absent in run ``last``.

    ``cases`` of ``of`` cases changed. ``before`` and ``after`` are × budget in octaves; for
    verdicts, of the worst such case (NaN without a number). ``item`` is an example case. ``moved``:
    the environment changed between the two runs. ``certain``: the run after which it could be
    told first; ``nights``: runs from ``run`` up to the last one in which its cases were tested.
    """

    env: int
    group: int
    run: int
    last: int
    kind: EventKind
    cases: int
    of: int
    before: float
    after: float
    item: int
    moved: bool
    certain: int
    nights: int

    @property
    def regression(self) -> bool:
        return self.kind.regression

    def is_news(self, last: int) -> bool:
        """Whether it is told on the morning after run ``last``: changes of that run, and failures
        that began, or became certain, then or in the run before."""
        if self.kind is EventKind.NEW_FAILURE:
            return self.nights <= 2 or self.certain == last
        return self.run == last

    @property
    def age(self) -> str:
        """For how many nights a failure is there: ``new, 2 nights in a row``."""
        row = " in a row" if self.nights > 1 else ""
        return f"new, {pluralize(self.nights, 'night')}{row}"
