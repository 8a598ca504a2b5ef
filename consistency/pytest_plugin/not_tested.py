"""A session of pytest in which nothing was tested, or not on a backend that was asked for by name,
is not green: a part of the pytest plugin, by the rules of exit status 3 of ``consistency run``.

Each report of an item of the suite carries its backend and whether anything was tested; with
pytest-xdist, reports and the backends of deselected items come from the workers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

OPTION = "--consistency-allow-missing"
ATTRIBUTE = "consistency_tested"  # of a report: [backend, its verdict or "" if it was tested, why]
UNAVAILABLE, PASSED_OVER = "unavailable", "skipped by pytest"
_DESELECTED = "consistency_deselected"  # in what a worker of pytest-xdist returns
# Options of pytest that choose items by what earlier sessions did with them.
_BY_HISTORY = ("lf", "failedfirst", "stepwise")
_NOTHING_RUN = ("collectonly", "setuponly", "setupplan")


class NotTested:
    """Registered in every process of a session; the one without a controller decides."""

    def __init__(self, config: pytest.Config, asked: Sequence[str], item_type: type) -> None:
        """``asked``: the names of the backends that the user named; none for all available.
        ``item_type``: of the parameter of the suite's items."""
        self._config, self._asked, self._item_type = config, asked, item_type
        self._tested: set[str] = set()
        self._untested: dict[str, Counter[tuple[str, str]]] = {}
        self._deselected: set[str] = set()
        self._line = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = getattr(report, ATTRIBUTE, None)
        if found is None:
            return
        backend, verdict, reason = found
        if verdict:
            self._untested.setdefault(backend, Counter())[verdict, reason] += 1
        else:
            self._tested.add(backend)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        if any(self._config.getoption(name, False) for name in _BY_HISTORY):
            return
        for item in items:
            ours = getattr(getattr(item, "callspec", None), "params", {}).get("consistency_item")
            if isinstance(ours, self._item_type):
                self._deselected.add(getattr(ours, "backend", ""))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker of pytest-xdist has ended."""
        self._deselected.update(getattr(node, "workeroutput", {}).get(_DESELECTED, ()))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        returned = getattr(self._config, "workeroutput", None)
        if returned is not None:
            returned[_DESELECTED] = sorted(self._deselected)
            return
        green = exitstatus == pytest.ExitCode.OK
        if not green and exitstatus != pytest.ExitCode.NO_TESTS_COLLECTED:
            return  # it says why
        if any(self._config.getoption(name, False) for name in _NOTHING_RUN):
            return
        missing = self._missing()
        if not missing:
            return
        self._line = f"consistency: {missing}"
        if green and not self._config.getoption("consistency_allow_missing"):
            self._line += f"; where that is acceptable, add {OPTION}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """Write the line, below everything else."""
        if not self._line:
            return
        from ..core.text import printable

        line = printable(self._line)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)
        else:
            print(line, file=sys.stderr)

    def _missing(self) -> str:
        """What was not tested, and why; nothing if that is no problem."""
        lost = [
            f"{name!r} was asked for, and {self._why(name)}"
            for name in self._asked
            if self._lost(name)
        ]
        if lost:
            return " · ".join(lost)
        if self._untested and not self._tested:
            causes = sum(self._untested.values(), Counter())
            return f"nothing was tested ({_most(causes)})"
        return ""

    def _lost(self, name: str) -> bool:
        if name in self._untested:
            return any(verdict == UNAVAILABLE for verdict, _ in self._untested[name])
        return name not in self._tested and name in self._deselected

    def _why(self, name: str) -> str:
        if name not in self._untested:
            return "none of its items was selected"
        causes = self._untested[name]
        gone = Counter({cause: n for cause, n in causes.items() if cause[0] == UNAVAILABLE})
        return f"it was not tested ({_most(gone)})"


def _most(causes: Counter[tuple[str, str]]) -> str:
    """The most frequent cause, and how many items there are."""
    (verdict, reason), _ = causes.most_common(1)[0]
    count = causes.total()
    items = f"{count:,} item{'s' if count != 1 else ''}"
    return f"{verdict}: {reason[:300]}; {items}" if reason else f"{verdict}; {items}"
