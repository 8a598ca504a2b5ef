"""What a run comes to: its results, collected from the events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.model import Result
from ..diagnose.precision_scaling import Scaling
from .config import Settings
from .events import Event, Finished, Judged, Scaled, Shrunk


@dataclass(frozen=True)
class Run:
    """All results of one invocation, in order; ``out`` is the bundle's folder, where one was
    written.

    ``scalings``: how float32 and float64 errors compare, per operator and backend.
    """

    results: tuple[Result, ...]
    settings: Settings
    seconds: float
    out: Path | None = None
    scalings: tuple[Scaling, ...] = ()

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results whose verdict fails, the worst × budget first."""
        failing = [r for r in self.results if r.verdict.fails]
        return tuple(sorted(failing, key=lambda r: -r.metrics.get("rho_max", 0.0)))


class Collect:
    """A handler that keeps every result, with the shrunk form of a failure right behind its
    original."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.seconds = 0.0
        self.scalings: list[Scaling] = []

    def __call__(self, event: Event) -> None:
        match event:
            case Judged():
                self.results += event.results
            case Shrunk():
                self.results.append(event.result)
            case Scaled():
                self.scalings += event.scalings
            case Finished():
                self.seconds = event.seconds
