"""The judge of calls that fail the fast check: tolerance rules, diagnosis, and the failures of
one backend."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends.base import Backend
from ..core.model import Case, Outcome, Result
from ..engine import engine
from ..engine.judge_recordings import Recorded
from ..generate.calls.case_operator import operator_of
from ..judge.tolerances import Tolerances
from .findings import FailedCall
from .trace.session import run_in_thread

FEW = 16  # failures of one backend, after which checks stop
_NOWHERE = Path()
_NEVER = threading.Event()


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call: its number, module and step, its score, and the kind that it shares with similar
    calls."""

    call: int
    module: str
    step: int
    score: float = 0.0
    kind: tuple[Any, ...] = ()


class RuleJudge:
    """Judges calls on the backend ``name``; ``failures`` are the failed ones, ``judged`` counts
    all by operator."""

    def __init__(
        self, name: str, tolerance_key: str, identity: Mapping[str, str], rules: Tolerances
    ) -> None:
        self.failures: list[FailedCall] = []
        self.judged: Counter[str] = Counter()
        self._name, self._tolerance_key, self._identity, self._rules = (
            name,
            tolerance_key,
            identity,
            rules,
        )
        self._diagnosis_budget = engine.DiagnosisBudget()

    @classmethod
    def of(cls, backend: Backend, rules: Tolerances) -> RuleJudge:
        """For a backend that computes in this process."""
        return cls(backend.name, backend.tolerance_key, backend.identity, rules)

    @property
    def full(self) -> bool:
        """Whether so many calls have failed that checks stop."""
        return len(self.failures) >= FEW

    def bound(self, name: str, family: str) -> float:
        """c of the rules for an operator, in ulp."""
        return self._rules.rule(name, "float32", family=family).c

    def judge(self, case: Case, own: Outcome, site: CallSite) -> float | None:
        """The error of a passing call × budget; None if it fails, and is kept."""
        recorded = Recorded(self._name, self._identity, _NOWHERE)
        recorded.tolerance_key, recorded.hand = self._tolerance_key or self._name, own
        results: list[Result] = []
        run_in_thread(
            lambda: results.extend(
                engine.judge_case(
                    case,
                    operator_of(case),
                    [recorded],
                    self._rules,
                    ("forward",),
                    diagnosis_budget=self._diagnosis_budget,
                )
            ),
            _NEVER,
        )
        self.judged[case.operator] += 1
        (result,) = results
        rho = float(result.metrics.get("rho_max", float("inf") if result.verdict.fails else 0.0))
        if not result.verdict.fails:
            return rho
        self.failures.append(
            FailedCall(case.operator, site.module, site.call, site.step, rho, result)
        )
        return None
