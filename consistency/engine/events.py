"""The events of a run: Started; for each work unit its Judged, Minimized, PrecisionScalingMeasured,
DeterminismChecked, MemoryGrowth and UnitDone; then Finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..core.model import Case, Key, Result
from ..diagnose.determinism import Repeatability
from ..diagnose.precision_scaling import Scaling
from ..errors import OutputError
from .config import RunConfig


@dataclass(frozen=True, slots=True)
class Started:
    """First event. ``unavailable`` maps the names of backends that cannot run to the reason;
    ``cases`` is an estimate; ``title`` describes the run if no cases are drawn; ``exhaustive`` of
    the cases are not drawn, and ``shipped`` come with the package."""

    config: RunConfig
    unavailable: dict[str, str]
    units: int
    cases: int
    title: str = ""
    exhaustive: int = 0
    shipped: int = 0


@dataclass(frozen=True, slots=True)
class Judged:
    """One case has been judged on every backend. ``fresh`` is False for results of an interrupted
    run.

    ``origin``: in a run with a corpus, whether the case was ``replayed`` or ``explored``. ``unit``
    is the number of the work unit in the plan, from 0. ``rows``: the lines that bundles store, of
    results from a worker, which has written them already; where handlers only count what passes,
    such results have no measurements (:data:`~consistency.core.model.MEASURED_ELSEWHERE`).
    """

    case: Case
    results: tuple[Result, ...]
    fresh: bool = True
    origin: str = ""
    unit: int = 0
    rows: Mapping[Key, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Minimized:
    """A smaller case with the same backend, direction and verdict as ``original`` was found."""

    original: Result
    result: Result
    unit: int = 0


@dataclass(frozen=True, slots=True)
class PrecisionScalingMeasured:
    """How the errors of one operator scale from float32 to float64 on each backend that has
    both."""

    scalings: tuple[Scaling, ...]
    unit: int = 0


@dataclass(frozen=True, slots=True)
class DeterminismChecked:
    """Whether one operator × dtype gives the same bits again, on each backend and in each way
    tried."""

    found: tuple[Repeatability, ...]


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """A backend's process retains ``bytes`` of memory with every call of ``operator``."""

    operator: str
    backend: str
    bytes: float


@dataclass(frozen=True, slots=True)
class UnitDone:
    """All cases of one operator × dtype are judged; ``cases`` were drawn and distinct."""

    operator: str
    dtype: str
    cases: int


@dataclass(frozen=True)
class ResumeState:
    """The results of an interrupted run by Result.key, which are not judged again, and its shrunk
    failures by :func:`kind`."""

    results: Mapping[Key, Result] = field(default_factory=dict)
    shrunk: Mapping[tuple[str, ...], Result] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event: wall-clock seconds, and whether the time budget ended the run."""

    seconds: float
    out_of_time: bool


Event = (
    Started
    | Judged
    | Minimized
    | PrecisionScalingMeasured
    | DeterminismChecked
    | MemoryGrowth
    | UnitDone
    | Finished
)
Handler = Callable[[Event], None]


def dispatch(event: Event, handlers: Sequence[Handler]) -> None:
    """Pass an event to every handler. Where one cannot write, the others still get the event; then
    the first OutputError is raised. Other exceptions end it at once, and so does a beginning that
    fails."""
    failed: OutputError | None = None
    for handler in handlers:
        try:
            handler(event)
        except OutputError as error:
            if isinstance(event, Started):
                raise
            failed = failed or error
    if failed is not None:
        raise failed


def numbered(event: Event, unit: int) -> Event:
    """The event with the number of its work unit, if it holds results."""
    if isinstance(event, (Judged, Minimized, PrecisionScalingMeasured)):
        return replace(event, unit=unit)
    return event
