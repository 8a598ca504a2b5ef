"""What a worker is asked, and what one case may take of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ... import operators
from ...core.model import Case
from ...core.recipe import Literal, tensors
from ...generate.calls.torch_functions import NAMED
from ...operators.declare import Operator
from . import framing

CASE_SECONDS = 30.0


@dataclass(frozen=True)
class Limits:
    """What one case may take: seconds, and bytes of its worker's memory."""

    seconds: float = CASE_SECONDS
    memory: int = 0

    @property
    def most_bytes(self) -> int:
        """The limit on memory; without one, three quarters of the machine's."""
        if self.memory:
            return self.memory
        import psutil

        return int(psutil.virtual_memory().total * 0.75)


@dataclass(frozen=True)
class CaseRequest:
    """One message; ``key``: digest of the case, direction, dtype, variant, formulation."""

    operator: str
    header: framing.Header
    blobs: Sequence[bytes]
    key: tuple[str, ...]


def known_there(operator: Operator) -> bool:
    """Whether a process that knows only registered operators runs the same one."""
    declared = operators.registry().get(operator.name)
    return by_its_case(operator) or (
        declared is not None and declared.function is operator.function
    )


def by_its_case(operator: Operator) -> bool:
    """Whether what is called is said by the case: of PyTorch's database, or a function that a
    recording names."""
    return operator.cases is not None or NAMED in operator.traits


def elements(case: Case) -> int:
    """How many numbers a message carries, or has made there."""
    recipes = (*tensors(case.args), *tensors(case.kwargs))
    return sum(len(t.data) if isinstance(t, Literal) else math.prod(t.base) for t in recipes) + 1
