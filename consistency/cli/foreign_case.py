"""In a process with bounds: whether its case is run, and what is told if it ends the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..generate.calls import admission
from .supervision import note

if TYPE_CHECKING:
    from ..core.model import Case
    from ..operators.declare import Operator


def note_case(case: Case) -> None:
    """Say which case runs from now on."""
    note(admission.title(case))


def admit(case: Case, operator: Operator) -> None:
    """Raises UsageError with one line for a case that is not run here."""
    note_case(case)
    admission.check(case, operator)
