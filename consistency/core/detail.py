"""Details of a judgment besides its verdict and numbers, as data from which sentences are rendered.

No sentence is parsed: scripts, shrinking, pages and exit statuses use these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModifiedInput:
    """The input at ``position`` came back changed, although the operator does not write to it."""

    position: int


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The backend left global state of its process changed: ``states`` names it."""

    states: str


@dataclass(frozen=True, slots=True)
class BrokenContract:
    """Something beside the numbers is not as on the CPU: ``kind`` is ``identity`` (another object
    than the argument is returned), ``aliasing`` (a copy instead of a view, or the reverse),
    ``strides`` (of a view), ``documented-strides`` and ``stated-strides`` (of a result with memory
    of its own, promised by torch's documentation or only by its shape functions), ``gradient``
    (what tracks gradients), ``written`` (an argument that is not the operator's to write) or
    ``version`` (a write that autograd does not notice). ``output`` is the return value and
    ``position`` the argument that it is about, where it is about one."""

    kind: str
    output: str
    position: int


@dataclass(frozen=True, slots=True)
class Nondeterministic:
    """Another call gave other bits: ``kind`` is ``runs``, ``threads`` (another number of threads)
    or ``batch`` (a single row)."""

    kind: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer came within ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class PrecisionScaling:
    """Errors do not shrink from float32 to float64 as rounding does: ``direction`` is ``case``
    (float64 errs about as much in single cases), ``float64`` (its mean error is too large) or
    ``float32`` (the float32 path is degraded)."""

    direction: str


@dataclass(frozen=True, slots=True)
class BeyondStatistics:
    """Every element is within budget, but their errors together are not rounding: ``statistic``
    names the one that is too large."""

    statistic: str


@dataclass(frozen=True, slots=True)
class ReferenceRaised:
    """The backend returned a result where the reference raised."""


@dataclass(frozen=True, slots=True)
class ReferenceWrong:
    """float64 on the CPU is proved wrong here."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The backend gives two answers for the same numbers: ``relation`` is what may not matter and
    does, ``layout``, ``batch`` or ``length``."""

    relation: str


@dataclass(frozen=True, slots=True)
class Unproved:
    """The backend and float64 on the CPU disagree, and neither is proved."""


@dataclass(frozen=True, slots=True)
class HarnessFailed:
    """The harness itself failed to judge the case."""


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The time of the run was over before the first case of an operator × dtype."""


Detail = (
    ModifiedInput
    | StateChanged
    | BrokenContract
    | Nondeterministic
    | TimedOut
    | PrecisionScaling
    | BeyondStatistics
    | ReferenceRaised
    | ReferenceWrong
    | Contradiction
    | Unproved
    | HarnessFailed
    | NotBegun
)
_FIELDS: Mapping[type[Detail], Mapping[str, type]] = {
    ModifiedInput: {"position": int},
    StateChanged: {"states": str},
    BrokenContract: {"kind": str, "output": str, "position": int},
    Nondeterministic: {"kind": str},
    TimedOut: {"seconds": float},
    PrecisionScaling: {"direction": str},
    BeyondStatistics: {"statistic": str},
    ReferenceRaised: {},
    ReferenceWrong: {},
    Contradiction: {"relation": str},
    Unproved: {},
    HarnessFailed: {},
    NotBegun: {},
}
_NAMES = {kind.__name__: kind for kind in _FIELDS}
MAX_TEXT = 400  # characters of a text that comes from a file


def detail_to_json(detail: Detail) -> dict[str, Any]:
    """``{"name": "TimedOut", "seconds": 30.0}``."""
    return {"name": type(detail).__name__, **asdict(detail)}


def detail_from_json(data: Any) -> Detail:
    """The detail that parsed JSON describes. Raises KeyError, TypeError or ValueError for invalid
    data."""
    kind = _NAMES[data["name"]]
    values: dict[str, Any] = {}
    for name, form in _FIELDS[kind].items():
        value = form(data[name])
        if not isinstance(value, str) and not 0.0 <= value < 1e300:
            raise ValueError(f"{name} of a detail is {value}")
        values[name] = value[:MAX_TEXT] if isinstance(value, str) else value
    return kind(**values)
