"""Does a smaller case still fail in the same way? The question that minimising asks, with its memory, clock and count."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .. import engine, second_look
from ..aten_calls import changed_safely
from ..backends.base import Backend
from ..model import Case, Cause, Evidence, Result, Verdict, Worst
from ..operators.declare import UNCHECKED, Operator
from ..second_look import Looks
from ..tolerances import Tolerances
from ..trials import Flagged
from .pieces import numbers_in

STEADY = 3  # runs that tell a steady failure from a flaky one
FLAKY = 10  # runs by which the rate of a flaky one is measured
_MISSED = 0.05  # how often a smaller case of a flaky failure may be passed over
_MOST_TRIES = 12
_HUGE, _CLEAR = 100.0, 10.0  # × budget: what began so large shall not end below this
_SAME_WIDE = 0.1  # relative: an error that float64 has as well
_SAME_FIT = 0.02  # relative: a factor or a summand that is the same one


class OutOfTimeError(Exception):
    """The time for minimising is up; the best so far stands."""


@dataclass(frozen=True)
class Progress:
    """How far minimising has come: cases judged, seconds, numbers in all tensors of the best so far, what is being tried."""

    calls: int
    seconds: float
    size: int
    words: str


def first_of(result: Result) -> str:
    """The verdict of the first look, before anything was found out about it."""
    return result.evidence.first if result.evidence is not None else result.verdict.value


@dataclass(frozen=True)
class Target:
    """What a smaller case must have in common with the original: both verdicts and the cause.

    ``told``: the cause is found by a second look at the original here and now. Where it is not (it was found elsewhere, or in a
    larger case), it cannot be asked of smaller ones. By ``worst``, an element, and ``wide``, the error in float64, a fitted cause
    (a factor, a summand, a formula) is recognised where too few numbers are left to find it anew. ``least`` is the × budget below
    which a case may not come: what just fails convinces nobody.
    """

    first: str
    verdict: str
    cause: str = ""
    told: bool = True
    flaky: bool = False
    worst: Worst | None = None
    wide: float | None = None
    known: Cause | None = None
    least: float = 0.0

    def met_by(self, result: Result) -> bool:
        if not result.verdict.fails or first_of(result) != self.first or result.metrics.get("rho_max", self.least) < self.least:
            return False
        if self.flaky:
            return True
        if result.verdict.value != self.verdict:
            return False
        return not self.cause or not self.told or result.cause == self.cause or self._same_fit(result)

    def _same_fit(self, result: Result) -> bool:
        """Whether one wrong number, too few to find a factor by, is off by the same factor (or summand, or bound)."""
        worst, evidence = result.worst, result.evidence
        if worst is None or self.worst is None or evidence is None or evidence.cause is not None:
            return False
        if self.cause == "approximation" and self.wide is not None and evidence.wide is not None:
            return abs(evidence.wide - self.wide) <= _SAME_WIDE * self.wide
        if self.cause == "nan-dropped":
            return all(math.isnan(w.expected) for w in (worst, self.worst)) and worst.actual == self.worst.actual
        pair = (self.worst.actual, self.worst.expected), (worst.actual, worst.expected)
        if not all(math.isfinite(v) for values in pair for v in values):
            return False
        match self.cause:
            case "scaled" if self.worst.expected and worst.expected:
                before, now = (a / e - 1.0 for a, e in pair)
            case "offset-added":
                before, now = (a - e for a, e in pair)
            case "saturated":
                before, now = (abs(a) for a, _ in pair)
            case _:
                return False
        return abs(now - before) <= _SAME_FIT * abs(before)


class _Carrying(Looks):
    """A second look that asks for one cause only, and only where the first look gave the wanted verdict."""

    def __init__(self, first: str, cause: str) -> None:
        super().__init__()
        self._first, self._only = first, (cause,) if cause else ()

    def look(self, flagged: Flagged) -> Evidence:
        found = flagged.found.verdict.value
        if found != self._first:
            return Evidence(found)
        return second_look.look(flagged, only=self._only, quick=self._only not in (("stale",), ("nondeterministic",)))


class Keeping(Looks):
    """A full second look at the smallest case, which keeps the cause that every step kept.

    A few numbers may fit another cause by accident, or be too few to find any: the larger case told more. Nor is there a cause
    where the larger case contradicted them all.
    """

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    def look(self, flagged: Flagged) -> Evidence:
        evidence, target = super().look(flagged), self._target
        if target.flaky or (evidence.cause.name if evidence.cause is not None else "") == target.cause:
            return evidence
        carried = second_look.look(flagged, only=(target.cause,)).cause if target.cause and target.told else None
        return replace(evidence, cause=carried or target.known)


class Oracle:
    """Judges cases of one operator, backend and direction. ``limit`` is when (``time.monotonic()``) the time is up.

    ``calls`` counts judgements. Each distinct case is judged once, or, of a flaky failure, until it fails or ``tries`` are used up.
    """

    def __init__(
        self, operator: Operator, backend: Backend, rules: Tolerances, direction: str, against: str, limit: float,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:  # fmt: skip
        self.operator, self.backend, self.rules, self.direction = operator, backend, rules, direction
        self.against = engine.EACH if against == "spot" else against  # a smaller case is another case, spot-checked or not
        self.limit, self.began, self.calls, self.tries = limit, time.monotonic(), 0, 1
        self.target: Target | None = None
        self.words, self.size = "", 0
        self._progress = progress
        self._given: Case | None = None  # the first case, which is the one to be made small
        self._known: dict[str, bool] = {}
        self._verdicts: dict[str, Result] = {}
        self._soft = math.inf

    def judged(self, case: Case, looks: Looks | None = None) -> Result:
        """One judgement, with a second look if ``looks`` is given; counted, and told to whoever draws the progress."""
        self.calls += 1
        self._tell()
        self._given = self._given or case
        if UNCHECKED in self.operator.traits and not changed_safely(self._given, case):
            return self.nothing(case, "a kernel that does not check its arguments is not given other sizes or positions")
        found = engine.judge_case(
            case, self.operator, [self.backend], self.rules, (self.direction,), looks=looks, against=self.against
        )
        return found[0] if found else self.nothing(case, "there is nothing to differentiate")

    def nothing(self, case: Case, why: str) -> Result:
        """A result that does not fail, because nothing could be told."""
        return Result(case, self.backend.name, self.direction, Verdict("undecidable"), why, family=self.operator.family)

    def holds(self, case: Case) -> bool:
        """Whether the case fails as the target does. Raises OutOfTimeError."""
        known = self._known.get(case.digest)
        if known is None:
            self.check_time()
            known = self._known[case.digest] = self._fails_alike(case)
        return known

    def verdict_of(self, case: Case) -> Result:
        """What was judged of a case last (of a flaky failure: of one of its runs)."""
        self.holds(case)
        return self._verdicts[case.digest]

    def fails(self, case: Case) -> bool:
        """Whether the case has the target's first verdict, whatever explains it: beside a threshold causes may change."""
        if self.holds(case):
            return True
        result, target = self._verdicts[case.digest], self.target
        return result.verdict.fails and target is not None and first_of(result) == target.first

    def last_of(self, case: Case) -> Result | None:
        """What was judged of a case, if anything was."""
        return self._verdicts.get(case.digest)

    def _fails_alike(self, case: Case) -> bool:
        target = self.target
        assert target is not None
        for _ in range(self.tries):
            looks = None if target.flaky else _Carrying(target.first, target.cause if target.told else "")
            result = self._verdicts[case.digest] = self.judged(case, looks)
            if target.met_by(result):
                return True
            self.check_time()
        return False

    def aim(self, original: Result, again: Result, failed: int, runs: int) -> None:
        """Set the target: what ``original`` was found to be, given that it failed in ``failed`` of ``runs`` runs here."""
        cause = original.cause or again.cause
        flaky = failed < runs
        self.target = Target(
            first_of(original), original.verdict.value, cause, again.cause == cause, flaky, again.worst or original.worst,
            again.evidence.wide if again.evidence is not None else None,
            next((r.evidence.cause for r in (original, again) if r.evidence is not None and r.evidence.cause is not None), None),
            _CLEAR if again.metrics.get("rho_max", 0.0) > _HUGE else 0.0,
        )  # fmt: skip
        if flaky:
            rate = max(failed / runs, 0.05)
            self.tries = min(math.ceil(math.log(_MISSED) / math.log(1.0 - min(rate, 0.95))), _MOST_TRIES)

    def rate(self, case: Case, first: str, runs: int) -> int:
        """In how many of ``runs`` judgements the case has the first verdict ``first``."""
        return sum(self.judged(case).verdict.value == first for _ in range(runs))

    # The clock, and who is told.

    def check_time(self) -> None:
        if time.monotonic() >= min(self.limit, self._soft):
            raise OutOfTimeError

    @property
    def left(self) -> float:
        return self.limit - time.monotonic()

    def slice_of(self, share: float) -> _Slice:
        """A context in which only ``share`` of the time that is left may be used; it ends quietly when that is up."""
        return _Slice(self, share)

    def doing(self, words: str, case: Case) -> None:
        """Say what is being tried, and how large the best so far is."""
        self.words, self.size = words, numbers_in(case)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(Progress(self.calls, time.monotonic() - self.began, self.size, self.words))


