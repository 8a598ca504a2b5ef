"""Queries to a backend that a user may have written: an exception counts as an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.model import Outcome
from ..core.verdict import OutcomeStatus
from ..generate.materialize import Materials
from ..operators.declare import Operator
from ._messages import text_of, told

if TYPE_CHECKING:
    from .base import Backend


def availability(backend: Backend) -> str | None:
    """``backend.why_unavailable()``; an exception counts as a reason."""
    try:
        reason = backend.why_unavailable()
        return None if reason is None else text_of(reason)
    except Exception as error:
        return f"why_unavailable() raised {told(error)}"


def prepared(backend: Backend) -> str | None:
    """Why this backend cannot be used; None once it is prepared.

    Only then is ``backend.device`` a device: some exist once their module is imported, and which
    of several adapters is meant is known to that module.
    """
    reason = availability(backend)
    if reason is not None:
        return reason
    try:
        backend.prepare()
    except Exception as error:
        return f"prepare() raised {told(error)}"
    return availability(backend)


def refusal(backend: Backend, operator: Operator, dtype: str, direction: str) -> str | None:
    """``backend.unsupported(...)``; an exception counts as a reason."""
    try:
        reason = backend.unsupported(operator, dtype, direction)
        return None if reason is None else text_of(reason)
    except Exception as error:
        return f"unsupported() raised {told(error)}"


def attempt(backend: Backend, operator: Operator, materials: Materials, direction: str) -> Outcome:
    """``backend.run(...)`` unless it refuses, with the changes to global state that are to be told.

    Raises RecipeError.
    """
    reason = refusal(backend, operator, materials.case.dtype, direction)
    outcome = (
        Outcome(OutcomeStatus.UNSUPPORTED, message=reason)
        if reason
        else backend.run(operator, materials, direction)
    )
    changes = backend.state_changes.take()
    return replace(outcome, state_changes=changes) if changes else outcome
