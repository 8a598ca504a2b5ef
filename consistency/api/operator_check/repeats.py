"""The same call again and again: a race, memory that is read before it is written, atomics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.model import Case, Result
from ...diagnose.determinism import largest_difference
from ...generate.materialize import prepare
from ...operators.declare import Operator
from ...reference import quiet
from .kernel_backend import KernelBackend, StoredOutcome
from .report import is_fault

REPEATS = 20


@dataclass(frozen=True)
class Repeated:
    """Of ``repeats`` calls, how many gave other bits than the first, by at most ``ulp``; the
    failing answers among them as results."""

    words: str
    direction: str
    repeats: int
    differing: int
    ulp: float
    wrong: tuple[Result, ...]


def repeated(
    case: Case,
    words: str,
    direction: str,
    operator: Operator,
    backend: KernelBackend,
    judge: Callable[[StoredOutcome], Result],
) -> Repeated | None:
    """The repetitions of one case; None where it does not run."""
    materials = prepare(case)
    with quiet():
        outcomes = [backend.run(operator, materials, direction) for _ in range(REPEATS)]
    if not outcomes[0].ok:
        return None
    distinct, differing, largest = [outcomes[0]], 0, 0.0
    for outcome in outcomes[1:]:
        difference = largest_difference(outcomes[0], outcome)
        differing += difference > 0.0
        largest = max(largest, difference)
        if all(largest_difference(other, outcome) > 0.0 for other in distinct):
            distinct.append(outcome)
    if not differing:
        return Repeated(words, direction, REPEATS, 0, 0.0, ())
    results = [judge(StoredOutcome(backend.name, outcome)) for outcome in distinct[:6]]
    wrong = tuple(result for result in results if is_fault(result))
    return Repeated(words, direction, REPEATS, differing, largest, wrong)
