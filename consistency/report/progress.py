"""Progress of a run: on a terminal the table so far, and a bar with rate and remaining time;
occasional lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from ..core.text import printable

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import Progress, TaskID
    from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0  # without a terminal
STEPS = 1_000  # of the bar
Table = Callable[[int], "list[Text]"]  # with room for so many lines


class ProgressMeter:
    """Counts cases. Screens of environments that run at the same time share one."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None
        self._live: Live | None = None
        self._table: Table | None = None
        self._task: TaskID | None = None
        self._failing: dict[Hashable, int] = {}
        self._budget: float | None = None
        self._limit: float | None = None
        self.total = self.done = 0
        self._started = self._last_line = time.monotonic()

    def begin(
        self, cases: int, budget: float | None, limit: float | None = None,
        table: Table | None = None,
    ) -> None:  # fmt: skip
        """Add ``cases`` to the total. The run ends after ``budget`` seconds, or with its cases but
        after at most ``limit`` seconds. ``table`` gives what is shown above the bar."""
        first, self.total = self.total == 0, self.total + cases
        self._budget, self._limit = budget, limit
        if not first:
            self._table = None  # of several environments, whose tables would not fit
            return
        self._started = self._last_line = time.monotonic()
        if self.console.is_terminal:
            from rich.live import Live

            self._table = table
            self._progress = progress_bar(self.console)
            self._task = self._progress.add_task(
                "", total=STEPS, now="", count="", rate="", failing=""
            )
            self._live = Live(
                console=self.console, transient=True, refresh_per_second=4,
                get_renderable=self._renderable,
            )  # fmt: skip
            self._live.start()

    def _renderable(self) -> Group:
        from rich.console import Group

        assert self._progress is not None
        room = self.console.height - 3
        return Group(*(self._table(room) if self._table is not None else ()), self._progress)

    def _share(self, elapsed: float) -> float:
        """The share of the run that is done, between 0 and 1."""
        if self._budget:
            return min(elapsed / self._budget, 1.0)
        done = self.done / max(self.total, self.done)
        return max(done, min(elapsed / self._limit, 1.0)) if self._limit else done

    def correct(self, cases: int) -> None:
        """Add ``cases`` (possibly negative) to the expected total."""
        self.total += cases

    def step(self, operator: str, failing: int, who: Hashable = None) -> None:
        """Count one finished case; ``failing`` is the number of failing operators of screen
        ``who``."""
        self.done += 1
        self._failing[who] = failing
        now, budget = time.monotonic(), self._budget
        count = (
            f"{self.done:,} cases"
            if budget
            else f"{self.done:,} / {max(self.total, self.done):,} cases"
        )
        if self._progress is not None and self._task is not None:
            elapsed, failed = now - self._started, sum(self._failing.values())
            rate = f"{self.done / elapsed:,.0f}/s" if elapsed > 0.5 else ""
            self._progress.update(
                self._task, completed=STEPS * self._share(elapsed), now=operator, count=count,
                rate=rate, failing=f"✗ {failed}" if failed else "",
            )  # fmt: skip
        elif now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.console.print(printable(f"  {count}  {operator}"))

    def stop(self) -> None:
        """Restore the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = self._progress = None


def progress_bar(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=None), TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
        TextColumn("{task.fields[failing]}", style="red"),
        TextColumn("{task.fields[now]}", markup=False),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True, speed_estimate_period=10)
