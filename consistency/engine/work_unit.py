"""A work unit: cases of one operator × dtype that are judged together."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.model import Case
from ..operators.declare import Operator

NOT_BEGUN = "the time of the run was over before its first case"  # a unit's ``problem``


@dataclass(frozen=True)
class Fresh:
    """What is still to be drawn of a unit: so many ``examples``, without the cases whose ids are
    ``excluded``; ``further`` cases follow them."""

    examples: int
    excluded: tuple[str, ...] = ()
    further: tuple[Case, ...] = ()


@dataclass(frozen=True)
class WorkUnit:
    """Cases of one operator × dtype, or the ``problem`` that prevents any. ``round`` counts from 0.

    ``origin``: in a run with a corpus, whether the cases are ``replayed`` or ``explored``;
    ``seed``: what they were drawn with; ``part`` counts the rounds of a corpus; ``more``: whether
    further rounds follow for the same operator × dtype. ``fresh`` cases follow ``cases``
    (:func:`~consistency.engine.unit_cases.drawn`).
    """

    operator: Operator
    dtype: str
    cases: tuple[Case, ...]
    problem: str = ""
    round: int = 0
    origin: str = ""
    seed: int = 0
    part: int = 0
    more: bool = False
    fresh: Fresh | None = None

    @property
    def size(self) -> int:
        """The number of its cases; of those that are not drawn yet, the most there can be."""
        fresh = self.fresh
        return len(self.cases) + (fresh.examples + len(fresh.further) if fresh else 0)

    @property
    def first(self) -> bool:
        """Whether this is the run's first unit of this operator × dtype."""
        return self.round == self.part == 0

    @property
    def measured(self) -> bool:
        """Whether precision scaling and repeatability are measured with these cases: once, and not
        with the first two."""
        return self.round == 0 and (self.part == 1 or (self.part == 0 and not self.more))
