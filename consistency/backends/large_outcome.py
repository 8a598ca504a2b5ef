"""One kept repetition of a large outcome, as the outcome of the small case on the same backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..core.model import Outcome
from ..generate.materialize import Adjust, Materials
from ..operators.declare import Operator
from ._folding import unfolded
from .base import Backend


class KeptRepetition(Backend):
    """Gives what ``backend`` gave in one repetition; nothing is run again."""

    is_recorded = True

    def __init__(self, backend: Backend, outcome: Outcome, position: int) -> None:
        self.name, self.device = backend.name, backend.device
        self.tolerance_key = backend.tolerance_key
        self.differentiable, self.keeps_contract = backend.differentiable, False
        self.position = position
        self._backend, self._outcome = backend, outcome

    def environment(self) -> dict[str, str]:
        return dict(self._backend.identity)

    def variants(self) -> Mapping[str, Any]:
        return {}

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        return self._outcome


def repetitions(backend: Backend, outcome: Outcome) -> list[KeptRepetition]:
    """The kept repetitions of a folded outcome, each with its position; of one that did not return,
    itself."""
    return [
        KeptRepetition(backend, replace(outcome, outputs=outputs), position)
        for position, outputs in unfolded(outcome.outputs)
    ]
