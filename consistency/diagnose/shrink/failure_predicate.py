"""The predicate of minimization: does a smaller case still fail in the same way? With a cache, a
time limit and a call count."""

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
from ...generate.memory_safety import is_unsafe
from ...judge.tolerances import Tolerances
from ...operators.declare import UNCHECKED, Operator
from ...reference.high_precision import EACH
from .. import case_runner
from ..diagnosis_budget import DiagnosisBudget
from .failure_signature import FailureSignature, SingleCauseDiagnosis, initial_verdict
from .tensor_edits import numbers_in

STEADY = 3  # runs; a failure in all of them counts as steady
FLAKY = 10  # runs that measure the rate of a flaky failure
_MISS_PROBABILITY = 0.05  # of overlooking a smaller case of a flaky failure
_MAX_TRIES = 12
_CACHED_RESULTS, _SMALL_CASE = 50, 1 << 12  # results; numbers in a case


class OutOfTimeError(Exception):
    """The time limit of minimization is reached; the best case so far is the result."""


@dataclass(frozen=True)
class Progress:
    """Progress of minimization: cases judged, seconds, numbers in all tensors of the best case
    so far, and the current step in words."""

    calls: int
    seconds: float
    size: int
    words: str


class FailurePredicate:
    """Judges cases of one operator, backend and direction until ``limit`` (``time.monotonic()``).

    ``calls`` counts judgments. Each distinct case is judged once; if the failure is flaky, up to
    ``tries`` times, until it fails.
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
        # Spot checks select cases by their digest; smaller cases are therefore all checked.
        self.against = EACH if against == "spot" else against
        self.limit, self.began, self.calls, self.tries = limit, time.monotonic(), 0, 1
        self.signature: FailureSignature | None = None
        self.words, self.size = "", 0
        self._progress = progress
        self._first_case: Case | None = None  # the original
        self._answers: dict[str, bool] = {}
        # bounded, as cases may be large
        self._recent_results: OrderedDict[str, Result] = OrderedDict()
        self._failing_results: dict[str, Result] = {}  # of small cases
        self._soft_limit = math.inf

    def judged(self, case: Case, diagnosis_budget: DiagnosisBudget | None = None) -> Result:
        """Judge a case once, with a diagnosis if ``diagnosis_budget`` is given. Counts the call
        and reports progress."""
        self.calls += 1
        self._report_progress()
        self._first_case = self._first_case or case
        if UNCHECKED in self.operator.traits and not changed_safely(self._first_case, case):
            return self.inconclusive(
                case,
                "a kernel that does not check its arguments is not given other sizes or positions",
            )
        if is_unsafe(self.operator, case):
            return self.inconclusive(case, "a gradient would be written beyond its memory")
        results = case_runner.judge_case(
            case,
            self.operator,
            [self.backend],
            self.rules,
            (self.direction,),
            diagnosis_budget=diagnosis_budget,
            against=self.against,
        )
        return (
            results[0] if results else self.inconclusive(case, "there is nothing to differentiate")
        )

    def inconclusive(self, case: Case, why: str) -> Result:
        """A result that neither passes nor fails."""
        return Result(
            case,
            self.backend.name,
            self.direction,
            Verdict(VerdictKind.INCONCLUSIVE),
            why,
            family=self.operator.family,
        )

    def fails_alike(self, case: Case) -> bool:
        """Whether the case matches the failure signature. Raises OutOfTimeError."""
        answer = self._answers.get(case.digest)
        if answer is None:
            self.check_time()
            answer = self._answers[case.digest] = self._fails_alike(case)
        return answer

    def verdict_of(self, case: Case) -> Result:
        """The last result of a case (one of several runs if the failure is flaky)."""
        self.fails_alike(case)
        return self._recent_results.get(case.digest) or self.judged(case)

    def fails(self, case: Case) -> bool:
        """Whether the case has the initial verdict of the original, whatever its cause: near a
        threshold causes may change."""
        if self.fails_alike(case):
            return True
        result, signature = self.verdict_of(case), self.signature
        return (
            result.verdict.fails
            and signature is not None
            and initial_verdict(result) == signature.initial_verdict
        )

    def cached_result(self, case: Case) -> Result | None:
        """The cached result of a case, or None."""
        return self._failing_results.get(case.digest) or self._recent_results.get(case.digest)

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
            result = self._recent_results[case.digest] = self.judged(case, diagnosis_budget)
            if len(self._recent_results) > _CACHED_RESULTS:
                self._recent_results.popitem(last=False)
            if signature.met_by(result):
                if numbers_in(case) <= _SMALL_CASE:
                    self._failing_results[case.digest] = result
                return True
            self.check_time()
        return False

    def set_signature(self, original: Result, again: Result, failed: int, runs: int) -> None:
        """Set the signature from ``original`` and its rerun ``again``, and ``tries`` from
        ``failed`` failures in ``runs`` runs."""
        flaky = failed < runs
        self.signature = FailureSignature.of(original, again, flaky=flaky)
        if flaky:
            rate = max(failed / runs, 0.05)
            self.tries = min(
                math.ceil(math.log(_MISS_PROBABILITY) / math.log(1.0 - min(rate, 0.95))), _MAX_TRIES
            )

    def rate(self, case: Case, first: str, runs: int) -> int:
        """The number of ``runs`` judgments that give the verdict ``first``."""
        return sum(self.judged(case).verdict.value == first for _ in range(runs))

    def check_time(self) -> None:
        if time.monotonic() >= min(self.limit, self._soft_limit):
            raise OutOfTimeError

    @property
    def left(self) -> float:
        return self.limit - time.monotonic()

    def time_share(self, share: float) -> _TimeShare:
        """A context that may use only ``share`` of the remaining time; OutOfTimeError ends it
        silently."""
        return _TimeShare(self, share)

    def report(self, words: str, case: Case) -> None:
        """Set the step and the case size that progress reports show."""
        self.words, self.size = words, numbers_in(case)

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(
                Progress(self.calls, time.monotonic() - self.began, self.size, self.words)
            )


class _TimeShare:
    """A share of the remaining time; ``over`` if it was used up."""

    def __init__(self, predicate: FailurePredicate, share: float) -> None:
        self._predicate, self._share, self.over = predicate, share, False

    def __enter__(self) -> _TimeShare:
        self._outer_limit = self._predicate._soft_limit
        self._predicate._soft_limit = min(
            time.monotonic() + self._share * max(self._predicate.left, 0.0), self._outer_limit
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        self._predicate._soft_limit = self._outer_limit
        self.over = kind is OutOfTimeError
        return self.over and time.monotonic() < min(self._predicate.limit, self._outer_limit)


class Search:
    """The best case so far and its predecessors. Passes propose simpler candidates."""

    def __init__(self, predicate: FailurePredicate, case: Case) -> None:
        self.predicate, self.case = predicate, case
        self._accepted: deque[Case] = deque(maxlen=_CACHED_RESULTS)

    def report(self, words: str) -> None:
        self.predicate.report(words, self.case)

    def accept(self, candidate: Case | None) -> bool:
        """Make the candidate the best case if it fails alike; returns whether it does. Raises
        OutOfTimeError."""
        if candidate is None or candidate.digest == self.case.digest:
            return False
        if not self.predicate.fails_alike(candidate):
            return False
        self._accepted.append(self.case)
        self.case = candidate
        self.predicate.size = numbers_in(candidate)
        return True

    def earlier(self) -> list[Case]:
        """Earlier best cases, the latest first, at doubling distances."""
        cases = list(self._accepted)[::-1]
        return [
            cases[(1 << step) - 1]
            for step in range(len(cases).bit_length())
            if (1 << step) <= len(cases)
        ]
