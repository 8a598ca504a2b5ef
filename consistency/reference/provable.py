"""Which operators can be certified: whether elements of sampled cases can be proved, and the most
frequent reason why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ..core.dtypes import floats
from ..core.model import Case
from ..generate.materialize import prepare
from ..generate.search import batch
from ..operators.declare import Operator
from . import Reference, quiet
from .proofs import spots

EXAMPLES = 5
ELEMENTS = 3  # of every output
_KINDS = ("float64", "complex128", "int64", "bool")


@dataclass(frozen=True)
class Provability:
    """For one operator and direction: the number of cases with elements to prove, the number in
    which all were proved, and the most frequent reason for the others."""

    operator: str
    direction: str
    cases: int
    proved: int
    reason: str = ""

    @property
    def certified(self) -> bool:
        """Whether the elements of most cases were proved."""
        return 2 * self.proved > self.cases

    @property
    def asked(self) -> bool:
        return self.cases > 0


def provability(operator: Operator, direction: str, examples: int = EXAMPLES) -> Provability:
    """Draw some cases and prove some elements of each; operators with random or undefined values
    have nothing to prove."""
    if (
        operator.callable is None
        or "random" in operator.traits
        or operator.error.kind == "structure"
    ):
        return Provability(operator.name, direction, 0, 0, "no numbers are defined")
    cases = proved = 0
    reasons: Counter[str] = Counter()
    for case in _draw_cases(operator, direction, examples):
        answer = _failure_reason(operator, case, direction)
        if answer is None:
            continue
        cases, proved = cases + 1, proved + (not answer)
        reasons[answer] += bool(answer)
    return Provability(
        operator.name,
        direction,
        cases,
        proved,
        reasons.most_common(1)[0][0] if cases > proved else "",
    )


def _draw_cases(operator: Operator, direction: str, examples: int) -> Iterator[Case]:
    fitting = [
        d
        for d in operator.dtypes
        if direction == "forward" or (floats(d) and operator.differentiable)
    ]
    for dtype in [d for d in fitting if d in _KINDS] or fitting[:1]:
        yield from batch(operator, dtype, examples)


def _failure_reason(operator: Operator, case: Case, direction: str) -> str | None:
    """Why not all requested elements were proved: empty if they were, None if there is nothing to
    prove."""
    with quiet():
        reference = Reference(operator, prepare(case), direction)
        if not reference.outcome.ok:
            return None
        has_elements = False
        for index, output in enumerate(reference.outputs):
            if output.tensor is None and output.value is not None:
                has_elements = True
                if not reference.proofs.traced():
                    return reference.proofs.reason
            if output.tensor is None or not output.tensor.numel():
                continue
            has_elements = True
            places = spots(case.digest, index, output.tensor.numel(), ELEMENTS)
            reference.proofs.settle(index, places)
            if reference.proofs.count(index) < len(places):
                return reference.proofs.reason or "balls that stay too wide"
    return "" if has_elements else None
