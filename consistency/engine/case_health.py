"""The quality of an operator's drawn cases: valid, informative, distinct, and quick to draw."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from .. import operators
from ..backends.cpu import Cpu
from ..core.model import Case, Outcome
from ..core.recipe import TensorRecipe, tensors
from ..diagnose.evaluation import differentiates
from ..generate import search
from ..generate.materialize import prepare
from ..judge.compare import compare
from ..operators.declare import Operator
from ..reference import Reference, quiet

VALID, INCONCLUSIVE = (
    0.98,
    0.05,
)  # least share of valid draws; largest share of inconclusive ordinary ones
EXAMPLES = 60
SPECIAL_CLASSES = frozenset({"tokens", "near", "subnormal", "sparse"})


@dataclass
class Health:
    """One operator in one dtype. ``valid`` draws run on the CPU in that dtype and in float64;
    ``ordinary`` ones are valid, without special values and not empty. ``blind`` counts the ordinary
    draws that are inconclusive in both directions, with ``reasons``; ``blind_backward`` those with
    inconclusive gradients, which may be normal: the gradient of a sum is constant. ``seconds`` is
    the time of one draw."""

    operator: str
    dtype: str
    drawn: int = 0
    distinct: int = 0
    valid: int = 0
    ordinary: int = 0
    blind: int = 0
    blind_backward: int = 0
    seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)
    invalid: str = ""

    @property
    def valid_share(self) -> float:
        """The share of valid draws."""
        return self.valid / self.drawn if self.drawn else 1.0

    @property
    def blind_share(self) -> float:
        """The share of ordinary draws that are inconclusive."""
        return self.blind / self.ordinary if self.ordinary else 0.0

    @property
    def good(self) -> bool:
        """Whether both limits hold, within three standard deviations for so few draws."""
        chance = 3.0 * math.sqrt(INCONCLUSIVE * self.ordinary)
        return self.valid_share >= VALID and self.blind <= INCONCLUSIVE * self.ordinary + chance

    def to_json(self) -> dict[str, Any]:
        """All numbers and shares."""
        return asdict(self) | {
            "valid_share": self.valid_share,
            "blind_share": self.blind_share,
            "good": self.good,
        }


def examine(operator: Operator, dtype: str, examples: int = EXAMPLES, seed: int = 0) -> Health:
    """Draw ``examples`` cases, run them on the CPU, and count. An operator that this torch lacks
    has no draws."""
    health = Health(operator.name, dtype)
    if operator.callable is None:
        return health
    started = time.perf_counter()
    cases = search.batch(operator, dtype, examples, seed)
    health.seconds = (time.perf_counter() - started) / max(len(cases), 1)
    health.drawn, health.distinct = len(cases), len({search.plan(case) for case in cases})
    with quiet():
        for case in cases:
            _examine_case(operator, case, health)
    return health


def _examine_case(operator: Operator, case: Case, health: Health) -> None:
    materials, cpu = prepare(case), Cpu()
    outcome = cpu.run(operator, materials)
    reference = Reference(operator, materials, "forward")
    for checked in (outcome, reference.outcome):
        if not checked.ok:
            health.invalid = (
                health.invalid or f"{checked.exception}: {checked.message} in {case.line}"
            )
            return
    health.valid += 1
    if not ordinary(case) or operator.error.kind == "structure":
        return
    why = _why_inconclusive(outcome, reference)
    if why.startswith("empty output"):
        return
    health.ordinary += 1
    back = ""
    if differentiates(operator, case.dtype):
        back = _why_inconclusive(
            cpu.run(operator, materials, "backward"), Reference(operator, materials, "backward")
        )
        health.blind_backward += bool(back)
    if why and (back or not differentiates(operator, case.dtype)):
        health.blind += 1
        health.reasons[why] += 1


def _why_inconclusive(outcome: Outcome, reference: Reference) -> str:
    """Why every output is inconclusive; empty if one is not."""
    measured = compare(outcome, reference).outputs
    if not measured or any(not output.vacuous for output in measured):
        return ""
    reasons = [output.vacuous for output in measured]
    return "mostly zeros, or not finite" if "elements are zero" in reasons[0] else reasons[0]


def ordinary(case: Case) -> bool:
    """Whether the case has neither special values nor empty tensors, and no fraction among its
    arguments that is zero, infinite or NaN, so that its numbers should be informative."""
    for tensor in (*tensors(case.args), *tensors(case.kwargs)):
        if not isinstance(tensor, TensorRecipe):
            continue
        unusual = (
            tensor.values[0] in SPECIAL_CLASSES and tensor.dtype != "bool"
        )  # a mask may well be sparse
        if tensor.special or unusual or 0 in tensor.base:
            return False
    numbers = (arg for arg in (*case.args, *case.kwargs.values()) if isinstance(arg, float))
    return all(number != 0.0 and math.isfinite(number) for number in numbers)


def examined(
    chosen: Iterable[Operator] | None = None,
    dtypes: Iterable[str] | None = None,
    examples: int = EXAMPLES,
) -> Iterator[Health]:
    """The health of every operator: in ``dtypes``, or in its first dtype."""
    requested = tuple(dtypes) if dtypes is not None else None
    for operator in chosen if chosen is not None else operators.registry().values():
        for dtype in (
            operator.dtypes[:1]
            if requested is None
            else [name for name in requested if name in operator.dtypes]
        ):
            yield examine(operator, dtype, examples)
