"""Queries to a backend that a user may have written: an exception counts as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operators.declare import Operator
from ._outputs import text_of, told

if TYPE_CHECKING:
    from .base import Backend


def availability(backend: Backend) -> str | None:
    """``backend.why_unavailable()``; an exception counts as a reason."""
    try:
        reason = backend.why_unavailable()
        return None if reason is None else text_of(reason)
    except Exception as error:
        return f"why_unavailable() raised {told(error)}"


def refusal(backend: Backend, operator: Operator, dtype: str, direction: str) -> str | None:
    """``backend.unsupported(...)``; an exception counts as a reason."""
    try:
        reason = backend.unsupported(operator, dtype, direction)
        return None if reason is None else text_of(reason)
    except Exception as error:
        return f"unsupported() raised {told(error)}"
