"""Which operators can be certified: whether elements of drawn cases are proved, and the most
frequent reason where they are not."""

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
    """Of one operator and direction: cases with something to prove, those in which all of it was,
    and why the others were not."""

    operator: str
    direction: str
    cases: int
    proved: int
    reason: str = ""

    @property
    def certified(self) -> bool:
        """Most of what is drawn is proved."""
        return 2 * self.proved > self.cases

    @property
    def asked(self) -> bool:
        return self.cases > 0


def provability(operator: Operator, direction: str, examples: int = EXAMPLES) -> Provability:
    """Draw some cases and prove some elements of each; where numbers are not defined, or random,
    nothing is to prove."""
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
    """Why not all that was asked was proved; empty where it was, None where there is nothing to
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
