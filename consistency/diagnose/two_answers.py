"""Where float64 on the CPU gives two answers for the same numbers: a case's companions
(:mod:`consistency.reference.invariances`) show what its reference shares with the tested kernel.

Which answer is right say certified values or NumPy; where there are none, the companion is the
likelier one. Who gives two answers itself is proved wrong by that; others are not accused.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from ..backends.base import Backend, attempt
from ..core.detail import Contradiction
from ..core.dtypes import FORMATS, PARTS, beside, floats
from ..core.model import Case, Cause, Comparison, Outcome, Output
from ..core.verdict import OutcomeStatus, Verdict, VerdictKind
from ..judge.compare import compare
from ..judge.judge import judge
from ..judge.judgment import Judgment
from ..judge.rules import Rules
from ..operators.declare import Operator
from ..reference import Reference
from ..reference.high_precision import EACH
from ..reference.invariances import Companion, Slope, companions, slopes
from ..reference.invariances.relations import BATCH, LAYOUT, LENGTH, SLOPE
from .output_differences import as_reference, differing, flat, replaced, same, shapes

ONE_CASE_IN = 5  # share of the cases whose companions are computed
_TWO_BUDGETS = 2.0  # two results may each err by one budget
_PROVED = 8  # differing elements of an output that are certified
_UNCHECKED = frozenset({"random", "uninitialized"})  # traits
_CHOOSING = frozenset({"extremum", "ties"})


_CAUSES = {
    LAYOUT: Cause("depends-on-layout", "the layout of the inputs", 1.0),
    BATCH: Cause("depends-on-batch", "the other items of the batch", 1.0),
    LENGTH: Cause("depends-on-position", "the position of an element", 1.0),
    SLOPE: Cause("wrong-derivative", "a derivative that is not the slope of its function", 1.0),
}


@dataclass(frozen=True)
class TwoAnswers:
    """Two answers of the reference: ``original`` for the case, ``other`` with what the companion
    says; both as observed. ``words`` says so in a sentence. ``matters``: they differ by more than
    the tested dtype rounds, too."""

    companion: Companion
    original: tuple[Output, ...]
    other: tuple[Output, ...]
    completed: tuple[Output, ...]
    words: str
    matters: bool

    def settle(self, reference: Reference) -> None:
        """Make the right answer the reference, as far as that can be known: the certified one, or
        that of NumPy; else the companion's."""
        if reference.by_numpy:
            return
        if shapes(self.original) != shapes(self.other):
            reference.outcome = Outcome(OutcomeStatus.OK, self.completed)
            reference.outputs, reference.independent = self.other, True
            reference.tails = (None,) * len(self.other)
            return
        places = [differing(a, b) for a, b in zip(self.original, self.other, strict=True)]
        if isinstance(self.companion, Slope) and self.companion.of_traced_formula:
            self._settle_slope(reference, self.companion)
            return
        for index, found in enumerate(places):
            reference.proofs.settle(index, [int(p) for p in found[:_PROVED]])
        votes = [
            vote
            for (index, place) in reference.proofs.certificates
            if place in places[index][:_PROVED]
            for vote in [self._nearer(reference, index, place)]
        ]
        reference.independent = True
        if votes and not any(votes):
            return
        certified = set(reference.proofs.certificates)
        reference.outputs = tuple(
            replaced(
                output, self.other[index], [p for p in found if (index, int(p)) not in certified]
            )
            for index, (output, found) in enumerate(zip(reference.outputs, places, strict=True))
        )

    def _settle_slope(self, reference: Reference, slope: Slope) -> None:
        """The slope is right: a proof would be one of the formula that it contradicts."""
        reference.proofs.refuse(slope.index, slope.place)
        reference.independent = True
        reference.outputs = tuple(
            replaced(output, self.other[index], [slope.place] if index == slope.index else [])
            for index, output in enumerate(reference.outputs)
        )

    @property
    def cause(self) -> Cause:
        """What may not matter and does."""
        return _CAUSES[self.companion.relation]

    def blamed(self, judged: Judgment) -> Judgment:
        """The judgment of a failing backend that gives two answers itself."""
        verdict = judged.verdict
        if verdict.kind is VerdictKind.REDUCED_PRECISION:
            verdict = Verdict(VerdictKind.DIVERGENT)
        text = f"{judged.explanation}: {self.cause}"
        detail = judged.detail or Contradiction(self.companion.relation)
        return replace(judged, verdict=verdict, explanation=text, detail=detail)

    def _nearer(self, reference: Reference, index: int, place: int) -> bool:
        """Whether a certified element is nearer to the companion's than to the original one."""
        right, original, other = (
            flat(outputs[index])[place]
            for outputs in (reference.outputs, self.original, self.other)
        )
        if right.dtype == bool or not np.isfinite([right, original, other]).all():
            return bool(right == other or (right != right and other != other))
        return bool(abs(other - right) < abs(original - right))

    def given_by(
        self, backend: Backend, outcome: Outcome, reference: Reference, rules: Rules
    ) -> bool:
        """Whether the backend itself gives two answers, beyond twice its budget."""
        operator, direction = reference.operator, reference.direction
        again = attempt(backend, operator, self.companion.materials, direction)
        if not outcome.ok or not again.ok:
            return False
        completed = self.companion.completed(
            outcome.outputs, again.outputs, reference.materials, None
        )
        if completed is None:
            return False
        own = as_reference(reference, outcome)
        key = backend.tolerance_key or backend.name
        return _difference(completed, own, rules, reference.materials.case.dtype, key) is not None


