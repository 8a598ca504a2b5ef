"""What a check found, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.detail import Unproved
from ...core.model import Result
from ...core.text import printable
from ...core.verdict import VerdictKind
from ...errors import Divergence
from ...report.failure import message
from ...report.rerun_hint import save_call

# Kinds of findings, by what is at fault.
KINDS = (
    "wrong-numbers", "tail-block", "lost-strides", "race", "wrong-gradient", "no-gradient",
    "fake-kernel", "schema", "autograd-registration", "compile", "special-values", "writes",
)  # fmt: skip
OUT_OF_TIME = "because the time was over"  # in what was not tested
SHOWN = 1  # results of a finding that are printed


@dataclass(frozen=True)
class OperatorFault:
    """One fault: its ``kind`` (of :data:`KINDS`), a sentence, and the results that show it, the
    plainest first."""

    kind: str
    words: str
    results: tuple[Result, ...] = ()


@dataclass(frozen=True)
class OperatorReport:
    """The return value of :func:`consistency.check`: ``print`` it, or ``assert`` it in a test.

    It is true where nothing is wrong. ``findings`` are the faults, ``warnings`` what is no fault
    but good to know, ``results`` every result, ``words`` how each case (by its id) differs from
    the example, ``not_tested`` what could not be tested and why, ``tested`` the parts that were,
    besides the numbers.
    """

    name: str
    backend: str
    results: tuple[Result, ...] = ()
    findings: tuple[OperatorFault, ...] = ()
    warnings: tuple[str, ...] = ()
    not_tested: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return not self.findings and any(r.verdict.tested for r in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The failing results, those that show a finding first."""
        shown = [result for finding in self.findings for result in finding.results]
        others = [r for r in self.results if is_fault(r) and not any(r is s for s in shown)]
        return (*shown, *others)

    def raise_if_failed(self) -> None:
        """Raise :class:`consistency.Divergence` with the report as its text where something is
        wrong, or where nothing was tested."""
        __tracebackhide__ = True
        if not self:
            raise Divergence(str(self), self.failures)

    def __repr__(self) -> str:
        count = len(self.findings)
        faults = "no fault" if not count else f"{count} fault{'s' * (count > 1)}"
        return f"<OperatorReport {self.name}: {faults}, {len(self.results)} results>"

    def __str__(self) -> str:
        lines = [self._headline()]
        for finding in self.findings:
            lines.append(f"✗ {finding.kind}: {finding.words}")
            for result in finding.results[:SHOWN]:
                how = self.words.get(result.case.id, "")
                lines += [f"  {line}" for line in message(result, again=False).splitlines()]
                lines += [f"    input:   {how}"] if how else []
        if self.failures:
            keep = save_call(self.failures[0], "report.failures[0]")
            lines.append(f"keep: {keep} (its tensors, a script, the text of an issue)")
        lines += [f"! {text}" for text in self.warnings]
        if self.tested:
            lines.append(f"also tested: {' · '.join(self.tested)}")
        lines += [f"not tested: {text}" for text in self.not_tested]
        return "\n".join(map(printable, lines))

    def _headline(self) -> str:
        count = len(self.findings)
        faults = "no fault found" if not count else f"{count} fault{'s' * (count > 1)}"
        if not count and any(OUT_OF_TIME in text for text in self.not_tested):
            faults += " before the time was over"
        if not any(r.verdict.tested for r in self.results):
            faults = "nothing was tested"
        dtypes = " ".join(dict.fromkeys(r.dtype for r in self.results if r.verdict.tested))
        directions = " and ".join(dict.fromkeys(r.direction for r in self.results))
        counts = Counter(r.verdict.value for r in self.results)
        verdicts = " · ".join(f"{n} {name}" for name, n in counts.most_common())
        return (
            f"{self.name} on {self.backend}: {faults}; {len(self.results)} results, {directions}, "
            f"{dtypes or 'no dtype'} ({verdicts or 'none'})"
        )


def is_fault(result: Result) -> bool:
    """Whether a result speaks against the kernel: a failure, or one that would be if float64 on the
    CPU, which the user gave as the reference, were proved as well."""
    if result.verdict.kind is VerdictKind.INCONCLUSIVE:
        return isinstance(result.detail, Unproved)
    return result.verdict.fails
