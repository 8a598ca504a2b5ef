"""The results of a run, collected from its events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.model import Result
from ..diagnose.precision_scaling import Scaling
from .config import RunConfig
from .events import Event, Finished, Judged, Minimized, PrecisionScalingMeasured


@dataclass(frozen=True)
class Run:
    """All results of one run, in order; ``out`` is the bundle's folder if one was written.

    ``scalings``: how float32 and float64 errors compare, per operator and backend.
    """

    results: tuple[Result, ...]
    config: RunConfig
    seconds: float
    out: Path | None = None
    scalings: tuple[Scaling, ...] = ()

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results whose verdict fails, largest × budget first."""
        failing = [r for r in self.results if r.verdict.fails]
        return tuple(sorted(failing, key=lambda r: -r.metrics.get("rho_max", 0.0)))


class Collect:
    """A handler that keeps every result, in the order of the plan whichever executor judged them:
    by work unit, with the minimized failures last."""

    def __init__(self) -> None:
        self._results: list[tuple[int, Result]] = []
        self._scalings: list[tuple[int, Scaling]] = []
        self.seconds = 0.0

    @property
    def results(self) -> list[Result]:
        return [result for _, result in self._results]

    @property
    def scalings(self) -> list[Scaling]:
        return [scaling for _, scaling in self._scalings]

    def __call__(self, event: Event) -> None:
        match event:
            case Judged():
                self._results += [(event.unit, result) for result in event.results]
            case Minimized():
                self._results.append((event.unit, event.result))
            case PrecisionScalingMeasured():
                self._scalings += [(event.unit, scaling) for scaling in event.scalings]
            case Finished():
                self.seconds = event.seconds
                self._results.sort(key=lambda pair: pair[0])
                self._scalings.sort(key=lambda pair: pair[0])
