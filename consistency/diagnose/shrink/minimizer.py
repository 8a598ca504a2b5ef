"""The course of minimizing: how often it fails, what Hypothesis finds, the passes, where failing
begins, the last look."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...core.model import Case, Result
from ...core.recipe import TensorRecipe
from ...core.verdict import VerdictKind
from ...errors import RecipeError
from ...generate import search as generate
from ..diagnosis import DiagnosisBudget
from . import (
    arguments,
    cotangents,
    elements,
    layouts,
    nondeterministic_failures,
    recipes,
    shapes,
    summary,
)
from .failure_predicate import FLAKY, STEADY, FailurePredicate, OutOfTimeError, Search
from .failure_signature import CausePreservingDiagnosis, initial_verdict
from .tensor_edits import numbers_in, with_literals
from .value_bisection import thresholds

_DRAWING = 0.3  # share of the time that Hypothesis may take
_ROUNDS = 4
_ANOTHER_WAY = (
    0.2  # of the time that is left, which the first way may have taken if there shall be another
)
_LARGE = 1 << 14  # numbers, with which every try takes long: sizes come first
_LAST_LOOKS = 8  # at a flaky case, until it is seen failing as the original did
_COSTLY = ("crash", "timeout")  # each run costs a process, or a time limit


@dataclass(frozen=True)
class MinimalCase:
    """A failing case made small. ``result`` is that of the smallest case, ``original`` the one that
    was given.

    ``calls`` counts judged cases. ``steps`` say what became smaller, ``thresholds`` where failing
    begins. ``rate`` is (failed, runs) of the smallest case repeated: (3, 3) is a steady failure,
    (0, n) one that does not happen here at all, of which nothing was made smaller; after Ctrl-C it
    is that of the original. ``interrupted``: Ctrl-C, or the time was up; then this is the best so
    far.
    """

    result: Result
    original: Result
    calls: int
    seconds: float
    steps: tuple[str, ...]
    thresholds: tuple[str, ...]
    rate: tuple[int, int]
    interrupted: bool


class Minimizer:
    """One run of :func:`minimize`: what was found so far, and what comes next."""

    def __init__(
        self, original: Result, predicate: FailurePredicate, seed: int, examples: int
    ) -> None:
        self.original, self.predicate, self.seed, self.examples = (
            original,
            predicate,
            seed,
            examples,
        )
        self.search = Search(predicate, original.case)
        self.found: list[str] = []  # thresholds
        self.notes: list[str] = []
        self.rate = (0, 0)
        self.unfinished = False
        self.result: Result | None = None

    def run(self) -> MinimalCase:
        interrupted = True
        try:
            if self._happens():
                self._smaller()
                self._last()
            interrupted = self.unfinished
        except OutOfTimeError:
            self._last_if_any()
        except KeyboardInterrupt:
            pass
        return self._minimal(interrupted)

    def _happens(self) -> bool:
        """Whether the failure happens here at all, and how often."""
        predicate, case = self.predicate, self.original.case
        predicate.report("how often it fails", case)
        if nondeterministic_failures.is_precision_scaling(self.original):
            self._scaling()
            return False
        first, failed, runs = initial_verdict(self.original), 0, 0
        again = predicate.judged(case, DiagnosisBudget())
        enough = first in _COSTLY and initial_verdict(again) == first
        if enough:
            failed = runs = 1
        while not enough:
            failed, runs = failed + predicate.rate(case, first, 1), runs + 1
            enough = runs >= FLAKY or failed == runs >= STEADY or predicate.left < 0.0
        self.rate = (failed, runs)
        if not failed:
            before = (
                "; it may depend on what ran before"
                if self.original.verdict.kind is VerdictKind.NONDETERMINISTIC
                else ""
            )
            self.notes.append(
                f"it did not happen in {runs} runs here: nothing was made smaller{before}"
            )
            return False
        predicate.set_signature(self.original, again, failed, runs)
        return True

    def _scaling(self) -> None:
        small = nondeterministic_failures.smaller_scaling(
            self.original, self.predicate, max(self.predicate.left, 0.0), self.examples, self.seed
        )
        if small is None:
            self.notes.append(
                "the errors of many cases together are what is wrong: there is no single case "
                "to "
                "make smaller"
            )
        else:
            self.search.case, self.result, self.rate = small.case, small, (1, 1)

    def _smaller(self) -> None:
        search, predicate = self.search, self.predicate
        drawn = self._drawn()
        small = drawn if drawn is not None else self.original.case
        search.case = small
        if not self._literal(small) and not (
            small is not self.original.case and self._literal(self.original.case)
        ):
            self.notes.append("drawn tensors are needed: given by their bits they do not fail")
            self._passes(recipes.simplify_recipes, sizes_first=False)
            return
        with predicate.time_share(0.9) as share:
            self._both_ways()
        self.unfinished = share.over
        literal = Search(predicate, search.case)
        if drawn is not None and summary.weight(drawn) <= summary.weight(search.case):
            search.case = drawn  # of a recipe the judge knows what its numbers are
        for sentence in thresholds(literal):
            self.found.append(sentence)

    def _drawn(self) -> Case | None:
        """What Hypothesis finds, starting from the seed; None where it was not our strategies that
        drew the case."""
        original, predicate = self.original.case, self.predicate
        if original.source or self.predicate.operator.cases is not None or not _is_drawn(original):
            return None
        predicate.report("drawing smaller cases", original)
        seconds = _DRAWING * max(predicate.left, 0.0)
        until = time.monotonic() + seconds

        def fails(case: Case) -> bool:
            if time.monotonic() >= until:
                return False
            try:
                holds = predicate.fails_alike(case)
            except OutOfTimeError:
                return False
            if holds and summary.weight(case) <= summary.weight(self.search.case):
                self.search.case = case  # kept even if it is interrupted now
                predicate.report("drawing smaller cases", case)
            return holds

        try:
            found = generate.smallest(
                predicate.operator,
                original.dtype,
                fails,
                examples=self.examples,
                seed=self.seed,
                seconds=seconds,
            )
        except Exception:  # the case as it was drawn is there already
            return None
        return self.search.case if found is not None and self.search.case is not original else None

    def _literal(self, case: Case) -> bool:
        """Go on from the case with its tensors given by their bits; with the chains of views only
        where these are needed."""
        search = self.search
        for chains in (False, True):
            try:
                literal = with_literals(case, chains=chains)
            except RecipeError:
                return False
            if literal.digest == search.case.digest or search.accept(literal):
                return True
        return False

    def _both_ways(self) -> None:
        """The passes with arguments first and with sizes first, which end in different places; the
        smaller case is kept.

        Where one way took long, there is no other.
        """
        search, began = self.search, time.monotonic()
        start, sizes_first = search.case, numbers_in(search.case) > _LARGE
        self._passes(layouts.simplify_layouts, sizes_first=sizes_first)
        small = search.case
        if numbers_in(small) > 1 and time.monotonic() - began < _ANOTHER_WAY * self.predicate.left:
            search.case = start
            try:
                self._passes(layouts.simplify_layouts, sizes_first=not sizes_first)
            finally:
                if summary.weight(small) <= summary.weight(search.case):
                    search.case = small

    def _passes(self, plainer: Callable[[Search], None], *, sizes_first: bool) -> None:
        search = self.search
        cotangents.simplify_drawn_cotangents(search)
        if sizes_first:
            shapes.reduce_sizes(search)
        for _ in range(_ROUNDS):
            before = search.case.digest
            arguments.simplify_arguments(search)
            plainer(search)
            shapes.reduce_sizes(search)
            layouts.simplify_dtype(search)
            cotangents.simplify_literal_cotangents(search)
            elements.set_zeros_and_ones(search)
            elements.shorten_mantissas(search)
            plainer(search)
            if search.case.digest == before:
                return

    def _last(self) -> None:
        """The diagnosis of the smallest case, and how often it fails; a larger one if it never
        fails again.

        That happens where an answer depends on the calls before: on the way to the smallest case
        others were made in between.
        """
        smallest = self.search.case
        for case in (smallest, *self.search.earlier(), self.original.case):
            self.search.case = case
            if self._confirmed(case):
                break
        if self.search.case is not smallest:
            self.found.clear()
            self.notes.append("smaller cases failed after other calls only")

    def _confirmed(self, case: Case) -> bool:
        predicate, signature = self.predicate, self.predicate.signature
        assert signature is not None
        predicate.report("the last look", case)
        for _ in range(_LAST_LOOKS if signature.flaky else 1):
            result = predicate.judged(case, CausePreservingDiagnosis(signature))
            if (
                initial_verdict(result) == signature.initial_verdict
                and result.verdict.value == signature.verdict
            ):
                self.result = result
                break
        if signature.initial_verdict in _COSTLY:
            self.rate = (int(self.result is not None), 1)
        else:
            runs = FLAKY if signature.flaky else STEADY
            self.rate = (predicate.rate(case, signature.initial_verdict, runs), runs)
        return self.rate[0] > 0

    def _last_if_any(self) -> None:
        if self.predicate.signature is not None:
            try:
                self._last()
            except KeyboardInterrupt:
                return

    def _minimal(self, interrupted: bool) -> MinimalCase:
        predicate, case = self.predicate, self.search.case
        result = (
            self.result
            if self.result is not None and self.result.case.digest == case.digest
            else None
        )
        if result is None:
            result = predicate.cached_result(case) or self.original
            case = result.case
        steps = (
            summary.steps(self.original.case, case)
            if case.digest != self.original.case.digest
            else ()
        )
        return MinimalCase(
            result, self.original, predicate.calls, time.monotonic() - predicate.began, (*steps,
            *self.notes), tuple(self.found),
            self.rate, interrupted,
        )  # fmt: skip


def _is_drawn(case: Case) -> bool:
    return (
        bool(case.tensors)
        and all(isinstance(t, TensorRecipe) for t in case.tensors)
        and not case.cotangents
    )
