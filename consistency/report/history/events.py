"""The kinds of events that a history tells of, with their words and marks: between two runs
(`consistency diff`) and over many (`consistency matrix`, and queries of both)."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """What happened to the results of an operator; the order is that in which events are listed."""

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
# What the segmentation of many runs finds; the other kinds need the cases of two runs beside each
# other, or are about the latest run alone.
CHANGE_POINTS = (
    EventKind.NEW_FAILURE, EventKind.ERROR_GREW, EventKind.UNTESTED,
    EventKind.FIXED, EventKind.ERROR_SHRANK, EventKind.TESTED_AGAIN,
)  # fmt: skip
LATEST = (*CHANGE_POINTS, EventKind.FLAKY, EventKind.TRANSIENT)  # what a cell of the matrix may say
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
    EventKind.TRANSIENT: "failed once, nothing else changed",
    EventKind.FLAKY: "fails on some runs, at random",
}
_MARKS = {
    EventKind.OUTAGE: "✗", EventKind.NEW_FAILURE: "✗", EventKind.KNOWN_GREW: "↑",
    EventKind.FAILURE_CHANGED: "≠", EventKind.ERROR_GREW: "↗", EventKind.UNTESTED: "–",
    EventKind.TURNED_KNOWN: "!", EventKind.FIXED: "✓", EventKind.KNOWN_VANISHED: "✓",
    EventKind.ERROR_SHRANK: "↘", EventKind.TESTED_AGAIN: "+", EventKind.TRANSIENT: "?",
    EventKind.FLAKY: "~",
}  # fmt: skip
