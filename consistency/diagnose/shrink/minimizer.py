"""Minimization of one failing case: failure rate, Hypothesis's shrinking, simplifying passes,
thresholds, and a final diagnosis."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...core.model import Case, Result
from ...core.recipe import TensorRecipe
from ...core.verdict import VerdictKind
from ...errors import RecipeError
from ...generate import search as generate
from ...generate.exhaustive import is_exhaustive
from ..diagnosis_budget import DiagnosisBudget
from . import (
    arguments,
    cotangents,
    elements,
    layouts,
    nondeterministic_failures,
    patterns,
    recipes,
    shapes,
    sizes,
    summary,
)
from .failure_predicate import FLAKY, STEADY, FailurePredicate, OutOfTimeError, Search
from .failure_signature import CausePreservingDiagnosis, initial_verdict
from .tensor_edits import numbers_in, with_literals
from .value_bisection import thresholds

_HYPOTHESIS_SHARE = 0.3  # of the time, for Hypothesis's shrinking
_MAX_ROUNDS = 4
_SECOND_ORDER_SHARE = (
    0.2  # of the remaining time: if the first order of passes took longer, the second is skipped
)
_LARGE_CASE = 1 << 14  # numbers: every try takes long, so sizes are reduced first
_CONFIRMATION_RUNS = 8  # of a flaky case, to reproduce the original verdict and cause
_COSTLY_VERDICTS = ("crash", "timeout")  # each run costs a process, or a time limit


@dataclass(frozen=True)
class MinimalCase:
    """A failing case reduced to a small one. ``result`` belongs to the smallest case, ``original``
    to the case before minimization.

    ``calls`` counts judged cases. ``steps`` describe what became smaller, ``thresholds`` where the
    failure begins. ``rate`` is (failures, runs) of the smallest case: (3, 3) is a steady failure;
    (0, n) means that the original did not fail again and nothing was minimized. ``interrupted``
    (Ctrl-C or time limit): the result is the best case so far, and after Ctrl-C ``rate`` is that of
    the original.
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
    """The state and the steps of one call of :func:`minimize`."""

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
            if self._reproduces():
                self._minimize()
                self._confirm_smallest()
            interrupted = self.unfinished
        except OutOfTimeError:
            self._confirm_if_possible()
        except KeyboardInterrupt:
            pass
        return self._minimal_case(interrupted)

    def _reproduces(self) -> bool:
        """Whether the failure can be reproduced; measures its rate and sets the signature."""
        predicate, case = self.predicate, self.original.case
        predicate.report("how often it fails", case)
        if nondeterministic_failures.is_precision_scaling(self.original):
            self._minimize_scaling()
            return False
        first, failed, runs = initial_verdict(self.original), 0, 0
        rerun = predicate.judged(case, DiagnosisBudget())
        decided = first in _COSTLY_VERDICTS and initial_verdict(rerun) == first
        if decided:
            failed = runs = 1
        while not decided:
            failed, runs = failed + predicate.rate(case, first, 1), runs + 1
            decided = runs >= FLAKY or failed == runs >= STEADY or predicate.left < 0.0
        self.rate = (failed, runs)
        if not failed:
            hint = (
                "; it may depend on what ran before"
                if self.original.verdict.kind is VerdictKind.NONDETERMINISTIC
                else ""
            )
            self.notes.append(
                f"it did not happen in {runs} runs here: nothing was made smaller{hint}"
            )
            return False
        predicate.set_signature(self.original, rerun, failed, runs)
        return True

    def _minimize_scaling(self) -> None:
        smallest = nondeterministic_failures.smaller_scaling(
            self.original, self.predicate, max(self.predicate.left, 0.0), self.examples, self.seed
        )
        if smallest is None:
            self.notes.append(
                "the errors of many cases together are what is wrong: there is no single case to "
                "make smaller"
            )
        else:
            self.search.case, self.result, self.rate = smallest.case, smallest, (1, 1)

    def _minimize(self) -> None:
        search, predicate = self.search, self.predicate
        if self.original.case.tiling is not None:
            sizes.smallest_size(self.original.case, search.accept)
            tiling = search.case.tiling
            if tiling is not None and tiling.is_large:
                self.notes.append("fewer repetitions of the same tensors do not fail")
                return
        shrunk = self._part_of_patterns() or self._shrink_with_hypothesis()
        start = shrunk if shrunk is not None else self.search.case
        search.case = start
        if not self._use_literals(start) and not (
            start is not self.original.case and self._use_literals(self.original.case)
        ):
            self.notes.append("drawn tensors are needed: given by their bits they do not fail")
            self._run_passes(recipes.simplify_recipes, sizes_first=False)
            return
        with predicate.time_share(0.9) as share:
            self._run_passes_in_both_orders()
        self.unfinished = share.over
        literal = Search(predicate, search.case)
        if shrunk is not None and summary.weight(shrunk) <= summary.weight(search.case):
            search.case = shrunk  # a recipe tells the judge how its numbers were made
        for sentence in thresholds(literal):
            self.found.append(sentence)

    def _part_of_patterns(self) -> Case | None:
        """The smallest part of an exhaustive case that fails, or None."""
        for part in patterns.parts(self.original.case, self.original.worst):
            if self.search.accept(part):
                return part
        return None

    def _shrink_with_hypothesis(self) -> Case | None:
        """The smallest case found by Hypothesis's shrinking; None if our strategies did not
        generate the original, or if nothing smaller fails."""
        original, predicate = self.original.case, self.predicate
        if (
            original.source
            or is_exhaustive(original)
            or self.predicate.operator.cases is not None
            or not _is_generated(original)
        ):
            return None
        predicate.report("drawing smaller cases", original)
        seconds = _HYPOTHESIS_SHARE * max(predicate.left, 0.0)
        deadline = time.monotonic() + seconds

        def fails(case: Case) -> bool:
            if time.monotonic() >= deadline:
                return False
            try:
                fails_alike = predicate.fails_alike(case)
            except OutOfTimeError:
                return False
            if fails_alike and summary.weight(case) <= summary.weight(self.search.case):
                self.search.case = case  # so that an interrupt does not lose it
                predicate.report("drawing smaller cases", case)
            return fails_alike

        try:
            smallest = generate.smallest(
                predicate.operator,
                original.dtype,
                fails,
                examples=self.examples,
                seed=self.seed,
                seconds=seconds,
            )
        except Exception:  # minimization continues from the original case
            return None
        return (
            self.search.case if smallest is not None and self.search.case is not original else None
        )

    def _use_literals(self, case: Case) -> bool:
        """Continue with the tensors as literals; keep chains of views only if the case does not
        fail without them."""
        search = self.search
        for chains in (False, True):
            try:
                literal = with_literals(case, chains=chains)
            except RecipeError:
                return False
            if literal.digest == search.case.digest or search.accept(literal):
                return True
        return False

    def _run_passes_in_both_orders(self) -> None:
        """Run the passes with arguments first and with sizes first, and keep the smaller result.
        The second order is skipped if the first took long."""
        search, start_time = self.search, time.monotonic()
        start, sizes_first = search.case, numbers_in(search.case) > _LARGE_CASE
        self._run_passes(layouts.simplify_layouts, sizes_first=sizes_first)
        first_result = search.case
        if (
            numbers_in(first_result) > 1
            and time.monotonic() - start_time < _SECOND_ORDER_SHARE * self.predicate.left
        ):
            search.case = start
            try:
                self._run_passes(layouts.simplify_layouts, sizes_first=not sizes_first)
            finally:
                if summary.weight(first_result) <= summary.weight(search.case):
                    search.case = first_result

    def _run_passes(self, simplify: Callable[[Search], None], *, sizes_first: bool) -> None:
        search = self.search
        cotangents.simplify_drawn_cotangents(search)
        if sizes_first:
            shapes.reduce_sizes(search)
        for _ in range(_MAX_ROUNDS):
            previous_digest = search.case.digest
            arguments.simplify_arguments(search)
            simplify(search)
            shapes.reduce_sizes(search)
            layouts.simplify_dtype(search)
            cotangents.simplify_literal_cotangents(search)
            elements.set_zeros_and_ones(search)
            elements.shorten_mantissas(search)
            simplify(search)
            if search.case.digest == previous_digest:
                return

    def _confirm_smallest(self) -> None:
        """Diagnose the smallest case and measure its failure rate; go back to a larger case if it
        does not fail again.

        A case may fail only after other calls, such as those made during minimization.
        """
        smallest = self.search.case
        for case in (smallest, *self.search.earlier(), self.original.case):
            self.search.case = case
            if self._confirm(case):
                break
        if self.search.case is not smallest:
            self.found.clear()
            self.notes.append("smaller cases failed after other calls only")

    def _confirm(self, case: Case) -> bool:
        predicate, signature = self.predicate, self.predicate.signature
        assert signature is not None
        predicate.report("the last look", case)
        for _ in range(_CONFIRMATION_RUNS if signature.flaky else 1):
            result = predicate.judged(case, CausePreservingDiagnosis(signature))
            if (
                initial_verdict(result) == signature.initial_verdict
                and result.verdict.value == signature.verdict
            ):
                self.result = result
                break
        if signature.initial_verdict in _COSTLY_VERDICTS:
            self.rate = (int(self.result is not None), 1)
        else:
            runs = FLAKY if signature.flaky else STEADY
            self.rate = (predicate.rate(case, signature.initial_verdict, runs), runs)
        return self.rate[0] > 0

    def _confirm_if_possible(self) -> None:
        if self.predicate.signature is not None:
            try:
                self._confirm_smallest()
            except KeyboardInterrupt:
                return

    def _minimal_case(self, interrupted: bool) -> MinimalCase:
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


def _is_generated(case: Case) -> bool:
    return (
        bool(case.tensors)
        and all(isinstance(t, TensorRecipe) for t in case.tensors)
        and not case.cotangents
    )
