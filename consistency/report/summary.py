"""What the summary of a run is made of: counts, and the failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ..core.detail import HarnessFailed, NotBegun, Unproved
from ..core.model import Result
from ..core.text import pluralize
from ..core.verdict import VerdictKind
from ..diagnose.determinism import Repeatability
from ..diagnose.precision_scaling import Scaling
from ..engine.known.standing import KnownStatus
from .failure_groups import FailureGroup, Failures

MOST_REASONS = 200
_GROUPS = ("not tested", "passed", "warned", "failed")  # of verdicts, the worst last


@dataclass
class Cell:
    """One family on one backend: the worst outcome of each operator, and the largest ρ with verdict
    rounding."""

    operators: dict[str, str] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    rho: float | None = None
    exact: bool = False

    def add(self, result: Result) -> None:
        group = result.verdict.group
        before = self.operators.get(result.operator)
        if group != before:
            self.operators[result.operator] = (
                group if before is None else max(before, group, key=_GROUPS.index)
            )
        if group == "not tested":
            self.reasons[result.verdict.value] += 1
        self.exact |= result.verdict.kind is VerdictKind.EXACT
        if result.verdict.kind is VerdictKind.ROUNDING:
            self.rho = max(self.rho or 0.0, result.metrics.get("rho_max", 0.0))

    def text(self) -> tuple[str, str]:
        """``("✓ 0.31", "passed")``: the symbol with the worst passing × budget or the number of
        failing operators, and the group."""
        count = Counter(self.operators.values())
        absent = f" (–{count['not tested']})" if count["not tested"] else ""
        if count["failed"]:
            return f"✗ {count['failed']} of {len(self.operators)}{absent}", "failed"
        if count["passed"] or count["warned"]:
            group = "warned" if count["warned"] else "passed"
            number = "exact" if self.rho is None else f"{self.rho:.2f}"
            if self.rho is None and not self.exact:
                number = f"{count['warned']} of {len(self.operators)}"  # no other result
            return f"{'!' if group == 'warned' else '✓'} {number}{absent}", group
        return (
            f"– {self.reasons.most_common(1)[0][0] if self.reasons else 'nothing ran'}",
            "not tested",
        )


class RunSummary:
    """Counts of all results, and the failures in groups."""

    def __init__(self) -> None:
        self.cells: dict[str, dict[str, Cell]] = defaultdict(lambda: defaultdict(Cell))
        self.verdicts: Counter[str] = Counter()
        self.groups: Counter[str] = Counter()
        # Results that were not tested, by (verdict, backend, reason).
        self.reasons: Counter[tuple[str, str, str]] = Counter()
        self.failures = Failures()
        self.scalings: list[Scaling] = []
        self.repeated: list[Repeatability] = []
        self.standings: list[KnownStatus] = []
        self.grown: dict[tuple[str, str], float] = {}  # bytes per call by (backend, operator)
        # Differences without a proof, by (operator, backend).
        self.disputes: dict[tuple[str, str], Result] = {}
        # Numbers of inconclusive and of all results, by operator.
        self.decided: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.results = 0
        self.lost = 0
        self.harness_failures = 0
        self.brief = 0  # failures whose cause was not looked for further
        self.unbegun: set[tuple[str, str]] = set()  # operators × dtypes
        self.unbegun_results = 0  # of these: one for each direction and backend
        self.unbegun_by_family: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def add(self, result: Result) -> None:
        self.results += 1
        verdict = result.verdict
        self.verdicts[verdict.value] += 1
        self.groups[verdict.group] += 1
        self.cells[result.family][result.backend].add(result)
        if result.comparison is not None:
            self.decided[result.operator][0] += verdict.kind is VerdictKind.INCONCLUSIVE
            self.decided[result.operator][1] += 1
        if not verdict.tested:
            reason = (verdict.value, result.backend, _short(result.explanation))
            if reason in self.reasons or len(self.reasons) < MOST_REASONS:
                self.reasons[reason] += 1
            self.lost += verdict.kind is VerdictKind.UNAVAILABLE
            if isinstance(result.detail, Unproved):
                self.disputes.setdefault((result.operator, result.backend), result)
            self.harness_failures += isinstance(result.detail, HarnessFailed)
            if isinstance(result.detail, NotBegun):
                self.unbegun_results += 1
                self.unbegun.add((result.operator, result.dtype))
                self.unbegun_by_family[result.family].add((result.operator, result.dtype))
        if verdict.fails:
            self.failures.add(result)
            self.brief += result.evidence is not None and result.evidence.brief

    def shrunk(self, result: Result) -> None:
        """Keep a minimized failure, beside the drawn one."""
        self.failures.shrunk(result)

    def leaks(self) -> list[str]:
        """One line per backend whose memory grows with each call."""
        lines = []
        for name in dict.fromkeys(backend for backend, _ in self.grown):
            sizes = sorted(
                ((size, o) for (backend, o), size in self.grown.items() if backend == name),
                reverse=True,
            )
            shown = ", ".join(
                f"{operator} ({size / 1024:,.0f} KiB a call)" for size, operator in sizes[:3]
            )
            lines.append(
                f"memory: {name} keeps memory on every call of {shown}"
                + (" and others" if len(sizes) > 3 else "")
            )
        return lines

    def by_operator(self) -> list[list[FailureGroup]]:
        """The failures as one list of groups per operator, worst first."""
        return self.failures.by_operator()

    def not_looked_into(self) -> str:
        """One line about failures that a run had no time to diagnose; empty if there are none."""
        if not self.brief:
            return ""
        return (
            f"{pluralize(self.brief, 'failure')} {'was' if self.brief == 1 else 'were'} not looked "
            "into further, after others of their kind; consistency repro CASE --backend BACKEND "
            "looks into one"
        )

    def inconclusive_rates(self) -> list[tuple[str, float]]:
        """Operators with inconclusive results and the share of these, the largest first."""
        rates = [(name, count / every) for name, (count, every) in self.decided.items() if count]
        return sorted(rates, key=lambda item: -item[1])

    def inconclusive_shares(self) -> str:
        """One line about inconclusive results; empty if there are none."""
        rates = self.inconclusive_rates()
        if not rates:
            return ""
        worst = ", ".join(f"{name} {share:.0%}" for name, share in rates[:4])
        median = sorted([share for _, share in rates] + [0.0] * (len(self.decided) - len(rates)))[
            len(self.decided) // 2
        ]
        return f"inconclusive: {worst}; the median operator {median:.0%} (all: --not-tested)"


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= 90 else line[:89] + "…"
