"""A result: one case on one backend in one direction, judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ..detail import Detail
from ..text import MAX_REPR, one_line
from ..verdict import Verdict
from .case import Case
from .comparison import Comparison, Worst
from .evidence import Evidence, Known, Proof

DIRECTIONS = ("forward", "backward")
Key = tuple[str, str, str]  # of a result: case, backend, direction


@dataclass(frozen=True, slots=True)
class Result:
    """One case × one backend × one direction, judged.

    ``metrics`` maps names to numbers: ``rho_max`` (× budget), ``ulp_max``, ``scaled_max`` (×
    G·u·S), ``rmse_ratio`` (to the CPU in the same dtype) and others. ``worst`` names the worst
    element, where there is one. ``recorded_id`` is the recording's own id of an outcome that was
    recorded elsewhere. ``known``: where the verdict is ``known``, by which entry. ``proof`` is
    what was certified of the worst element, where the result fails by its numbers. ``detail`` holds
    as data what ``explanation`` says beside the numbers; the sentence itself is for people only.
    """

    case: Case
    backend: str
    direction: str
    verdict: Verdict
    explanation: str
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    family: str = ""
    worst: Worst | None = None
    output: str = ""
    shapes: tuple[str, ...] = ()
    comparison: Comparison | None = None
    sha256: str = ""
    evidence: Evidence | None = None
    recorded_id: str = ""
    known: Known | None = None
    proof: Proof | None = None
    detail: Detail | None = None

    def __repr__(self) -> str:
        where = f"{self.operator} {self.dtype} {self.direction} on {self.backend}"
        told = self.explanation.removeprefix(self.verdict.value).lstrip(": ")
        return one_line(f"<Result {where}: {self.verdict.value}, {told}>", MAX_REPR)

    @property
    def cause(self) -> str:
        """The id of the fault that explains a failure, such as ``tf32-inputs``, or the stage
        (``translation``, ``runtime``) at which it arises; empty if neither was found."""
        if self.evidence is None:
            return ""
        if self.evidence.cause is not None:
            return self.evidence.cause.name
        return self.evidence.origin.stage if self.evidence.origin is not None else ""

    @property
    def share(self) -> float:
        """How much of the error the cause explains, 0 … 1."""
        return (
            self.evidence.cause.share
            if self.evidence is not None and self.evidence.cause is not None
            else 0.0
        )

    @property
    def workaround(self) -> str:
        """The change that made the divergence vanish; empty if none did."""
        trials = self.evidence.trials if self.evidence is not None else {}
        return next((words for words, rho in trials.items() if rho <= 1.0), "")

    @property
    def operator(self) -> str:
        return self.case.operator

    @property
    def dtype(self) -> str:
        return self.case.dtype

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of a result within a run: case, backend, direction."""
        return (self.case.id, self.backend, self.direction)


def kind(result: Result) -> tuple[str, ...]:
    """The kind of a failure: similar failures share it, and one example of each is enough for a
    person."""
    return (result.operator, result.dtype, result.direction, result.backend, result.verdict.value)
