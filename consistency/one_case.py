"""One case on several backends: its results, whatever happens, and the smallest case that fails as it does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from . import evaluate, generate, opinfo
from .backends.base import Backend
from .errors import RecipeError, Untestable
from .events import Key
from .model import DIRECTIONS, Case, Result, Verdict
from .operators.declare import Operator
from .second_look import Looks
from .settings import Settings
from .tolerances import Tolerances
from .wider import EACH, spot_checked

SHRINK_SECONDS = 4.0
JUDGING_FAILED = "the harness itself failed to judge this case"
_NOT_AS_DECLARED = (LookupError, TypeError, AttributeError)  # raised by error models on calls that are written otherwise


def judge_case(
    case: Case, operator: Operator, backends: Sequence[Backend], rules: Tolerances,
    directions: Sequence[str] = DIRECTIONS, done: frozenset[Key] = frozenset(), looks: Looks | None = None,
    against: str = "float64",
) -> list[Result]:  # fmt: skip
    """Results of one case. A case that cannot be built or judged is that case's own verdict, never the end of the run."""
    judged = functools.partial(
        evaluate.evaluate, case, backends, rules, directions=directions, done=done, looks=looks, against=against
    )
    try:
        try:
            return judged(operator=operator)
        except (*_NOT_AS_DECLARED, RuntimeError):
            if not case.source:
                raise
            return judged(operator=opinfo.generically(operator))
    except Untestable as reason:
        text = str(reason)
    except RecipeError as error:
        text = f"the case cannot be built: {error}"
    except Exception as error:
        text = f"{JUDGING_FAILED} ({type(error).__name__}: {str(error)[:200]}); please report it with this case"
    verdict = Verdict("undecidable")
    results = [Result(case, b.name, d, verdict, text, family=operator.family) for d in directions for b in backends]
    return [result for result in results if result.key not in done]


def shrunk(
    suspect: Result, operator: Operator, backends: Sequence[Backend], chosen: Settings, seed: int | None = None,
    seconds: float = SHRINK_SECONDS,
) -> Result | None:  # fmt: skip
    """The smallest result with the backend, direction and verdict of ``suspect`` that Hypothesis finds in ``seconds``."""
    first = suspect.evidence.first if suspect.evidence is not None else suspect.verdict.value

    # A smaller case is another case, spot-checked or not; those of dtypes that are not spend the time on more of them.
    each = chosen.reference == "spot" and spot_checked(suspect.dtype)
    against = EACH if each else chosen.reference

    def same(case: Case) -> bool:
        again = judge_case(case, operator, backends, chosen.tolerances, (suspect.direction,), against=against)
        return any(r.verdict.value == first for r in again)

    try:
        begin = chosen.seed if seed is None else seed
        small = generate.smallest(operator, suspect.dtype, same, examples=chosen.examples, seed=begin, seconds=seconds)
    except Exception:  # the case as it was drawn is there already, and the run must go on
        return None
    if small is None:
        return None
    again = judge_case(small, operator, backends, chosen.tolerances, (suspect.direction,), looks=Looks(), against=against)
    result = next((result for result in again if result.verdict.fails), None)
    if result is None or result.verdict == suspect.verdict or suspect.evidence is None or result.evidence is None:
        return result
    # A few numbers may fit another cause by accident, or none; the larger case told more.
    cause = suspect.evidence.cause
    text = f"{result.explanation}; of {suspect.case.id}, {cause}" if cause is not None else result.explanation
    return replace(result, verdict=suspect.verdict, explanation=text, evidence=replace(result.evidence, cause=cause))
