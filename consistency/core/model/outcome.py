"""What a backend returned or raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..contract import Contract
from ..verdict import OutcomeStatus

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Output:
    """One returned tensor: ``out/0`` (a return value), ``arg/0`` (an argument written in place) or
    ``grad/0``.

    ``tensor`` is on the CPU; None for a gradient that is None or a return value that is not a
    tensor (``value``).
    """

    name: str
    tensor: torch.Tensor | None
    dtype: str = ""
    device: str = "cpu"
    value: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a backend did with a case: ``status`` is ``ok``, ``raised``, or a verdict of its own
    such as ``fallback``.

    ``unsteady`` describes other runs of the same call that ended differently; empty if none are
    known. ``state_changes`` says which global state of its process the backend changed
    (``torch.get_default_dtype(): torch.float32 → torch.float64``). ``contract`` is None where it
    was not observed: nothing is compared then.
    """

    status: OutcomeStatus
    outputs: tuple[Output, ...] = ()
    exception: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    modified: tuple[int, ...] = ()
    seconds: float = 0.0
    unsteady: str = ""
    state_changes: tuple[str, ...] = ()
    contract: Contract | None = None

    @property
    def ok(self) -> bool:
        """Whether the call returned, on the backend itself."""
        return self.status == OutcomeStatus.OK
