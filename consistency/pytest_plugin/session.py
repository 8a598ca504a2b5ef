"""A session of pytest: its header, its budget, the reason in the line of a failure, and a step
summary. A part of the pytest plugin."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..core.quantities import seconds_of
from ..errors import UsageError

if TYPE_CHECKING:
    from .items import Item

_OVER = "the budget of"  # how the reason of a skipped item begins


class Budget:
    """Registered where ``--consistency-budget`` is given: items of the suite that would begin later
    are skipped. Before that, every operator's items of the first dtype and direction come first, so
    that what is left out at the end is the least telling."""

    def __init__(self, text: str) -> None:
        try:
            self._text, self._seconds = text, seconds_of(text)
        except UsageError as error:
            raise pytest.UsageError(f"consistency: --consistency-budget {error}") from None
        self._until = float("inf")

    def pytest_sessionstart(self) -> None:
        self._until = time.monotonic() + self._seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=_telling)  # stable: other tests stay where they are, in front

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if suite_item(item) is not None and time.monotonic() > self._until:
            pytest.skip(f"{_OVER} {self._text} is over")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        skipped = [r for r in terminalreporter.stats.get("skipped", ()) if _OVER in str(r.longrepr)]
        if skipped:
            count = f"{len(skipped):,} item{'s' * (len(skipped) != 1)}"
            terminalreporter.write_line(
                f"consistency: the budget of {self._text} was over before {count} began"
            )


def _telling(item: pytest.Item) -> tuple[int, int, int]:
    ours = suite_item(item)
    if ours is None:
        return (0, 0, 0)
    dtypes = ours.declared.dtypes
    order = dtypes.index(ours.dtype) if ours.dtype in dtypes else len(dtypes)
    return (1, int(ours.direction != "forward"), order)


def suite_item(item: Any) -> Item | None:
    """The item of the suite that a test of pytest is; None for other tests."""
    found = getattr(getattr(item, "callspec", None), "params", {}).get("consistency_item")
    return found if hasattr(found, "declared") else None


def header(config: pytest.Config, versions: Sequence[str]) -> str:
    """``consistency 0.1.0: torch 2.13.0, backends cpu, numpy; seed 0``."""
    parts = [f"consistency {versions[0]}", *versions[1:]]
    for name in ("profile", "seed", "budget", "changed", "expectations"):
        value = config.getoption(f"consistency_{name}", None)
        if value not in (None, ""):
            parts.append(f"{name} {value}")
    return " · ".join(parts)


def with_reason(report: pytest.TestReport, message: str) -> None:
    """Let what pytest writes behind ``FAILED``, which it cuts to the terminal's width, begin with
    the verdict: operator and backend are in the test's name."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        from ..report.session_summary import reason

        crash.message = f"{reason(message)}\n{message}"  # JUnit has all of it


def write_step_summary(path: str, lines: Sequence[str]) -> None:
    """Append Markdown to the file of GITHUB_STEP_SUMMARY. A file that cannot be written changes no
    result."""
    try:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
    except OSError:
        return


def step_summary_file() -> str:
    """The file for a step summary; empty outside of GitHub Actions."""
    return os.environ.get("GITHUB_STEP_SUMMARY", "")
