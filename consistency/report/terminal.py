"""The screen: which backends take part, progress with rate and time left, a table of families × backends, the failures.

Rich draws it on a terminal; anywhere else (a file, a CI log) it is plain text without escape codes.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..engine import Event, Finished, GroupDone, Judged, Shrunk, Started
from ..model import Result, Verdict
from . import failure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID
    from rich.table import Table

MOST_FAILURES = 10
_SYMBOLS = {"passed": "✓", "warned": "!", "failed": "✗", "not tested": "–"}
_COLOURS = {"passed": "green", "warned": "yellow", "failed": "red", "not tested": "dim"}


@dataclass
class Cell:
    """Counts of one family on one backend."""

    groups: Counter[str] = field(default_factory=Counter)
    failing: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)
    rho: float = 0.0

    def add(self, result: Result) -> None:
        group = result.verdict.group
        self.groups[group] += 1
        if group == "failed":
            self.failing.add(result.operator)
        if group == "not tested":
            self.reasons[result.verdict.value] += 1
        if result.verdict.passes:
            self.rho = max(self.rho, result.metrics.get("rho_max", 0.0))

    def text(self) -> tuple[str, str]:
        """``("✓ 0.31", "passed")``: the symbol with the worst × budget that still passed, or what failed."""
        if self.failing:
            count = len(self.failing)
            return f"✗ {count} operator{'s' if count > 1 else ''}", "failed"
        if self.groups["passed"] or self.groups["warned"]:
            group = "warned" if self.groups["warned"] else "passed"
            return f"{_SYMBOLS[group]} {self.rho:.2f}", group
        reason = self.reasons.most_common(1)[0][0] if self.reasons else "nothing ran"
        return f"– {reason}", "not tested"


class Tally:
    """What the summary is made of; it keeps counts and the failures, not every result."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, Cell]] = defaultdict(lambda: defaultdict(Cell))
        self.verdicts: Counter[str] = Counter()
        self.groups: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.failures: dict[tuple[str, str, str, str, str], Result] = {}
        self.failing_cases: Counter[tuple[str, str, str, str, str]] = Counter()
        self.results = 0
        self.lost = 0

    def add(self, result: Result) -> None:
        self.results += 1
        self.verdicts[result.verdict.value] += 1
        self.groups[result.verdict.group] += 1
        self.cells[result.family][result.backend].add(result)
        if not result.verdict.tested:
            self.reasons[(result.verdict.value, f"{result.backend}: {_short(result.explanation)}")] += 1
            self.lost += result.verdict.value == "unavailable"
        if result.verdict.fails:
            key = _kind(result)
            self.failing_cases[key] += 1
            known = self.failures.get(key)
            if known is None or result.metrics.get("rho_max", 0.0) > known.metrics.get("rho_max", 0.0):
                self.failures[key] = result

    def shrunk(self, original: Result, result: Result) -> None:
        self.failures[_kind(original)] = result


def _kind(result: Result) -> tuple[str, str, str, str, str]:
    return (result.operator, result.dtype, result.direction, result.backend, result.verdict.value)


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 90 else line[:89] + "…"


