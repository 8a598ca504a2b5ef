"""The operator whose error model a user's function is judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import operators
from ..errors import UsageError
from ..generate.calls.generic_error import longest_dimension
from ..operators.declare import NORMWISE, Operator, call

_GENERIC_ERROR = replace(NORMWISE, terms=longest_dimension)
# Errors of an error model for arguments given by keyword, or left out.
HOOK_ERRORS = (LookupError, TypeError, AttributeError)


def operator_for(
    fn: Callable[..., Any], reference: Callable[..., Any] | None, name: str | None
) -> Operator:
    """The operator that declares ``fn``, its reference or the ``name``, with ``fn`` in its place,
    or one that is judged by the sensitivity of ``fn``."""
    operator = (
        operators.get(name) if name is not None else by_function(reference or fn) or by_function(fn)
    )
    if operator is None:
        title = getattr(fn, "__qualname__", type(fn).__name__)
        model = _GENERIC_ERROR
        return Operator(
            name=title,
            family="user",
            sample=lambda d: call(),
            function=fn,
            reference=reference,
            error=model,
        )
    values = {
        f: getattr(operator, f)
        for f in (
            "name",
            "family",
            "sample",
            "error",
            "traits",
            "observe",
            "alternatives",
            "ranges",
        )
    }
    return Operator(
        **values, function=fn, reference=reference or operator.reference, mutates=operator.mutates
    )


def by_function(fn: Callable[..., Any]) -> Operator | None:
    """The operator of ``fn``: by identity, or for torch's own functions by name (``F.softmax`` is
    ``softmax``)."""
    declared = operators.registry()
    match = next((o for o in declared.values() if o.function is None and o.callable is fn), None)
    if match is not None or not (getattr(fn, "__module__", None) or "").startswith("torch"):
        return match
    return declared.get(getattr(fn, "__name__", ""))


def by_sensitivity(model: Operator, error: Exception) -> Operator:
    """The operator with an error model that reads no arguments, for calls that ``sample`` would not
    write.

    Raises UsageError for operators whose results are meaningless unless observed through their
    arguments.
    """
    if model.observe is not None or model.alternatives is not None:
        text = f"{type(error).__name__}: {str(error)[:100]}"
        raise UsageError(
            f"{model.name}: its arguments are not as the harness writes them ({text}); give them "
            "by position"
        ) from error
    return replace(model, error=_GENERIC_ERROR, ranges=())
