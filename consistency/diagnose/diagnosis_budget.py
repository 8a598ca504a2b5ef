"""How much diagnosing a run may do, if much of it fails."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ..core.model import Evidence
from .diagnosis import diagnose
from .experiments import FlaggedResult
from .stopwatch import clock_of

EFFORT_SECONDS = 90.0  # for all results of a run that are diagnosed in full


class DiagnosisBudget:
    """Limits diagnoses: the first ``full`` results of a kind are diagnosed in full, later ones only
    for the causes found in these; of those that none of them explains, ``unexplained`` more are
    diagnosed in full, since the first cases may be small and their cause a coincidence.

    ``effort`` is the time (seconds) that is left of the ``whole`` for all full diagnoses together.
    When half is used, only the first result of a kind is diagnosed in full; of the last quarter,
    only the first of an operator on a backend: no operator's third failure costs another's first
    its diagnosis.
    """

    def __init__(
        self,
        effort: float = EFFORT_SECONDS,
        full: int = 3,
        unexplained: int = 5,
        whole: float = EFFORT_SECONDS,
    ) -> None:
        self.effort, self.full, self.unexplained, self.whole = effort, full, unexplained, whole
        self._counts: dict[tuple[str, ...], int] = {}
        self._operators: set[tuple[str, str]] = set()
        self._cut_short: set[tuple[str, ...]] = set()  # kinds with fewer than ``full`` diagnoses
        self._unexplained: Counter[tuple[str, ...]] = Counter()
        self._known_causes: dict[tuple[str, ...], Counter[str]] = {}

    def diagnose(self, flagged: FlaggedResult) -> Evidence:
        case = flagged.materials.case
        key = (
            case.operator,
            case.dtype,
            flagged.direction,
            flagged.backend.name,
            flagged.judgment.verdict.value,
        )
        count = self._counts[key] = self._counts.get(key, 0) + 1
        cause_counts = self._known_causes.setdefault(key, Counter())
        clock = clock_of(flagged.backend)
        start_time = clock()
        full = self._affords(count, (case.operator, flagged.backend.name))
        evidence = diagnose(
            flagged, only=None if full else tuple(name for name, _ in cause_counts.most_common())
        )
        further = count > self.full and self.effort > self.whole / 2
        if not full and further and evidence.cause is None:
            self._unexplained[key] += 1
            full = self._unexplained[key] <= self.unexplained
            evidence = diagnose(flagged) if full else evidence
        if full:
            self.effort -= clock() - start_time
            if evidence.cause is not None:
                cause_counts[evidence.cause.name] += 1
            return evidence
        if count <= self.full:
            self._cut_short.add(key)
        return replace(evidence, brief=evidence.cause is None and key in self._cut_short)

    def _affords(self, count: int, pair: tuple[str, str]) -> bool:
        """Whether the ``count``-th result of a kind is diagnosed in full."""
        is_first = pair not in self._operators
        self._operators.add(pair)
        if self.effort <= 0.0 or count > self.full:
            return False
        if self.effort > self.whole / 2:
            return True
        return is_first or (count == 1 and self.effort > self.whole / 4)
