"""Requests to a worker, and the limits of one case."""

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
    """The limits of one case: seconds, and bytes of its worker's memory."""

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
    """Whether a process with only the registered operators would run the same function."""
    declared = operators.registry().get(operator.name)
    return by_its_case(operator) or (
        declared is not None and declared.function is operator.function
    )


def by_its_case(operator: Operator) -> bool:
    """Whether the case itself names the function: of PyTorch's database, or one that a recording
    names."""
    return operator.cases is not None or NAMED in operator.traits


def elements(case: Case) -> int:
    """How many numbers a message carries or makes the worker generate."""
    recipes = (*tensors(case.args), *tensors(case.kwargs))
    return sum(len(t.data) if isinstance(t, Literal) else math.prod(t.base) for t in recipes) + 1
