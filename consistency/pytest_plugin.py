"""The pytest plugin: options, and one item per operator × dtype × direction × backend for
``consistency.suite``.

The inputs of an item depend on the seed, the operator and the dtype only, so every backend sees the
same cases, on every worker of pytest-xdist. An item in which nothing could be tested is skipped
with its reason; it never passes.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import pytest_not_tested
from .core.process_setup import let_waiting_threads_sleep
from .engine.run_options import DECLARED, NO_SHIPPED, PROFILES, RunOptions, size_in_bytes

if TYPE_CHECKING:
    from .core.model import Case, Result
    from .engine.config import RunConfig
    from .operators.declare import Operator

_spent = [0.0]  # seconds of this process for minimizing failures
_standings: dict[
    str, list[dict[str, object]]
] = {}  # by item, until its report: what became of the expectations that cover it
_tested: dict[str, list[str]] = {}  # by item, until its report: pytest_not_tested.ATTRIBUTE
_artifacts_left = [200]  # folders that this process may still write; nobody reads more
ARTIFACTS = "reports/pytest"
_CONFIG = pytest.StashKey["RunConfig"]()
# Short names are convenient and common: where a project has an option of that name, only
# --consistency-NAME is ours.
_SHORT = (
    "backends", "operators", "dtypes", "directions", "reference", "source", "expectations",
    "tolerances", "artifacts",
)  # fmt: skip


def _explained(name: str) -> dict[str, str]:
    """The metavar and the help of an option."""
    if name == "artifacts":
        text = "where failures leave repro.py, issue.md and their data; '' for nowhere"
        return {"metavar": "FOLDER", "help": f"{text} (default: {ARTIFACTS})"}
    declared = DECLARED[name]
    default = f" (default: {declared.default})" if declared.default else ""
    many = ", separated by commas" if declared.many else ""
    metavar = declared.metavar + (",…" if declared.many else "")
    return {"metavar": metavar, "help": declared.text + many + default}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = _group(parser)
    profile = _explained("profile")["help"]
    group.addoption("--consistency-profile", choices=list(PROFILES), default="quick", help=profile)
    group.addoption("--consistency-memory", **_explained("memory"))
    group.addoption("--consistency-examples", type=int, **_explained("examples"))
    group.addoption("--consistency-no-shipped", action="store_true", help=NO_SHIPPED)
    group.addoption("--consistency-seed", type=int, default=0, **_explained("seed"))
    group.addoption(
        pytest_not_tested.OPTION,
        action="store_true",
        help="end with status 0 although nothing was tested, or not on a backend of --backends",
    )
    for name in _SHORT:
        explained = _explained(name) | {"help": f"as --{name}, where another plugin has that"}
        group.addoption(f"--consistency-{name}", **explained)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    """Add the options after those of other plugins and conftest.py files, with short names if they
    are free."""
    yield
    taken = {
        name
        for group in getattr(parser, "_groups", ())
        for option in group.options
        for name in option.names()
    }
    for name in _SHORT:
        if f"--{name}" not in taken:
            _group(parser).addoption(f"--{name}", dest=f"consistency_{name}", **_explained(name))


def _group(parser: pytest.Parser) -> pytest.OptionGroup:
    return parser.getgroup(
        "consistency",
        "consistency: the same numbers on every backend? (pytest --pyargs consistency.suite)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Invalid options are an error even if no test uses them: one line, before collection."""
    if config.getoption(
        "numprocesses", None
    ):  # the processes of pytest-xdist share the cores, and inherit this
        let_waiting_threads_sleep()
    options = [
        name
        for name in (*_SHORT, "examples")
        if config.getoption(f"consistency_{name}") is not None
    ]
    if options:
        _run_config(config)
    named = config.getoption("consistency_backends") is not None
    asked = [backend.name for backend in _run_config(config).backends] if named else []
    config.pluginmanager.register(
        pytest_not_tested.NotTested(config, asked, Item), "consistency-not-tested"
    )


def _run_config(config: pytest.Config) -> RunConfig:
    if _CONFIG not in config.stash:
        from .errors import ConsistencyError

        def listed(name: str) -> list[str] | None:
            value: str | None = config.getoption(f"consistency_{name}")
            if value is None:
                return None
            return [item.strip() for item in value.split(",") if item.strip()]

        options: dict[str, Any] = {
            name: listed(name) if declared.many else config.getoption(f"consistency_{name}")
            for name, declared in DECLARED.items()
        }
        try:
            if options["memory"] is not None:
                options["memory"] = size_in_bytes(options["memory"])
            options["no_shipped"] = config.getoption("consistency_no_shipped")
            config.stash[_CONFIG] = RunOptions(**options).config()
        except ConsistencyError as error:
            raise pytest.UsageError(f"consistency: {error}") from None
    return config.stash[_CONFIG]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "consistency_item" not in metafunc.fixturenames:
        return
    from .diagnose import evaluation
    from .engine import engine

    chosen = _run_config(metafunc.config)
    artifacts = metafunc.config.getoption("consistency_artifacts")
    folder = (
        metafunc.config.invocation_params.dir / (ARTIFACTS if artifacts is None else artifacts)
        if artifacts != ""
        else None
    )
    items = [
        Item(chosen, operator, dtype, direction, backend.name, folder)
        for operator, dtype in engine.operator_dtypes(chosen)
        for direction in chosen.directions
        if direction == "forward" or evaluation.differentiates(operator, dtype)
        for backend in chosen.backends
    ]
    metafunc.parametrize("consistency_item", items, ids=[item.id for item in items])


