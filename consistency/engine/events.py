"""What a run tells: Started, per operator × dtype its Judged, Shrunk, Scaled, Repeated, Grown and
GroupDone, then Finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..core.model import Case, Key, Result
from ..diagnose.determinism import Repeatability
from ..diagnose.precision_scaling import Scaling
from .config import Settings


@dataclass(frozen=True, slots=True)
class Started:
    """First event. ``unavailable`` maps the names of backends that cannot run here to the reason;
    ``cases`` is an estimate.

    ``title`` says what is done where no cases are drawn.
    """

    settings: Settings
    unavailable: dict[str, str]
    groups: int
    cases: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """One case has been judged on every backend. ``fresh`` is False for results taken over from an
    interrupted run.

    ``origin``: in a run with a corpus, whether the case was ``replayed`` from it or ``explored``.
    """

    case: Case
    results: tuple[Result, ...]
    fresh: bool = True
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller case with the same backend, direction and verdict as ``original`` was found."""

    original: Result
    result: Result


@dataclass(frozen=True, slots=True)
class Scaled:
    """How the errors of one operator scale from float32 to float64 on each backend that has
    both."""

    scalings: tuple[Scaling, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """Whether one operator × dtype gives the same bits again, on each backend and in each way that
    was tried."""

    found: tuple[Repeatability, ...]


@dataclass(frozen=True, slots=True)
class Grown:
    """A backend's process keeps ``bytes`` of memory on every call of ``operator``."""

    operator: str
    backend: str
    bytes: float


@dataclass(frozen=True, slots=True)
class GroupDone:
    """All cases of one operator × dtype are through; ``cases`` were distinct."""

    operator: str
    dtype: str
    cases: int


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run left: results by Result.key, which are not judged again, and shrunk
    failures by :func:`kind`."""

    results: Mapping[Key, Result] = field(default_factory=dict)
    shrunk: Mapping[tuple[str, ...], Result] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event: wall-clock seconds, and whether the time budget ended the run."""

    seconds: float
    out_of_time: bool


Event = Started | Judged | Shrunk | Scaled | Repeated | Grown | GroupDone | Finished
Handler = Callable[[Event], None]
