"""Questions to a backend that a user may have written: an exception is an answer, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operators.declare import Operator
from ._outputs import told

if TYPE_CHECKING:
    from .base import Backend


def availability(backend: Backend) -> str | None:
    """``backend.why_unavailable()``, also where a user's own raises: that is a reason, too."""
    try:
        reason = backend.why_unavailable()
        return None if reason is None else str(reason)
    except Exception as error:
        return f"why_unavailable() raised {told(error)}"


def refusal(backend: Backend, operator: Operator, dtype: str, direction: str) -> str | None:
    """``backend.unsupported(...)``, also where a user's own raises."""
    try:
        reason = backend.unsupported(operator, dtype, direction)
        return None if reason is None else str(reason)
    except Exception as error:
        return f"unsupported() raised {told(error)}"
