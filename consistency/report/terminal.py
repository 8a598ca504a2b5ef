"""The terminal report of a run: its backends, progress with rate and remaining time, a table of
families × backends, the failures.

Rich draws it on a terminal; elsewhere (a file, a CI log) it is plain text without escape codes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from ..core.model import Result
from ..core.output import CheckedStream
from ..core.text import format_factor, format_seconds, one_line, pluralize
from ..core.verdict import Verdict
from ..diagnose import determinism, precision_scaling
from ..engine.config import RunConfig, examples_of
from ..engine.events import (
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
from ..engine.known.status import StatusWriter, told
from ..engine.unit_cases import shipped_count
from ..errors import OutputError
from ..generate.calls.generic_error import GENERIC
from ..operators.declare import Operator
from . import failure
from .bundle_view import called
from .failure_groups import FailureGroup
from .family_table import table
from .progress import ProgressMeter
from .summary import RunSummary

if TYPE_CHECKING:
    from rich.text import Text

    from .safe_console import SafeConsole

IN_FULL = 4  # operators whose worst failure is shown in full, with its command
MOST_FAILURES = 20
SHORT_SECONDS = 2.0  # within which everything is told at the end
MOST_GROUPS = 3  # of an operator in full
MOST_ALSO = 4
MOST_DISPUTES = 5
MOST_GENERIC = 12
MOST_FAMILIES = 8
PAGE = "report.html"  # in a bundle


def console(stream: IO[str] | None = None) -> SafeConsole:
    """A console on standard output or on ``stream``. Printing raises OutputError where that cannot
    be written."""
    from .safe_console import SafeConsole

    # Otherwise rich ends the process with status 1 where the reader of a pipe is gone.
    file = CheckedStream(stream or sys.stdout)
    return SafeConsole(file=cast("IO[str]", file))


class Screen:
    """The handler that shows a run.

    ``not_tested`` lists every reason in full. ``elsewhere`` names unavailable backends that were
    not requested. For a run on other machines, ``where`` replaces this machine's torch version, and
    several screens share a ``meter``.
    """

    def __init__(
        self, *, stream: IO[str] | None = None, out: Path | None = None, not_tested: bool = False,
        elsewhere: Sequence[str] = (),
        where: str = "", meter: ProgressMeter | None = None,
    ) -> None:  # fmt: skip
        self.console = meter.console if meter is not None else console(stream)
        self.where = where
        self.summary = RunSummary()
        self._keeper = StatusWriter()
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
        import torch

        from ..core.version import __version__

        settings = self._settings = event.config
        pairs = "1 operator × dtype" if event.units == 1 else f"{event.units:,} operators × dtypes"
        self._operators = {operator.name: operator for operator in settings.operators}
        cases_each = f"{pairs}, {_cases_in_words(event)}"
        subject = event.title or (
            f"{cases_each} · seed {settings.seed}"
            if settings.corpus is None
            else _replaying(settings)
        )
        title = (
            f"consistency {__version__} · {self.where or f'torch {torch.__version__}'} · {subject}"
        )
        environments = {
            b.name: {} if b.name in event.unavailable else b.identity for b in settings.backends
        }
        self.opening(title, environments, event.unavailable)
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
        width = max(map(len, backends), default=0)
        printed: set[tuple[str, str]] = set()
        for name, environment in backends.items():
            reason = absent.get(name)
            about = reason if reason else _about(environment, printed)
            self._line(
                f"  {'–' if reason else '✓'} {name:<{width}}  {about}".rstrip(),
                "dim" if reason else "",
            )

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

    def _left(self, seconds: float) -> str:
        """What a run without the time limit that ended this one would add."""
        settings = self._settings
        assert settings is not None
        done, total = self.meter.done, max(self.meter.total, 1)
        whole = format_seconds(seconds * total / max(done, 1))
        unbegun = len(self.summary.unbegun)
        more = f", {pluralize(unbegun, 'operator × dtype', 'operators × dtypes')} not begun"
        return (
            f"the best {done:,} of {total:,} cases fitted into {settings.time_limit:g} s"
            f"{more if unbegun else ''}; all of them: --examples {settings.examples} "
            f"(some {whole})"
        )

    def closing(self, seconds: float | None, out_of_time: bool = False) -> None:
        """Print the table, the failures, the notes and the last line; ``seconds`` is None for a run
        that did not end."""
        self._closed = True
        self.console.print()
        for line in table(self.summary, self._names):
            self.console.print(line)
        failures = self.summary.by_operator()
        for groups in failures[:IN_FULL]:
            self._failures_of(groups)
        if len(failures) > IN_FULL:
            self.console.print()
        for groups in failures[IN_FULL:MOST_FAILURES]:
            for group in _different(groups)[:MOST_GROUPS]:
                self._line(f"✗ {failure.headline(group.headed)}")
        if len(failures) > MOST_FAILURES:
            self._line(f"… and {len(failures) - MOST_FAILURES} more operators fail")
        if len(failures) > IN_FULL and self.out:
            self._line(
                f"  the commands that repeat them: {self.out / 'failures' / '*' / 'message.txt'}"
            )
        for result in list(self.summary.disputes.values())[:MOST_DISPUTES]:
            self._line(f"? {failure.headline(result)}", "yellow")
            self._line(f"  again:   {failure.command(result, bundle=self.out)}")
        if len(self.summary.disputes) > MOST_DISPUTES:
            more = len(self.summary.disputes) - MOST_DISPUTES
            self._line(f"? and {more} more disagreements that could not be settled")
        self.console.print()
        for text in repeated(self.summary):
            self._line(text)
        for text in notes(self.summary):
            self._line(text, "dim")
        for text in told(self.summary.standings):
            self._line(f"! {text}", "yellow")
        if out_of_time and seconds and self._settings is not None and self._settings.time_limit:
            self._line(self._left(seconds))
        for text in not_reached(self.summary):
            self._line(text)
        self._line(
            self.last(seconds, out_of_time), "bold red" if self.summary.groups["failed"] else "bold"
        )
        if self.not_tested:
            for (verdict, backend, reason), count in self.summary.reasons.most_common():
                self._line(f"  {count:>7,}  {verdict:<13} {backend}: {reason}")
            for operator, share in self.summary.inconclusive_rates():
                self._line(f"  {share:>7.0%}  inconclusive of {operator}")

    def _failures_of(self, groups: Sequence[FailureGroup]) -> None:
        """Print an operator's failures: a block for each backend and cause, other backends with the
        same cause by name."""
        different = _different(groups)
        for group in different[:MOST_GROUPS]:
            self.console.print()
            others = [one for one in groups if one is not group and _same_fault(group, one)]
            self._failure(group, others)
        for group in different[MOST_GROUPS:MOST_FAILURES]:
            self._line(f"✗ {failure.headline(group.headed)}")

    def _failure(self, group: FailureGroup, others: Sequence[FailureGroup]) -> None:
        """Print a group with the numbers of its worst drawn case and of its smallest one, and the
        rest of it by name."""
        from rich.text import Text

        specs = self._settings.spelled if self._settings is not None else self.specs
        text = failure.message(
            group.headed, bundle=self.out, spec=specs.get(group.backend),
            cause=str(group.elected), smallest=group.smallest,
        )  # fmt: skip
        headline, _, rest = text.partition("\n")
        self.console.print(Text.assemble(("✗ ", "red"), (headline, "bold")))
        self.console.print(Text(rest))
        for line in _also([*group.results[1:], *(r for one in others for r in one.results)]):
            self._line(f"  {line}")
        count = group.cases + sum(one.cases for one in others)
        if count > 1:
            self._line(f"  {count:,} failing cases")

    def last(self, seconds: float | None, out_of_time: bool = False) -> str:
        """The last line, which summarizes the run."""
        groups, verdicts = self.summary.groups, self.summary.verdicts
        failing = [(name, verdicts[name]) for name in verdicts if Verdict(name).fails]
        parts = (
            [f"{count:,} {name}" for name, count in sorted(failing, key=lambda item: -item[1])]
            if groups["failed"]
            else []
        )
        good = verdicts["rounding"] + verdicts["exact"]
        parts += [f"{good:,} rounding or exact"] if good or not groups["not tested"] else []
        parts += [
            f"{verdicts[name]:,} {name}"
            for name in ("known", "ill-conditioned", "inconclusive")
            if verdicts[name]
        ]
        untested = groups["not tested"] - verdicts["inconclusive"]
        parts += (
            [f"{untested:,} not tested{'' if self.not_tested else ' (why: --not-tested)'}"]
            if untested
            else []
        )
        failed = self.summary.harness_failures
        parts += (
            [f"{failed:,} of them failures of the harness itself: please report one"]
            if failed
            else []
        )
        mark = (
            "✗"
            if groups["failed"]
            else "✓"
            if groups["passed"] or groups["warned"]
            else "– nothing was tested:"
        )
        paths = f"    bundle {self.out}" if self.out else ""
        if self.out and (self.out / PAGE).is_file():
            paths += f"    page {self.out / PAGE}"
        ended = ", time budget used up" if out_of_time else ""
        took = "did not end" if seconds is None else format_seconds(seconds)
        return f"{mark} {' · '.join(parts)}    {took}{ended}{paths}"


def not_reached(summary: RunSummary) -> list[str]:
    """What a run that ended by time did not begin, by family, the most of it first."""
    counts = {family: len(pairs) for family, pairs in summary.unbegun_by_family.items()}
    if not counts:
        return []
    ordered = sorted(counts, key=lambda family: (-counts[family], family))
    shown = [f"{family} {counts[family]:,}" for family in ordered[:MOST_FAMILIES]]
    more = len(ordered) - MOST_FAMILIES
    shown += [f"{pluralize(more, 'more family', 'more families')}"] if more > 0 else []
    return [f"not begun, in operators × dtypes: {', '.join(shown)}"]


def repeated(summary: RunSummary) -> list[str]:
    """Lines on determinism and memory growth; empty if neither was tested."""
    return [*determinism.summary(summary.repeated), *summary.leaks()]


def notes(summary: RunSummary) -> list[str]:
    """Further notes about a run, one line each."""
    return [
        text
        for text in (
            precision_scaling.summary(summary.scalings),
            summary.inconclusive_shares(),
            summary.not_looked_into(),
            _generic(summary),
        )
        if text
    ]


def _generic(summary: RunSummary) -> str:
    """The operators without a declaration, which are judged by a generic error model."""
    names = dict.fromkeys(
        name for cell in summary.cells.get(GENERIC, {}).values() for name in cell.operators
    )
    more = f" and {len(names) - MOST_GENERIC} more" if len(names) > MOST_GENERIC else ""
    return (
        (
            f"judged by a generic error model, as they have no declaration: "
            f"{', '.join(list(names)[:MOST_GENERIC])}{more}"
        )
        if names
        else ""
    )


def _same_fault(a: FailureGroup, b: FailureGroup) -> bool:
    """Whether two backends fail with the same cause; without a cause nobody knows."""
    return bool(a.elected.name) and a.elected.name == b.elected.name


def _different(groups: Sequence[FailureGroup]) -> list[FailureGroup]:
    """The groups without those whose cause an earlier one has."""
    return [
        group
        for position, group in enumerate(groups)
        if not any(_same_fault(group, earlier) for earlier in groups[:position])
    ]


def _also(others: Sequence[Result]) -> Iterator[str]:
    """``also: float32 forward on cpu, numpy: up to 13 × budget``, one line per dtype, direction and
    verdict."""
    by_kind: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in others:
        by_kind[result.dtype, result.direction, result.verdict.value].append(result)
    for (dtype, direction, verdict), results in list(by_kind.items())[:MOST_ALSO]:
        backends = ", ".join(dict.fromkeys(r.backend for r in results))
        rho = max(r.metrics.get("rho_max", 0.0) for r in results)
        size = f" up to {format_factor(rho)} × budget" if verdict == "divergent" else ""
        yield f"also:    {dtype} · {direction} · {backends}   {verdict}{size}"
    if len(by_kind) > MOST_ALSO:
        more = len(by_kind) - MOST_ALSO
        yield f"         and {pluralize(more, 'more kind')}"


def _cases_in_words(event: Started) -> str:
    """``23,000 shipped cases, 2 fresh each and 228 exhaustive``."""
    settings = event.config
    if not settings.examples:
        return "large cases"
    words = f"{pluralize(settings.examples, 'case')} each"
    if event.shipped:
        begin = pluralize(event.shipped, "shipped case")
        words = f"{begin}, {settings.examples} fresh each"
    further = event.exhaustive and settings.corpus is None
    return f"{words} and {event.exhaustive:,} exhaustive" if further else words


def _replaying(settings: RunConfig) -> str:
    assert settings.corpus is not None
    corpus = settings.corpus
    fresh = f", then fresh ones · seed {settings.seed}" if settings.explore else ""
    name = called(corpus.name)
    return f"{len(corpus.cases):,} cases of {name} ({corpus.digest[:12]}){fresh}"


def _about(environment: Mapping[str, str], printed: set[tuple[str, str]]) -> str:
    """A backend's environment, without facts that were printed for an earlier backend."""
    keys = ("device", "driver", "processor", "cuda", "cudnn", "numpy", "blas", "threads", "onednn")
    new = [
        (k, environment[k])
        for k in keys
        if environment.get(k) and (k, environment[k]) not in {*printed, ("device", "cpu")}
    ]
    printed.update(new)
    text = " · ".join(
        value if key in ("device", "processor") else f"{key} {value}" for key, value in new
    )
    return text if len(text) <= 100 else f"{text[:99]}…"


def exit_status(summary: RunSummary, *, asked: bool) -> int:
    """0 consistent; 1 a failing verdict; 3 nothing failed, but nothing was tested, or not on a
    requested backend."""
    if summary.groups["failed"]:
        return 1
    tested = summary.groups["passed"] + summary.groups["warned"]
    return 3 if not tested or (asked and summary.lost) else 0
