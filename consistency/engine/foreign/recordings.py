"""Judge recordings from elsewhere: each group of outcomes in a process with bounds.

The events are those of :mod:`consistency.engine.judge_recordings`. A case that ends the process
says nothing about the backend that was recorded: its outcomes are inconclusive.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from ...backends.subprocess import framing
from ...backends.subprocess.process import LostError
from ...core.foreign import Bounds
from ...core.model import Case
from ...diagnose.diagnosis_budget import DiagnosisBudget
from ..events import Event, Finished, Judged
from ..executors.workers.serialization import pack_event, unpack_event
from ..judge_recordings import (
    EFFORT,
    RecordingPlan,
    judged_group,
    plan,
    started_event,
    without_reference,
)
from .process import BoundedProcess, serve

_PROGRAM = "from consistency.engine.foreign.recordings import main\nmain()\n"


def events(
    planned: RecordingPlan,
    *,
    patterns: Sequence[str] | None,
    tolerances: str | None,
    ids: Sequence[str],
    expectations: Sequence[str],
    bounds: Bounds,
) -> Iterator[Event]:
    """Judge everything; the arguments are those that ``planned`` was made of."""
    began = time.monotonic()
    opening = {
        "folders": [str(recording.folder.resolve()) for recording in planned.recordings],
        "patterns": None if patterns is None else list(patterns), "tolerances": tolerances,
        "ids": list(ids), "expectations": list(expectations),
    }  # fmt: skip
    cases = {case.id: case for case, _, _ in planned.groups}
    process = BoundedProcess(_PROGRAM, opening, bounds)
    yield started_event(planned)
    try:
        for number, group in enumerate(planned.groups):
            yield from _judged(number, group, cases, process, bounds)
    finally:
        process.close()
    yield Finished(time.monotonic() - began, False)


def _judged(
    number: int, group: Any, cases: dict[str, Case], process: BoundedProcess, bounds: Bounds
) -> Iterator[Event]:
    case, direction, items = group
    try:
        _, sent = process.ask({"group": number})
    except LostError as lost:
        limit = f"; {bounds.sentence}" if lost.status == "timeout" else ""
        reason = f"the process that judged it was lost: {lost}{limit}"
        results = [without_reference(case, direction, item, None, reason) for item in items]
        yield Judged(case, tuple(results))
        return
    for text in sent:
        yield unpack_event(text, cases, "that judges recordings")


class _Judge:
    """The service in the process: the first request says what is judged, the others which group."""

    def __init__(self) -> None:
        self._planned: RecordingPlan | None = None
        self._cases: set[str] = set()
        self._diagnosis_budget = DiagnosisBudget(effort=EFFORT)

    def answer(
        self, header: framing.Header, blobs: list[bytes]
    ) -> tuple[framing.Header, Sequence[bytes]]:
        if self._planned is None:
            self._planned = plan(
                header["folders"], header["patterns"], header["tolerances"], header["ids"],
                header["expectations"],
            )  # fmt: skip
            self._cases = {case.id for case, _, _ in self._planned.groups}
            return {"groups": len(self._planned.groups)}, ()
        group = self._planned.groups[int(header["group"])]
        found = judged_group(group, self._planned.config.tolerances, self._diagnosis_budget)
        return {}, [pack_event(event, self._cases) for event in found]


def main() -> None:
    serve(_Judge().answer)