def is_checked(case: Case, against: str, operator: Operator) -> bool:
    """Whether the companions of a case are computed although nobody is accused: of derivatives,
    whose formulas all devices share, always."""
    return (
        against == EACH
        or operator.derivative_of is not None
        or int(case.digest[8:16], 16) % ONE_CASE_IN == 0
    )


def two_answers(reference: Reference, rules: Rules) -> TwoAnswers | None:
    """The first companion of a case whose results are not those of ``reference``, which nothing
    has refined yet; None if there is none.

    Runs the operator in float64 once for each companion.
    """
    operator, materials = reference.operator, reference.materials
    if (
        not reference.outcome.ok
        or operator.traits & _UNCHECKED
        or reference.model.kind == "structure"
    ):
        return None
    chooses = reference.direction == "backward" and operator.traits & _CHOOSING
    if chooses and (operator.observe_gradients is None or materials.holds_special_values):
        return None  # which of several equal numbers, or NaN, takes the gradient is not defined
    raw = reference.outcome.outputs
    given = (operator, materials, reference.direction, raw)
    for companion in itertools.chain(slopes(*given), companions(*given)):
        completed = answer(companion, reference)
        if not completed:
            continue
        dtype, wide = materials.case.dtype, _wide_name(reference)
        judged = _difference(completed, reference, rules, wide, "cpu")
        if judged is not None:
            words = _words(judged, companion, wide)
            try:
                other = reference.observed(completed)
            except (RuntimeError, IndexError, ValueError, TypeError):
                other = completed  # of shapes that do not fit the arguments
            narrow = tuple([_labeled(output, dtype) for output in completed])
            matters = _difference(narrow, reference, rules, dtype, "cpu") is not None
            return TwoAnswers(companion, reference.outputs, other, completed, words, matters)
    return None


def difference(companion: Companion, reference: Reference, rules: Rules) -> str | None:
    """How a companion's results differ from those of the reference; empty if they do not, None if
    they cannot be computed."""
    found = answer(companion, reference)
    if not found:
        return "" if found is not None else None
    wide = _wide_name(reference)
    judged = _difference(found, reference, rules, wide, "cpu")
    return "" if judged is None else f"{judged.explanation}; {_words(judged, companion, wide)}"


def _wide_name(reference: Reference) -> str:
    """The dtype that the reference is computed in."""
    dtype = reference.materials.case.dtype
    return "complex128" if dtype in PARTS else "float64" if floats(dtype) else dtype


def answer(companion: Companion, reference: Reference) -> tuple[Output, ...] | None:
    """The case's results in float64 with what the companion says; None where it cannot be
    computed, and empty where it says the same bits."""
    again = Reference(reference.operator, companion.materials, reference.direction)
    if not again.outcome.ok or again.integers_too != reference.integers_too:
        return None
    completed = companion.completed(
        reference.outcome.outputs, again.outcome.outputs, reference.materials, "float64"
    )
    if completed is not None and same(completed, reference.outcome.outputs):
        return ()
    return completed


def _difference(
    outputs: tuple[Output, ...], reference: Reference, rules: Rules, dtype: str, backend: str
) -> Judgment | None:
    """The judgment of ``outputs`` beside those of the reference if they differ by more than twice
    the budget of ``dtype``; else None."""
    comparison = compare(Outcome(OutcomeStatus.OK, outputs), reference)
    name, family = reference.operator.ruled_by
    formats = [o.dtype for o in comparison.outputs if o.dtype in FORMATS]
    judged_as = dtype if floats(dtype) or not formats else formats[0]
    direction = reference.direction
    rule = rules.rule(name, judged_as, family=family, direction=direction, backend=backend)
    policy = rules.policy(backend, operator=name, family=family, dtype=judged_as)
    judged = judge(comparison, None, rule, policy)
    if not judged.verdict.fails:
        return None
    within = judged.metrics.get("rho_max", np.inf) <= _TWO_BUDGETS
    return None if within and _by_size(judged, comparison) else judged


def _by_size(judged: Judgment, comparison: Comparison) -> bool:
    """Whether a judgment is about the size of errors of rounded numbers."""
    exact = any(o.exact for o in comparison.outputs if o.name == judged.output)
    return judged.verdict.kind is VerdictKind.DIVERGENT and not exact


def _labeled(output: Output, dtype: str) -> Output:
    """A float64 output that is compared as if it were one of a floating-point ``dtype``."""
    own = {"float64": PARTS.get(dtype, dtype), "complex128": beside(dtype)} if floats(dtype) else {}
    return replace(output, dtype=own.get(output.dtype, output.dtype))


def _words(judged: Judgment, companion: Companion, dtype: str) -> str:
    worst = judged.worst
    answers = (
        f"{worst.expected!r} {companion.here}, {worst.actual!r} {companion.there}"
        if worst is not None
        else f"one {companion.here}, another {companion.there}"
    )
    return f"torch's {dtype} gives two answers for the same numbers: {answers}"
