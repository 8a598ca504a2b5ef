"""The compared part of a result, and changes between two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....core.model import Known
from ..events import EventKind

# operator, dtype, direction, backend; "*" stands for all of them
GroupKey = tuple[str, str, str, str]
MAX_GROWTH = 10.0  # allowed growth of a known divergence whose entry has no max_rho
MEANINGLESS = 1e6  # × budget: no digit is right, so growth means nothing


@dataclass(frozen=True, slots=True)
class ComparedResult:
    """The compared part of a result; ``explanation`` is empty if it passes, as it is not shown."""

    verdict: str
    fails: bool
    tested: bool
    rho: float
    explanation: str
    cause: str
    origin: str
    known: Known | None = None  # the matching known failure

    @property
    def passes(self) -> bool:
        """Within the budget, or ill-conditioned; not a known failure."""
        return self.tested and not self.fails and self.verdict != "known"

    @property
    def flaky(self) -> bool:
        """Known to be intermittent, so that a change between two runs means nothing."""
        return self.known is not None and self.known.flaky

    def known_grew(self, now: ComparedResult) -> bool:
        """Whether the error of a known divergence exceeds its entry's limit or, without a limit,
        is far larger than before."""
        if self.known is None or self.flaky or self.rho >= MEANINGLESS:
            return False
        if now.fails:
            return now.verdict == self.known.verdict and now.rho > max(
                self.rho, self.known.max_rho or 0.0
            )
        return (
            now.verdict == "known"
            and self.known.max_rho is None
            and now.rho > MAX_GROWTH * max(self.rho, 1.0)
        )


ResultPair = tuple[str, ComparedResult, ComparedResult]  # case, before, after


@dataclass(frozen=True)
class ResultChange:
    """A change in one group (operator, dtype, direction, backend), in ``cases`` of the ``like``
    compared cases.

    ``before`` and ``after`` are × budget: of the worst such case, or the median for error shifts.
    ``case`` is the id of the worst. ``groups`` is the number of operators × dtypes × directions
    that the change is about.
    """

    kind: EventKind
    group: GroupKey
    cases: int
    like: int
    before: float
    after: float
    words: str
    case: str
    groups: int = 1

    @property
    def regression(self) -> bool:
        return self.kind.regression

    def to_json(self) -> dict[str, Any]:
        names = dict(zip(("operator", "dtype", "direction", "backend"), self.group, strict=True))
        numbers = {
            "cases": self.cases,
            "like_for_like": self.like,
            "before": self.before,
            "after": self.after,
        }
        words = {
            "words": self.words,
            "case": self.case,
            "groups": self.groups,
            "regression": self.regression,
        }
        return {"kind": self.kind, **names, **numbers, **words}