@dataclass(frozen=True)
class Item:
    """One operator × dtype × direction × backend of the suite."""

    config: RunConfig
    declared: Operator
    dtype: str
    direction: str
    backend: str
    artifacts: Path | None = None

    @property
    def operator(self) -> str:
        """The operator's name, with the variant if PyTorch's database has several: ``norm/fro``."""
        from .generate.calls import opinfo

        return "/".join(filter(None, (self.declared.name, opinfo.variant(self.declared))))

    @property
    def id(self) -> str:
        return f"{self.operator}-{self.dtype}-{self.direction}-{self.backend}"

    def check(self, record_property: Callable[[str, object], None]) -> None:
        """Judge every case of the item. Fails with the smallest failing case; skips when nothing
        could be tested."""
        __tracebackhide__ = True
        results = self._results()
        _standings[self.id] = self._standings(results)
        self._record(results, record_property)
        failing = [r for r in results if r.verdict.fails]
        _tested[self.id] = [self.backend, *_untested(results)]
        if failing:
            shown = self._shown(failing)
            self._record_failure(shown, record_property)
            pytest.fail(self._message(shown, len(failing), len(results)), pytrace=False)
        if not any(r.verdict.tested for r in results):
            pytest.skip(_reason(results))

    def _results(self) -> list[Result]:
        from .backends import availability, refusal
        from .core.model import Case
        from .diagnose import evaluation
        from .engine import engine
        from .engine.config import examples_of

        operator = self.declared
        config = self.config
        (backend,) = (b for b in self.config.backends if b.name == self.backend)
        examples = examples_of(config, self.dtype)
        cases, problem = (
            _cases(operator, self.dtype, examples, config.seed) if examples else ([], "")
        )
        begin = engine.shipped_cases(config, operator, self.dtype)
        further = engine.further_cases(config, operator, self.dtype)
        cases = [*begin, *engine.without(cases, begin), *further]
        problem = "" if begin else problem
        if not cases and not problem:
            problem = engine.NO_LARGE_CASE
        for verdict, reason in (
            ("unavailable", availability(backend)),
            ("unsupported", refusal(backend, operator, self.dtype, self.direction)),
            ("inconclusive", problem),
        ):
            if reason:
                stand_in = cases[0] if cases else Case(operator.name, self.dtype)
                return [
                    evaluation.unavailable(
                        stand_in, operator, backend, self.direction, reason, verdict
                    )
                ]
        judged = functools.partial(
            engine.judge_case,
            diagnosis_budget=engine.DiagnosisBudget(),
            against=self.config.reference,
        )
        results: list[Result] = []
        for position, case in enumerate(cases):
            backend.prefetch(
                (operator, coming, self.direction)
                for coming in cases[position : position + engine.AHEAD]
            )
            results += judged(case, operator, [backend], self.config.tolerances, (self.direction,))
        backend.discard_prefetched()
        return results

    def _standings(self, results: list[Result]) -> list[dict[str, object]]:
        from .engine.known.status import StatusCollector

        (backend,) = (b for b in self.config.backends if b.name == self.backend)
        entries = self.config.tolerances.expectations
        collector = StatusCollector(
            entries,
            {self.backend: backend.identity} if any(r.verdict.tested for r in results) else {},
        )
        for result in results:
            collector.add(result)
        return [standing.to_json() for standing in collector.covered()]

    def _record(
        self, results: list[Result], record_property: Callable[[str, object], None]
    ) -> None:
        counts = Counter(r.verdict.value for r in results)
        for name in ("operator", "dtype", "direction", "backend"):
            record_property(name, getattr(self, name))
        record_property("cases", len(results))
        record_property(
            "verdicts", " ".join(f"{name}:{count}" for name, count in sorted(counts.items()))
        )
        passing = [r.metrics.get("rho_max", 0.0) for r in results if r.verdict.tested]
        if passing:
            record_property("rho_max", max(passing))

    def _record_failure(
        self, shown: Result, record_property: Callable[[str, object], None]
    ) -> None:
        """Properties for the JUnit file: the verdict, the cause, the work-around, the command."""
        from .core.text import printable
        from .report.failure import command

        record = {
            "verdict": shown.verdict.value,
            "cause": shown.cause,
            "workaround": shown.workaround,
        }
        for name, value in record.items():
            if value:
                record_property(name, value)
        record_property(
            "again", printable(command(shown, spec=self.config.specs.get(self.backend)))
        )

    def _shown(self, failing: list[Result]) -> Result:
        """The worst failure, minimized if time remains."""
        from .engine import engine

        worst = max(
            failing, key=lambda r: r.metrics.get("rho_max", math.inf)
        )  # an exception ranks before any × budget
        backends = [b for b in self.config.backends if b.name == self.backend]
        began, small = time.monotonic(), None
        if (
            _spent[0] < engine.MINIMIZATION_SECONDS
        ):  # nobody reads every small case if every item fails
            small = engine.smallest_failure(worst, self.declared, backends, self.config)
            _spent[0] += time.monotonic() - began
        return small or worst

    def _message(self, shown: Result, failing: int, judged: int) -> str:
        from .report.failure import message

        count = f"\n  {failing} of {judged} cases fail" if failing > 1 else ""
        return (
            message(shown, spec=self.config.specs.get(self.backend))
            + count
            + self._write_artifact(shown)
        )

    def _write_artifact(self, result: Result) -> str:
        """Write the script and the issue; return a line that names their folder."""
        if self.artifacts is None or _artifacts_left[0] <= 0:
            return ""
        from .errors import ConsistencyError
        from .report import repro_script
        from .storage.bundle import failure_id

        _artifacts_left[0] -= 1
        folder = self.artifacts / failure_id(result)
        spec = self.config.specs.get(self.backend)
        (identity,) = (b.identity for b in self.config.backends if b.name == self.backend)
        try:
            repro_script.write(folder, result, spec=spec, identity=identity)
        except (ConsistencyError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"\n  artifact: {folder} cannot be written: {reason}"
        current = Path.cwd()
        shown = folder.relative_to(current) if folder.is_relative_to(current) else folder
        return f"\n  artifact: {shown} (repro.py, issue.md)"


def _reason(results: list[Result]) -> str:
    ((verdict, explanation), count) = Counter(
        (r.verdict.value, r.explanation) for r in results
    ).most_common(1)[0]
    return f"{verdict}: {explanation}" + (f" ({count} cases)" if count > 1 else "")


def _untested(results: list[Result]) -> tuple[str, str]:
    """The verdict and the reason where a backend was lost, or nothing was tested; else nothing."""
    lost = [r for r in results if r.verdict.value == pytest_not_tested.UNAVAILABLE]
    if not lost and any(r.verdict.tested for r in results):
        return "", ""
    one = (lost or results)[0]
    return one.verdict.value, one.explanation


@functools.lru_cache(maxsize=4)
def _cases(operator: Operator, dtype: str, examples: int, seed: int) -> tuple[list[Case], str]:
    """The cases of engine.draw, cached while the items of one operator × dtype run."""
    from .engine import engine

    return engine.draw(operator, dtype, examples, seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach our failures to the report for the process that writes annotations (another one with
    pytest-xdist)."""
    report = yield
    if report.failed and call.excinfo is not None:
        suite = "consistency_item" in getattr(item, "fixturenames", ())
        if suite or type(call.excinfo.value).__name__ == "Divergence":
            # Attributes of a report are sent to the other process.
            setattr(report, "consistency", {"message": str(call.excinfo.value), "suite": suite})  # noqa: B010
    ours = getattr(getattr(item, "callspec", None), "params", {}).get("consistency_item")
    if not isinstance(ours, Item):
        return report
    if call.when == "call":
        rows = _standings.pop(ours.id, None)
        if rows:
            setattr(report, "consistency_expectations", rows)  # noqa: B010
        found = _tested.pop(ours.id, None)
        if found is not None:
            setattr(report, pytest_not_tested.ATTRIBUTE, found)
    elif call.when == "setup" and report.skipped:
        skipped = [ours.backend, pytest_not_tested.PASSED_OVER, ""]
        setattr(report, pytest_not_tested.ATTRIBUTE, skipped)
    return report


def _expectations(reporter: pytest.TerminalReporter) -> None:
    """The lines about known divergences: which entries matched, which are obsolete or expired."""
    reports = [
        report
        for reports in reporter.stats.values()
        for report in reports
        if hasattr(report, "consistency_expectations")
    ]
    if not reports and reporter.config.getoption("consistency_expectations") is None:
        return
    from .core.text import printable
    from .engine.known.status import KnownStatus, StatusCollector, counted, together, told

    standings = together(
        [KnownStatus.from_json(row) for row in report.consistency_expectations]
        for report in reports
    )
    if (
        _CONFIG in reporter.config.stash
    ):  # and entries with a misspelled operator or backend, which no item covers
        places = {standing.place for standing in standings}
        entries = reporter.config.stash[_CONFIG].tolerances.expectations
        standings += StatusCollector(
            [entry for entry in entries if entry.place not in places]
        ).standings()
    lines = [*counted(standings), *told(standings)]
    if lines:
        reporter.section("expectations", sep="-")
        for line in lines:
            reporter.write_line(printable(line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Known divergences; on GitHub Actions, an annotation for each of the worst failures."""
    if hasattr(
        terminalreporter.config, "workerinput"
    ):  # a worker of pytest-xdist has no visible terminal
        return
    _expectations(terminalreporter)
    if not os.environ.get("GITHUB_ACTIONS"):
        return
    failed = [
        report
        for report in terminalreporter.stats.get("failed", ())
        if hasattr(report, "consistency")
    ]
    if failed:
        from .report.annotations import workflow_commands

        for line in workflow_commands(failed):
            terminalreporter.write_line(line)
