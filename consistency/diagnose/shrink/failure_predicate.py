"""The predicate of minimization: does a smaller case still fail in the same way? With its cache,
its time limit and its count."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from ...backends.base import Backend
from ...core.model import Case, Result
from ...core.verdict import Verdict, VerdictKind
from ...generate.calls.aten import changed_safely
from ...judge.tolerances import Tolerances
from ...operators.declare import UNCHECKED, Operator
from ...reference.high_precision import EACH
from .. import case_runner
from ..diagnosis import DiagnosisBudget
from .failure_signature import FailureSignature, SingleCauseDiagnosis, initial_verdict
from .tensor_edits import numbers_in

STEADY = 3  # runs that tell a steady failure from a flaky one
FLAKY = 10  # runs by which the rate of a flaky one is measured
_MISSED = 0.05  # how often a smaller case of a flaky failure may be passed over
_MOST_TRIES = 12
_REMEMBERED, _SMALL = 50, 1 << 12  # results; numbers of a case


class OutOfTimeError(Exception):
    """The time limit of minimization is reached; the best case so far is the result."""


@dataclass(frozen=True)
class Progress:
    """The progress of minimization: cases judged, seconds, numbers in all tensors of the best so
    far, what is being tried."""

    calls: int
    seconds: float
    size: int
    words: str


class FailurePredicate:
    """Judges cases of one operator, backend and direction. ``limit`` is when (``time.monotonic()``)
    the time is up.

    ``calls`` counts judgments. Each distinct case is judged once, or, of a flaky failure, until it
    fails or ``tries`` are used up.
    """

    def __init__(
        self, operator: Operator, backend: Backend, rules: Tolerances, direction: str, against: str,
        limit: float,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:  # fmt: skip
        self.operator, self.backend, self.rules, self.direction = (
            operator,
            backend,
            rules,
            direction,
        )
        self.against = (
            EACH if against == "spot" else against
        )  # a smaller case is another case, spot-checked or not
        self.limit, self.began, self.calls, self.tries = limit, time.monotonic(), 0, 1
        self.signature: FailureSignature | None = None
        self.words, self.size = "", 0
        self._progress = progress
        self._given: Case | None = None  # the first case, which is the one to be made small
        self._known: dict[str, bool] = {}
        self._verdicts: OrderedDict[str, Result] = (
            OrderedDict()
        )  # the last ones: results hold their cases, which may be large
        self._failing: dict[str, Result] = {}  # small ones that fail as the target does
        self._soft = math.inf

    def judged(self, case: Case, diagnosis_budget: DiagnosisBudget | None = None) -> Result:
        """One judgment, with a diagnosis if ``diagnosis_budget`` is given; counted, and reported
        as progress."""
        self.calls += 1
        self._tell()
        self._given = self._given or case
        if UNCHECKED in self.operator.traits and not changed_safely(self._given, case):
            return self.inconclusive(
                case,
                "a kernel that does not check its arguments is not given other sizes or positions",
            )
        found = case_runner.judge_case(
            case,
            self.operator,
            [self.backend],
            self.rules,
            (self.direction,),
            diagnosis_budget=diagnosis_budget,
            against=self.against,
        )
        return found[0] if found else self.inconclusive(case, "there is nothing to differentiate")

    def inconclusive(self, case: Case, why: str) -> Result:
        """A result that does not fail, because nothing could be told."""
        return Result(
            case,
            self.backend.name,
            self.direction,
            Verdict(VerdictKind.INCONCLUSIVE),
            why,
            family=self.operator.family,
        )

    def fails_alike(self, case: Case) -> bool:
        """Whether the case fails as the target does. Raises OutOfTimeError."""
        known = self._known.get(case.digest)
        if known is None:
            self.check_time()
            known = self._known[case.digest] = self._fails_alike(case)
        return known

    def verdict_of(self, case: Case) -> Result:
        """What was judged of a case last (of a flaky failure: of one of its runs)."""
        self.fails_alike(case)
        return self._verdicts.get(case.digest) or self.judged(case)

    def fails(self, case: Case) -> bool:
        """Whether the case has the target's first verdict, whatever explains it: beside a threshold
        causes may change."""
        if self.fails_alike(case):
            return True
        result, signature = self.verdict_of(case), self.signature
        return (
            result.verdict.fails
            and signature is not None
            and initial_verdict(result) == signature.initial_verdict
        )

    def cached_result(self, case: Case) -> Result | None:
        """What was judged of a case, if anything was and it is remembered."""
        return self._failing.get(case.digest) or self._verdicts.get(case.digest)

    def _fails_alike(self, case: Case) -> bool:
        signature = self.signature
        assert signature is not None
        for _ in range(self.tries):
            diagnosis_budget = (
                None
                if signature.flaky
                else SingleCauseDiagnosis(
                    signature.initial_verdict, signature.cause if signature.cause_found else ""
                )
            )
            result = self._verdicts[case.digest] = self.judged(case, diagnosis_budget)
            if len(self._verdicts) > _REMEMBERED:
                self._verdicts.popitem(last=False)
            if signature.met_by(result):
                if numbers_in(case) <= _SMALL:
                    self._failing[case.digest] = result
                return True
            self.check_time()
        return False

    def set_signature(self, original: Result, again: Result, failed: int, runs: int) -> None:
        """Set the target: what ``original`` was found to be, given that it failed in ``failed`` of
        ``runs`` runs here."""
        flaky = failed < runs
        self.signature = FailureSignature.of(original, again, flaky=flaky)
        if flaky:
            rate = max(failed / runs, 0.05)
            self.tries = min(
                math.ceil(math.log(_MISSED) / math.log(1.0 - min(rate, 0.95))), _MOST_TRIES
            )

    def rate(self, case: Case, first: str, runs: int) -> int:
        """In how many of ``runs`` judgments the case has the first verdict ``first``."""
        return sum(self.judged(case).verdict.value == first for _ in range(runs))

    # The clock, and who is told.

    def check_time(self) -> None:
        if time.monotonic() >= min(self.limit, self._soft):
            raise OutOfTimeError

    @property
    def left(self) -> float:
        return self.limit - time.monotonic()

    def time_share(self, share: float) -> _TimeShare:
        """A context in which only ``share`` of the time that is left may be used; it ends quietly
        when that is up."""
        return _TimeShare(self, share)

    def report(self, words: str, case: Case) -> None:
        """Say what is being tried, and how large the best so far is."""
        self.words, self.size = words, numbers_in(case)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(
                Progress(self.calls, time.monotonic() - self.began, self.size, self.words)
            )


class _TimeShare:
    """A share of the time that is left; ``over`` when it was used up."""

    def __init__(self, predicate: FailurePredicate, share: float) -> None:
        self._predicate, self._share, self.over = predicate, share, False

    def __enter__(self) -> _TimeShare:
        self._before = self._predicate._soft
        self._predicate._soft = min(
            time.monotonic() + self._share * max(self._predicate.left, 0.0), self._before
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        self._predicate._soft = self._before
        self.over = kind is OutOfTimeError
        return self.over and time.monotonic() < min(self._predicate.limit, self._before)


class Search:
    """The best case so far, and the steps that led there. Passes hand it candidates that are
    simpler than ``case``."""

    def __init__(self, predicate: FailurePredicate, case: Case) -> None:
        self.predicate, self.case = predicate, case
        self._before: deque[Case] = deque(maxlen=_REMEMBERED)

    def report(self, words: str) -> None:
        self.predicate.report(words, self.case)

    def accept(self, candidate: Case | None) -> bool:
        """Whether the candidate fails alike; then it is the best so far. Raises OutOfTimeError."""
        if candidate is None or candidate.digest == self.case.digest:
            return False
        if not self.predicate.fails_alike(candidate):
            return False
        self._before.append(self.case)
        self.case = candidate
        self.predicate.size = numbers_in(candidate)
        return True

    def earlier(self) -> list[Case]:
        """Some of the larger cases on the way here, the last ones first, in growing steps."""
        cases = list(self._before)[::-1]
        return [
            cases[(1 << step) - 1]
            for step in range(len(cases).bit_length())
            if (1 << step) <= len(cases)
        ]
