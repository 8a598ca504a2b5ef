"""What a judge says of one comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.detail import Detail
from ..core.model import Worst
from ..core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Judgment:
    """A verdict with its explanation, numbers and worst element. ``output`` is the name of the
    output.

    ``leans``: the sign bias of the errors, in standard deviations. ``at_end``: what exceeds the
    budget are the first or the last elements.
    """

    verdict: Verdict
    explanation: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    worst: Worst | None = None
    output: str = ""
    leans: float = 0.0
    detail: Detail | None = None
    at_end: bool = False