class _Slice:
    """A share of the time that is left; ``over`` when it was used up."""

    def __init__(self, oracle: Oracle, share: float) -> None:
        self._oracle, self._share, self.over = oracle, share, False

    def __enter__(self) -> _Slice:
        self._before = self._oracle._soft
        self._oracle._soft = min(time.monotonic() + self._share * max(self._oracle.left, 0.0), self._before)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self._oracle._soft = self._before
        self.over = kind is OutOfTimeError
        return self.over and time.monotonic() < min(self._oracle.limit, self._before)


class Search:
    """The best case so far, and the steps that led there. Passes hand it candidates that are simpler than ``case``."""

    def __init__(self, oracle: Oracle, case: Case) -> None:
        self.oracle, self.case = oracle, case

    def doing(self, words: str) -> None:
        self.oracle.doing(words, self.case)

    def takes(self, candidate: Case | None) -> bool:
        """Whether the candidate fails alike; then it is the best so far. Raises OutOfTimeError."""
        if candidate is None or candidate.digest == self.case.digest:
            return False
        if not self.oracle.holds(candidate):
            return False
        self.case = candidate
        self.oracle.size = numbers_in(candidate)
        return True


__all__ = ["FLAKY", "STEADY", "Oracle", "OutOfTimeError", "Progress", "Search", "Target", "first_of"]
