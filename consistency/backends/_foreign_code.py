"""Code that is not this package's: users' backends and functions, guarded by the state of the
process.

What such code changes in global state is restored at once, and told once per process and state as a
verdict of the backend that did it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ..operators.declare import Operator
from .process_state import StateGuard

_PACKAGE = __name__.partition(".")[0]
_LIBRARIES = frozenset(
    {_PACKAGE, "torch", "numpy", "operator", "_operator", "builtins", "math", "functools"}
)


def is_own(module: str) -> bool:
    """Whether a module belongs to this package."""
    return module.partition(".")[0] == _PACKAGE


def calls_foreign_code(operator: Operator) -> bool:
    """Whether an operator calls a function that a user wrote."""
    return any(
        function is not None and _is_foreign(function)
        for function in (operator.function, operator.reference)
    )


def _is_foreign(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    written = function if isinstance(function, FunctionType) else type(function)
    return (getattr(written, "__module__", None) or "").partition(".")[0] not in _LIBRARIES


class StateChanges:
    """Changes to global state that are not told yet; each state is told once."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._waiting: dict[str, str] = {}  # by the name of the state

    def add(self, changes: Iterable[str], *, again: bool = False) -> None:
        """Keep what is new. ``again``: also states that were told before."""
        for change in changes:
            state = change.partition(": ")[0]
            if again or state not in self._told:
                self._waiting.setdefault(state, change)

    def take(self) -> tuple[str, ...]:
        """What is to be told now; it counts as told then."""
        if not self._waiting:
            return ()
        changes = tuple(self._waiting.values())
        self._told |= self._waiting.keys()
        self._waiting.clear()
        return changes


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a user's backend that restores global state after every call."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = StateGuard()
        try:
            return method(self, *args, **kwargs)
        finally:
            self.state_changes.add(guard.restore())

    return call
