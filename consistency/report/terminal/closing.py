"""The end of a run on the terminal: its table, failures, disagreements, notes and last line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.text import one_line, pluralize
from ...engine.known.standing import counted, told
from ...judge import tolerances
from .. import failure
from ..failure_groups import FailureGroup
from ..family_table import table
from ..one_fault import also, different, same_fault
from ..run_notes import not_reached, notes, repeated
from ..summary import RunSummary
from .last_line import last_line

if TYPE_CHECKING:
    from rich.console import Console

IN_FULL = 4  # operators whose worst failure is shown in full, with its command
MOST_FAILURES = 20
MOST_GROUPS = 3  # of an operator in full
MOST_DISPUTES = 5


@dataclass(frozen=True)
class Closing:
    """Prints the end of a run.

    ``names`` are the backends in the order of the table's columns, ``specs`` how their specs are
    spelled; ``out`` is the bundle, where there is one; ``not_tested`` lists every reason in full.
    """

    console: Console
    summary: RunSummary
    names: Sequence[str]
    specs: Mapping[str, str]
    out: Path | None = None
    not_tested: bool = False

    def show(self, seconds: float | None, *, out_of_time: bool = False, left: str = "") -> None:
        """Print everything; ``seconds`` is None for a run that did not end, ``left`` says what a
        longer one would add."""
        self.console.print()
        for line in table(self.summary, self.names):
            self.console.print(line)
        self._failures()
        self._disputes()
        self.console.print()
        for text in repeated(self.summary):
            self._line(text)
        for text in notes(self.summary):
            self._line(text, "dim")
        packaged = {entry.id for entry in tolerances.load().expectations}
        for text in counted(self.summary.standings, without=packaged):
            self._line(text, "dim")
        for text in told(self.summary.standings):
            self._line(f"! {text}", "yellow")
        for text in (*([left] if left else ()), *not_reached(self.summary)):
            self._line(text)
        last = last_line(
            self.summary, seconds, out=self.out, out_of_time=out_of_time,
            not_tested=self.not_tested,
        )  # fmt: skip
        self._line(last, "bold red" if self.summary.groups["failed"] else "bold")
        if self.not_tested:
            self._reasons()

    def _line(self, text: str, style: str = "") -> None:
        self.console.print(one_line(text), style=style or None)

    def _failures(self) -> None:
        failures = self.summary.by_operator()
        for groups in failures[:IN_FULL]:
            self._operator(groups)
        if len(failures) <= IN_FULL:
            return
        self.console.print()
        for groups in failures[IN_FULL:MOST_FAILURES]:
            for group in different(groups)[:MOST_GROUPS]:
                self._line(f"✗ {failure.headline(group.headed)}")
        if len(failures) > MOST_FAILURES:
            rest = len(failures) - MOST_FAILURES
            fails = pluralize(rest, "more operator fails", "more operators fail")
            self._line(f"… and {fails}")
        if self.out:
            messages = self.out / "failures" / "*" / "message.txt"
            self._line(f"  the commands that repeat them: {messages}")

    def _operator(self, groups: Sequence[FailureGroup]) -> None:
        """Print an operator's failures: a block for each backend and cause, other backends with the
        same cause by name."""
        faults = different(groups)
        for group in faults[:MOST_GROUPS]:
            self.console.print()
            self._block(group, [g for g in groups if g is not group and same_fault(group, g)])
        for group in faults[MOST_GROUPS:MOST_FAILURES]:
            self._line(f"✗ {failure.headline(group.headed)}")

    def _block(self, group: FailureGroup, others: Sequence[FailureGroup]) -> None:
        """Print a group with the numbers of its worst drawn case and of its smallest one, and the
        rest of it by name."""
        from rich.text import Text

        text = failure.message(
            group.headed, bundle=self.out, spec=self.specs.get(group.backend),
            cause=str(group.elected), smallest=group.smallest,
        )  # fmt: skip
        headline, _, rest = text.partition("\n")
        self.console.print(Text.assemble(("✗ ", "red"), (headline, "bold")))
        self.console.print(Text(rest))
        for line in also([*group.results[1:], *(r for one in others for r in one.results)]):
            self._line(f"  {line}")
        count = group.cases + sum(one.cases for one in others)
        if count > 1:
            self._line(f"  {count:,} failing cases")

    def _disputes(self) -> None:
        disputes = list(self.summary.disputes.values())
        for result in disputes[:MOST_DISPUTES]:
            self._line(f"? {failure.headline(result)}", "yellow")
            self._line(f"  again:   {failure.command(result, bundle=self.out)}")
        if len(disputes) > MOST_DISPUTES:
            more = len(disputes) - MOST_DISPUTES
            self._line(f"? and {more} more disagreements that could not be settled")

    def _reasons(self) -> None:
        for (verdict, backend, reason), count in self.summary.reasons.most_common():
            self._line(f"  {count:>7,}  {verdict:<13} {backend}: {reason}")
        for operator, share in self.summary.inconclusive_rates():
            self._line(f"  {share:>7.0%}  inconclusive of {operator}")
