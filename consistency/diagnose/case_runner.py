"""Results of one case on several backends; errors become results."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..backends.base import Backend
from ..core.detail import Detail, HarnessFailed
from ..core.model import DIRECTIONS, Case, Key, Result
from ..core.verdict import Verdict, VerdictKind
from ..errors import RecipeError, Untestable
from ..generate.calls import admission
from ..generate.calls.generic_error import generically
from ..judge.tolerances import Tolerances
from ..operators.declare import Operator
from . import evaluation, large_cases
from .diagnosis_budget import DiagnosisBudget

JUDGING_FAILED = "the harness itself failed to judge this case"
# Raised by error models for calls with an unexpected signature.
_NOT_AS_DECLARED = (LookupError, TypeError, AttributeError)


def judge_case(
    case: Case, operator: Operator, backends: Sequence[Backend], rules: Tolerances,
    directions: Sequence[str] = DIRECTIONS, done: frozenset[Key] = frozenset(),
    diagnosis_budget: DiagnosisBudget | None = None,
    against: str = "float64",
) -> list[Result]:  # fmt: skip
    """Results of one case. A case that cannot be built or judged is inconclusive and never ends
    the run; one from elsewhere that may not be run is not tested
    (:mod:`consistency.generate.calls.admission`)."""
    large = case.tiling is not None and case.tiling.is_large
    evaluate = functools.partial(
        large_cases.evaluate if large else evaluation.evaluate,
        case,
        backends,
        rules,
        directions=directions,
        done=done,
        diagnosis_budget=diagnosis_budget,
        against=against,
    )
    detail: Detail | None = None
    kind = VerdictKind.INCONCLUSIVE
    try:
        refused = admission.refusal(case, operator)
        if refused:
            kind = VerdictKind.UNSUPPORTED
            raise Untestable(refused)
        try:
            return evaluate(operator=operator)
        except (*_NOT_AS_DECLARED, RuntimeError):
            if not case.source:
                raise
            return evaluate(operator=generically(operator))
    except Untestable as reason:
        text = str(reason)
    except RecipeError as error:
        text = f"the case cannot be built: {error}"
    except Exception as error:
        detail = HarnessFailed()
        text = (
            f"{JUDGING_FAILED} ({type(error).__name__}: {str(error)[:200]}); please report it "
            f"with this case"
        )
    verdict = Verdict(kind)
    results = [
        Result(case, b.name, d, verdict, text, family=operator.family, detail=detail)
        for d in directions
        for b in backends
    ]
    return [result for result in results if result.key not in done]
