"""What a run shows while it runs, drawn by Rich on a terminal; elsewhere (a file, a CI log) it is
plain text without escape codes."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from ...core.output import CheckedStream
from ...core.text import one_line
from ...engine.config import RunConfig, examples_of
from ...engine.events import (
    DeterminismChecked,
    Event,
    Finished,
    Judged,
    MemoryGrowth,
    Minimized,
    PrecisionScalingMeasured,
    Started,
    UnitDone,
)
from ...engine.known.status import StatusWriter
from ...engine.unit_cases import shipped_count
from ...errors import OutputError
from ...operators.declare import Operator
from .. import failure
from ..family_table import table
from ..progress import ProgressMeter
from ..summary import RunSummary
from .closing import MOST_FAILURES, Closing
from .last_line import left_out
from .opening import backend_lines, title

if TYPE_CHECKING:
    from rich.text import Text

    from ..safe_console import SafeConsole

SHORT_SECONDS = 2.0  # within which everything is told at the end


def console(stream: IO[str] | None = None) -> SafeConsole:
    """A console on standard output or on ``stream``. Printing raises OutputError where that cannot
    be written."""
    from ..safe_console import SafeConsole

    # Otherwise rich ends the process with status 1 where the reader of a pipe is gone.
    file = CheckedStream(stream or sys.stdout)
    return SafeConsole(file=cast("IO[str]", file))


class Screen:
    """The handler that shows a run.

    ``not_tested`` lists every reason in full. ``elsewhere`` names unavailable backends that were
    not requested. For a run on other machines, ``where`` replaces this machine's torch version, and
    several screens share a ``meter``. ``known`` counts known divergences: a handler of the same run
    that is called before this one; without it, the screen counts them itself.
    """

    def __init__(
        self, *, stream: IO[str] | None = None, out: Path | None = None, not_tested: bool = False,
        elsewhere: Sequence[str] = (),
        where: str = "", meter: ProgressMeter | None = None, known: StatusWriter | None = None,
    ) -> None:  # fmt: skip
        self.console = meter.console if meter is not None else console(stream)
        self.where = where
        self.summary = RunSummary()
        self._keeper = known or StatusWriter()
        self._keeps = known is None
        self.out = out
        self.not_tested = not_tested
        self.elsewhere = elsewhere
        self.specs: Mapping[str, str] = {}  # of backends, for a stored run without settings
        self._settings: RunConfig | None = None
        self._operators: dict[str, Operator] = {}
        self._names: tuple[str, ...] = ()  # of backends, in the order of the table's columns
        self.meter = meter or ProgressMeter(self.console)
        self._closed = False
        self._began = time.monotonic()

    def __call__(self, event: Event) -> None:
        if self._keeps:
            self._keeper(event)
        match event:
            case Started():
                self._start(event)
            case Judged():
                self._take(event)
            case Minimized():
                self.summary.shrunk(event.result)
            case PrecisionScalingMeasured():
                self.summary.scalings += event.scalings
            case DeterminismChecked():
                self.summary.repeated += event.found
            case MemoryGrowth():
                self.summary.grown[event.backend, event.operator] = event.bytes
            case UnitDone():
                settings = self._settings
                if settings is not None and settings.corpus is None and not settings.time_limit:
                    self.meter.correct(event.cases - self._expected(event))
            case Finished():
                self._finish(event)

    def _take(self, event: Judged) -> None:
        """Count results; an operator's first failure is told at once in a run that takes long."""
        fails = [result for result in event.results if result.verdict.fails]
        told = self.summary.failures.operators if fails else set()
        for result in event.results:
            self.summary.add(result)
        self._step(event)
        if not fails or time.monotonic() - self._began < SHORT_SECONDS:
            return
        for result in fails:
            if result.operator not in told and len(told) < MOST_FAILURES:
                self._line(f"✗ {failure.headline(result)}", "red")
            told.add(result.operator)

    def _live(self, height: int) -> list[Text]:
        """The table so far, for a terminal with room for so many lines: families that fail stay."""
        from rich.text import Text

        header, *lines = [*table(self.summary, self._names)] or [Text()]
        left = max(height - 1, 0)
        if len(lines) > left:
            failing = [line for line in lines if "✗" in line.plain][:left]
            others = [line for line in lines if "✗" not in line.plain]
            lines = [*failing, *others[len(others) - (left - len(failing)) :]]
        return [header, *lines]

    def _expected(self, event: UnitDone) -> int:
        """How many cases of a unit the meter counts on, beside the exhaustive ones."""
        assert self._settings is not None
        operator = self._operators.get(event.operator)
        begin = 0 if operator is None else shipped_count(self._settings, operator, event.dtype)
        return examples_of(self._settings, event.dtype) + begin

    def _line(self, text: str, style: str = "") -> None:
        """Print a line, without control characters that a backend may have written."""
        self.console.print(one_line(text), style=style or None)

    def _start(self, event: Started) -> None:
        settings = self._settings = event.config
        self._operators = {operator.name: operator for operator in settings.operators}
        environments = {
            b.name: {} if b.name in event.unavailable else b.identity for b in settings.backends
        }
        self.opening(title(event, self.where), environments, event.unavailable)
        if self.elsewhere:
            self._line(
                f"  – not here: {', '.join(self.elsewhere)}   (why: consistency backends)", "dim"
            )
        self._began = time.monotonic()
        self.meter.begin(event.cases, settings.time_budget, settings.time_limit, self._live)

    def opening(
        self, title: str, backends: Mapping[str, Mapping[str, str]], absent: Mapping[str, str]
    ) -> None:
        """Print the title, and each backend's environment or why it is unavailable."""
        self._names = tuple(backends)
        self._line(title)
        for line, style in backend_lines(backends, absent):
            self._line(line, style)

    def _step(self, event: Judged) -> None:
        if all(
            r.comparison is None and not (r.verdict.tested and "rho_max" in r.metrics)
            for r in event.results
        ):
            return  # not a case: an operator that was not run, or a result about many cases
        self.meter.step(event.case.operator, len(self.summary.failures.operators), id(self))

    def remark(self, text: str) -> None:
        """Print what is being done."""
        self._line(f"  {text} …", "dim")

    def stop(self) -> None:
        """Restore the terminal."""
        self.meter.stop()

    def abandon(self) -> None:
        """Show what was judged in a run that cannot go on; nothing where it was shown already, or
        the screen itself cannot be written."""
        self.stop()
        if self.summary.results and not self._closed:
            self.summary.standings = self._keeper.collector.standings()
            with contextlib.suppress(OutputError):
                self.closing(None)

    def _finish(self, event: Finished) -> None:
        self.stop()
        self.summary.standings = self._keeper.collector.standings()
        if self.where:
            self.console.print()
            self._line(self.where, "bold")
        self.closing(event.seconds, event.out_of_time)

    def closing(self, seconds: float | None, out_of_time: bool = False) -> None:
        """Print the table, the failures, the notes and the last line; ``seconds`` is None for a run
        that did not end."""
        self._closed = True
        settings, left = self._settings, ""
        if out_of_time and seconds and settings is not None and settings.time_limit:
            left = left_out(settings, self.meter, len(self.summary.unbegun), seconds)
        specs = self.specs if settings is None else settings.spelled
        Closing(self.console, self.summary, self._names, specs, self.out, self.not_tested).show(
            seconds, out_of_time=out_of_time, left=left
        )
