"""Results of a model comparison as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.model import Result
from ..core.text import MAX_REPR, format_factor, one_line
from ..report.notebook import card
from .preflight import Mistake

WITHIN = "within the band"


@dataclass(frozen=True, slots=True)
class FailedCall:
    """An operator that exceeds its budget on its actual inputs: the ``call``-th call of the model,
    in ``step``.

    ``rho`` is its error × budget, ``result`` the judge's result, for :func:`consistency.save`.
    """

    operator: str
    module: str
    call: int
    step: int
    rho: float
    result: Result

    def __str__(self) -> str:
        where = f" in {self.module}" if self.module else " outside of every module"
        return f"{self.operator}{where} (call {self.call:,}, {self.size})"

    @property
    def size(self) -> str:
        if self.rho <= 1.0 or self.rho == float("inf"):
            return self.result.verdict.value
        return f"{format_factor(self.rho)} × budget"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer (or parameter): the largest distances from float64 over all steps, as multiples of
    the band; None if not computed.

    ``first`` is the first step with a distance above 1, or 0. ``by_step`` holds the largest of all
    distances in each step.
    """

    name: str
    output: float | None = None
    gradient: float | None = None
    parameter_gradient: float | None = None
    buffer: float | None = None
    optimizer_state: float | None = None
    parameter: float | None = None
    first: int = 0
    by_step: tuple[tuple[int, float], ...] = ()

    @property
    def worst(self) -> float:
        values = (
            self.output,
            self.gradient,
            self.parameter_gradient,
            self.buffer,
            self.optimizer_state,
            self.parameter,
        )
        return max((v for v in values if v is not None), default=0.0)


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity over the steps: the distance from float64, and the band of rounding."""

    name: str
    steps: tuple[int, ...]
    distance: tuple[float, ...]
    band: tuple[float, ...]
    values: tuple[float, ...] = ()  # of the loss: itself
    reference: tuple[float, ...] = ()

    @property
    def leaves(self) -> int:
        """The first step outside the band, or 0."""
        return next(
            (s for s, d, b in zip(self.steps, self.distance, self.band, strict=True) if d > b), 0
        )


@dataclass(frozen=True)
class BackendReport:
    """The results for one backend. ``absent`` is why it could not be used; then there is nothing
    else.

    ``step`` is the first that leaves the band or a budget (0: none). ``layer`` is the first layer
    that leaves the band, with the quantity; ``first`` is the first operator that exceeds its budget
    locally, ``failures`` are all that were kept. ``raised``: an exception that float64 did not
    raise; ``lost``: how its process ended. ``remeasured``: the band includes replicas with a larger
    perturbation, because no operator was to blame for leaving the first band.
    """

    name: str
    absent: str = ""
    verdict: str = WITHIN
    step: int = 0
    layer: str = ""
    first: FailedCall | None = None
    failures: tuple[FailedCall, ...] = ()
    layers: tuple[Layer, ...] = ()
    curves: tuple[Curve, ...] = ()
    calls: int = 0
    looked_at: int = 0
    judged: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    raised: str = ""
    lost: str = ""
    remeasured: bool = False
    seconds: float = 0.0

    @property
    def fails(self) -> bool:
        return not self.absent and self.verdict != WITHIN


@dataclass(frozen=True)
class ModelReport:
    """The return value of :func:`consistency.compare_models`; ``print`` shows it in words."""

    name: str
    steps: int
    replicas: int
    backends: Mapping[str, BackendReport]
    mistakes: tuple[Mistake, ...] = ()
    notes: tuple[str, ...] = ()
    parameters: int = 0

    @property
    def tested(self) -> tuple[BackendReport, ...]:
        return tuple(backend for backend in self.backends.values() if not backend.absent)

    @property
    def failures(self) -> tuple[BackendReport, ...]:
        return tuple(backend for backend in self.backends.values() if backend.fails)

    @property
    def verdict(self) -> str:
        """The verdict of the first failing backend, or ``within the band``; ``not tested`` if no
        backend could be used."""
        if not self.tested:
            return "not tested"
        return next((backend.verdict for backend in self.failures), WITHIN)

    @property
    def layers(self) -> Mapping[str, tuple[Layer, ...]]:
        return {name: backend.layers for name, backend in self.backends.items()}

    @property
    def curves(self) -> Mapping[str, tuple[Curve, ...]]:
        return {name: backend.curves for name, backend in self.backends.items()}

    def to_json(self) -> dict[str, Any]:
        """Everything except the tensors, for ``--json``."""
        from .text import report_json

        return report_json(self)

    def __repr__(self) -> str:
        where = ", ".join(f"{one.name} {one.verdict}" for one in self.tested) or "no backend"
        return one_line(f"<ModelReport {self.name}: {where}>", MAX_REPR)

    def _repr_html_(self) -> str:
        lines = str(self).splitlines()
        return card(bool(self.failures), lines[0], lines[1:])

    def __str__(self) -> str:
        from .text import report_text

        return report_text(self)
