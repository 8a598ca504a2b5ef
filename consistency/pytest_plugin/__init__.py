"""The pytest plugin: options, and one item per operator × dtype × direction × backend for
``consistency.suite``.

The inputs of an item depend on the seed, the operator and the dtype only, so every backend sees the
same cases, on every worker of pytest-xdist. An item in which nothing could be tested is skipped
with its reason; it never passes.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from ..core.process_setup import let_waiting_threads_sleep
from ..core.quantities import size_in_bytes
from ..engine.run_options import DECLARED, NO_SHIPPED, PROFILES, RunOptions
from . import not_tested, own_tests, session
from .items import STANDINGS, TESTED, Item

if TYPE_CHECKING:
    from ..engine.config import RunConfig

ARTIFACTS = "reports/pytest"
_CONFIG = pytest.StashKey["RunConfig"]()
_TOUCHED = pytest.StashKey[frozenset[str]]()
# Short names are convenient and common: where a project has an option of that name, only
# --consistency-NAME is ours.
_SHORT = (
    "backends", "operators", "dtypes", "directions", "reference", "source", "expectations",
    "tolerances", "artifacts", "changed",
)  # fmt: skip
_MARKED = "consistency_marked"  # an attribute of the report of a marked test
_MARKER = (
    "consistency(backends=…, rule=…, operator=…, directions=…): arguments of every "
    "assert_consistent in the test; one item per backend"
)


def _explained(name: str) -> dict[str, str]:
    """The metavar and the help of an option."""
    if name == "artifacts":
        text = "where failures leave repro.py, issue.md and their data; '' for nowhere"
        return {"metavar": "FOLDER", "help": f"{text} (default: {ARTIFACTS})"}
    if name == "changed":
        text = "only operators of the suite that the diff since REF names (main, HEAD~1 …)"
        return {"metavar": "REF", "help": text}
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
        not_tested.OPTION,
        action="store_true",
        help="end with status 0 although nothing was tested, or not on a backend of --backends",
    )
    group.addoption(
        "--consistency-budget",
        metavar="TIME",
        help="begin no further item of the suite after 90s, 5m or 2h; the most telling come first",
    )
    group.addoption(
        "--consistency-fail-fast",
        action="store_true",
        help="the first failing case ends an item (-x: the first failing item ends the session)",
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
    config.addinivalue_line("markers", _MARKER)
    backends = config.getoption("consistency_backends")
    artifacts = config.getoption("consistency_artifacts")
    marked = own_tests.OwnTests(
        None
        if backends is None
        else [name.strip() for name in backends.split(",") if name.strip()],
        config.invocation_params.dir / artifacts if artifacts else None,
    )
    config.pluginmanager.register(marked, "consistency-own-tests")
    budget = config.getoption("consistency_budget")
    if budget is not None:
        config.pluginmanager.register(session.Budget(budget), "consistency-budget")
    config.pluginmanager.register(
        not_tested.NotTested(config, asked, Item), "consistency-not-tested"
    )


def _run_config(config: pytest.Config) -> RunConfig:
    if _CONFIG not in config.stash:
        from ..errors import ConsistencyError

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
    from ..diagnose import evaluation
    from ..engine import engine

    chosen = _run_config(metafunc.config)
    artifacts = metafunc.config.getoption("consistency_artifacts")
    folder = (
        metafunc.config.invocation_params.dir / (ARTIFACTS if artifacts is None else artifacts)
        if artifacts != ""
        else None
    )
    fail_fast = metafunc.config.getoption("consistency_fail_fast")
    pairs = engine.operator_dtypes(chosen)
    changed = metafunc.config.getoption("consistency_changed")
    if changed is not None:
        touched = _touched(metafunc.config, changed)
        pairs = [(operator, dtype) for operator, dtype in pairs if operator.name in touched]
    items = [
        Item(chosen, operator, dtype, direction, backend.name, folder, fail_fast)
        for operator, dtype in pairs
        for direction in chosen.directions
        if direction == "forward" or evaluation.differentiates(operator, dtype)
        for backend in chosen.backends
    ]
    metafunc.parametrize("consistency_item", items, ids=[item.id for item in items])


def _touched(config: pytest.Config, ref: str) -> frozenset[str]:
    """The names of the operators that the diff since ``ref`` names."""
    if _TOUCHED not in config.stash:
        from ..engine.changed_operators import diff_since, touched
        from ..errors import ConsistencyError

        try:
            diff = diff_since(ref, config.rootpath)
        except ConsistencyError as error:
            raise pytest.UsageError(f"consistency: {error}") from None
        found = touched(diff, _run_config(config).operators)
        config.stash[_TOUCHED] = frozenset(operator.name for operator in found)
    return config.stash[_TOUCHED]


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """One line where the suite is run, or an option of ours is given."""
    options = [f"consistency_{name}" for name in (*_SHORT, "examples", "budget")]
    given = any(config.getoption(name, None) is not None for name in options)
    if not given and not any("consistency.suite" in str(argument) for argument in config.args):
        return None
    import torch

    from ..core.text import printable
    from ..core.version import __version__

    names = ", ".join(backend.name for backend in _run_config(config).backends)
    versions = [__version__, f"torch {torch.__version__}", f"backends {names}"]
    lines = [session.header(config, versions)]
    changed = config.getoption("consistency_changed")
    if changed is not None:
        found = sorted(_touched(config, changed))
        some = ", ".join(found[:12]) + (f" and {len(found) - 12} more" if len(found) > 12 else "")
        lines.append(f"changed since {changed}: {some or 'no operator is named in the diff'}")
    return [printable(line) for line in lines]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach our failures to the report for the process that writes annotations (another one with
    pytest-xdist)."""
    report = yield
    if item.get_closest_marker(own_tests.MARKER) is not None:
        setattr(report, _MARKED, True)
    if report.failed and call.excinfo is not None:
        suite = "consistency_item" in getattr(item, "fixturenames", ())
        if suite or type(call.excinfo.value).__name__ == "Divergence":
            # Attributes of a report are sent to the other process.
            text = str(call.excinfo.value)
            setattr(report, "consistency", {"message": text, "suite": suite})  # noqa: B010
            if call.when == "call":
                session.with_reason(report, text)
    ours = getattr(getattr(item, "callspec", None), "params", {}).get("consistency_item")
    if not isinstance(ours, Item):
        return report
    if call.when == "call":
        rows = STANDINGS.pop(ours.id, None)
        if rows:
            setattr(report, "consistency_expectations", rows)  # noqa: B010
        found = TESTED.pop(ours.id, None)
        if found is not None:
            setattr(report, not_tested.ATTRIBUTE, found)
    elif call.when == "setup" and report.skipped:
        skipped = [ours.backend, not_tested.PASSED_OVER, ""]
        setattr(report, not_tested.ATTRIBUTE, skipped)
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
    from ..core.text import printable
    from ..engine.known.standing import KnownStatus, counted, together, told
    from ..engine.known.status import StatusCollector

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
    failed = [
        report
        for report in terminalreporter.stats.get("failed", ())
        if hasattr(report, "consistency")
    ]
    _step_summary(terminalreporter, failed)
    if failed and os.environ.get("GITHUB_ACTIONS"):
        from ..report.annotations import workflow_commands

        for line in workflow_commands(failed):
            terminalreporter.write_line(line)


def _step_summary(reporter: pytest.TerminalReporter, failed: list[pytest.TestReport]) -> None:
    """A few lines of Markdown where GitHub asks for them, and anything of ours was run."""
    path = session.step_summary_file()
    if not path:
        return
    ours = {
        outcome: sum(
            hasattr(report, not_tested.ATTRIBUTE) or hasattr(report, _MARKED)
            for report in reporter.stats.get(outcome, ())
            if isinstance(report, pytest.TestReport)
        )
        for outcome in ("passed", "skipped")
    }
    if failed or any(ours.values()):
        from ..report.session_summary import session_lines

        lines = session_lines(failed, ours["passed"], ours["skipped"])
        session.write_step_summary(path, lines)
