"""What a comparison of models found: frozen values, for people, pages and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.model import Result
from ..core.text import format_factor
from .preflight import Mistake

WITHIN = "within the band"


@dataclass(frozen=True, slots=True)
class FailedCall:
    """An operator that leaves its budget on the inputs that it really got: the ``call``-th of the
    model, in ``step``.

    ``rho`` is its error × budget, ``result`` the judge's, which :func:`consistency.save` keeps.
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
    """One layer (or parameter): the largest distances from float64 over all steps, × the band; None
    where there was nothing.

    ``first`` is the first step in which one of them is above 1, or 0.
    """

    name: str
    output: float | None = None
    gradient: float | None = None
    parameter_gradient: float | None = None
    buffer: float | None = None
    optimizer_state: float | None = None
    parameter: float | None = None
    first: int = 0

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
    """One quantity over the steps: the distance from float64, and the band: what rounding alone
    would do."""

    name: str
    steps: tuple[int, ...]
    distance: tuple[float, ...]
    band: tuple[float, ...]
    values: tuple[float, ...] = ()  # of the loss: itself
    reference: tuple[float, ...] = ()

    @property
    def leaves(self) -> int:
        """The first step at which it lies outside of the band, or 0."""
        return next(
            (s for s, d, b in zip(self.steps, self.distance, self.band, strict=True) if d > b), 0
        )


@dataclass(frozen=True)
class BackendReport:
    """What was found on one backend. ``absent`` says why it could not be used; then there is
    nothing else.

    ``step`` is the first at which something leaves (0: nothing does). ``layer`` is the first layer
    that leaves the band, and what of it, ``first`` the first operator that leaves its budget
    locally, ``failures`` all of those that were kept. ``raised``: what was raised there and not in
    float64; ``lost``: how the process that it computed in ended. ``remeasured``: its band has
    replicas that were moved farther, because no operator was to blame for what left the first one.
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
    """What :func:`consistency.compare_models` returns; ``print`` says it in words."""

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
        """That of the first backend that leaves the band, or ``within the band``; ``not tested``
        where no backend could be used."""
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
        """Everything but the tensors, for ``--json``."""
        from .text import report_json

        return report_json(self)

    def __str__(self) -> str:
        from .text import report_text

        return report_text(self)
