"""Progress of a run: a bar with rate and remaining time on a terminal, occasional lines
elsewhere."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import TYPE_CHECKING

from ..core.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

SECONDS_BETWEEN_LINES = 10.0  # without a terminal


class ProgressMeter:
    """Counts cases. Screens of environments that run at the same time share one."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._failing: dict[Hashable, int] = {}
        self._budget: float | None = None
        self._total = self._done = 0
        self._started = self._last_line = time.monotonic()

    def begin(self, cases: int, budget: float | None) -> None:
        """Add ``cases`` to the total; ``budget`` is in seconds, None for no limit."""
        first, self._total, self._budget = self._total == 0, self._total + cases, budget
        if first:
            self._started = self._last_line = time.monotonic()
        if first and self.console.is_terminal:
            self._progress = progress_bar(self.console)
            self._task = self._progress.add_task(
                "", total=budget or cases, now="", count="", rate="", failing=""
            )
            self._progress.start()

    def correct(self, cases: int) -> None:
        """Add ``cases`` (possibly negative) to the expected total."""
        self._total += cases

    def step(self, operator: str, failing: int, who: Hashable = None) -> None:
        """Count one finished case; ``failing`` is the number of failing operators of screen
        ``who``."""
        self._done += 1
        self._failing[who] = failing
        now, budget = time.monotonic(), self._budget
        count = (
            f"{self._done:,} cases"
            if budget
            else f"{self._done:,} / {max(self._total, self._done):,} cases"
        )
        if self._progress is not None and self._task is not None:
            elapsed, failed = now - self._started, sum(self._failing.values())
            rate = f"{self._done / elapsed:,.0f}/s" if elapsed > 0.5 else ""
            self._progress.update(
                self._task, completed=elapsed if budget else self._done,
                total=budget or max(self._total, self._done),
                now=operator, count=count, rate=rate, failing=f"✗ {failed}" if failed else "",
            )  # fmt: skip
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.console.print(printable(f"  {count}  {operator}"))

    def stop(self) -> None:
        """Restore the terminal."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def progress_bar(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=None), TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
        TextColumn("{task.fields[failing]}", style="red"),
        TextColumn("{task.fields[now]}", markup=False),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True, speed_estimate_period=10)
