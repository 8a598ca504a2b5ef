"""The results of a run, collected from its events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.model import Result
from ..core.text import format_seconds, pluralize
from ..diagnose.precision_scaling import Scaling
from ..errors import UsageError
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

    def __repr__(self) -> str:
        operators = {r.operator for r in self.results}
        backends = list(dict.fromkeys(r.backend for r in self.results))
        many = pluralize(len(operators), "operator") if len(operators) != 1 else min(operators)
        failing = self.failures
        worst = f", worst {failing[0]!r}" if failing else ""
        where = f"; bundle {self.out}" if self.out is not None else ""
        return (
            f"<Run of {many} on {', '.join(backends) or 'no backend'}: "
            f"{pluralize(len(self.results), 'result')}, {len(failing):,} failing{worst}; "
            f"{format_seconds(self.seconds)}{where}>"
        )

    def to_dataframe(self) -> Any:
        """The results as a pandas.DataFrame, a row for each, with its numbers as columns. Raises
        UsageError where pandas is not there."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_dataframe() needs pandas: pip install pandas") from None
        return pandas.DataFrame([_row(result) for result in self.results])


def _row(result: Result) -> dict[str, Any]:
    return {
        "operator": result.operator, "family": result.family, "dtype": result.dtype,
        "direction": result.direction, "backend": result.backend,
        "verdict": result.verdict.value, "fails": result.verdict.fails,
        "rho": result.metrics.get("rho_max", math.nan), "cause": result.cause,
        "share": result.share, "workaround": result.workaround,
        "explanation": result.explanation, "shapes": ", ".join(result.shapes),
        "case_id": result.case.id,
        **{name: value for name, value in result.metrics.items() if name != "rho_max"},
    }  # fmt: skip


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