class Screen:
    """The handler that shows a run. ``quiet`` leaves out progress; ``not_tested`` lists every reason in full."""

    def __init__(self, *, stream: IO[str] | None = None, out: Path | None = None, not_tested: bool = False) -> None:
        from rich.console import Console

        self.console: Console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
        self.tally = Tally()
        self.out = out
        self.not_tested = not_tested
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._total = 0
        self._done = 0
        self._last_line = time.monotonic()
        self._backends: list[str] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case Judged():
                for result in event.results:
                    self.tally.add(result)
                self._step(event)
            case Shrunk():
                self.tally.shrunk(event.original, event.result)
            case GroupDone():
                self._group_done(event)
            case Finished():
                self._finish(event)

    def _start(self, event: Started) -> None:
        import torch

        from .. import __version__

        settings = event.settings
        self._backends = [b.name for b in settings.backends]
        self.console.print(f"consistency {__version__} · torch {torch.__version__} · {event.groups} operators × dtypes · seed {settings.seed}")
        for backend in settings.backends:
            reason = event.unavailable.get(backend.name)
            mark, style = ("–", "dim") if reason else ("✓", "green")
            about = reason or _about(backend.identity)
            self.console.print(f"  {backend.name:<16} {about:<60.90} ", f"[{style}]{mark}[/]", sep="")
        self._total = event.cases
        if self.console.is_terminal:
            self._progress = _progress(self.console)
            self._progress.start()
            self._task = self._progress.add_task("", total=event.cases, operator="")

    def _step(self, event: Judged) -> None:
        if all(not r.verdict.tested and r.comparison is None for r in event.results):
            return
        self._done += 1
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=min(self._done, self._total), operator=event.case.operator)
        elif time.monotonic() - self._last_line > 10:
            self._last_line = time.monotonic()
            self.console.print(f"  {self._done:,} / {self._total:,} cases  {event.case.operator}")

    def _group_done(self, event: GroupDone) -> None:
        """Some operators have fewer distinct cases than were asked for: the total shrinks with them."""
        planned = self._total
        self._total = max(self._done, self._total)
        if self._progress is not None and self._task is not None and planned != self._total:
            self._progress.update(self._task, total=self._total)

    def stop(self) -> None:
        """Give the terminal back, in whatever state the run is."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _finish(self, event: Finished) -> None:
        self.stop()
        self.console.print()
        if self.tally.results:
            self.console.print(self._table())
        failures = sorted(self.tally.failures.items(), key=lambda item: -item[1].metrics.get("rho_max", 0.0))
        for key, result in failures[:MOST_FAILURES]:
            count = self.tally.failing_cases[key]
            text = failure.message(result, bundle=self.out)
            self.console.print(f"[red]✗[/] {_escape(text)}" + (f"\n  ({count} cases like this one)" if count > 1 else ""))
        if len(failures) > MOST_FAILURES:
            self.console.print(f"… and {len(failures) - MOST_FAILURES} more kinds of failure, in {self.out or 'the results'}")
        self.console.print(_escape(self._last(event)))
        self._why_not_tested()

    def _last(self, event: Finished) -> str:
        groups, verdicts = self.tally.groups, self.tally.verdicts
        parts = [f"{groups['failed']:,} failed"] if groups["failed"] else []
        parts += [f"{verdicts['rounding'] + verdicts['exact']:,} rounding or exact"]
        parts += [f"{groups['warned']:,} {'expected' if verdicts['expected'] == groups['warned'] else 'warned'}"] if groups["warned"] else []
        undecidable = verdicts["undecidable"]
        parts += [f"{undecidable:,} undecidable"] if undecidable else []
        rest = groups["not tested"] - undecidable
        parts += [f"{rest:,} not tested{'' if self.not_tested else ' (why: --not-tested)'}"] if rest else []
        where = f"    bundle {self.out}" if self.out else ""
        ended = ", time budget used up" if event.out_of_time else ""
        return f"{' · '.join(parts)}    {event.seconds:.1f} s{ended}{where}"

    def _why_not_tested(self) -> None:
        if not self.not_tested:
            return
        for (verdict, reason), count in self.tally.reasons.most_common():
            self.console.print(_escape(f"  {count:>7,}  {verdict:<12} {reason}"))

    def _table(self) -> Table:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
        table.add_column("")
        for name in self._backends:
            table.add_column(name, no_wrap=True)
        table.add_column("worst × budget", style="dim")
        for index, (family, row) in enumerate(self.tally.cells.items()):
            cells = []
            for name in self._backends:
                text, group = row[name].text() if name in row else ("–", "not tested")
                cells.append(f"[{_COLOURS[group]}]{_escape(text)}[/]")
            legend = ("✓ of what passed", "✗ operators that fail", "– not tested")
            table.add_row(family, *cells, legend[index] if index < len(legend) else "")
        return table


def _about(environment: dict[str, str]) -> str:
    keys = ("device", "driver", "processor", "torch", "numpy", "blas", "threads", "onednn")
    shown = [environment[k] if k in ("device", "processor") else f"{k} {environment[k]}" for k in keys if environment.get(k)]
    return " · ".join(shown)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: object) -> Text:
            speed = getattr(task, "speed", None)
            return Text(f"{speed:,.0f}/s" if speed else "")

    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), Rate(), TimeRemainingColumn(), TextColumn("{task.fields[operator]}"))
    return Progress(*columns, console=console, transient=True, speed_estimate_period=10)


def exit_status(tally: Tally, *, asked: bool) -> int:
    """0 consistent; 1 a failing verdict; 3 a backend that was asked for could not be judged and nothing failed."""
    if any(Verdict(name).fails for name in tally.verdicts if name != "reduced-precision") or tally.failures:
        return 1
    return 3 if asked and tally.lost else 0
