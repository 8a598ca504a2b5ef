"""A backend on which one operator is composed of others of the same backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import operators
from ..operators.declare import Operator
from .base import Backend, prepared


class DecomposedBackend(Backend):
    """``inner``, with ``how(call, *args, **kwargs)`` in place of the operator."""

    def __init__(self, inner: Backend, how: Callable[..., Any]) -> None:
        self.inner, self.how = inner, how
        prepared(inner)  # before that its device may be another; why it cannot be used says a run
        self.name, self.device = inner.name, inner.device
        self.state_changes = inner.state_changes

    @property
    def is_foreign(self) -> bool:
        return self.inner.is_foreign

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        def named(name: str, *a: Any, **k: Any) -> Any:
            return self.inner.call(operators.get(name), a, k)

        return self.how(named, *args, **kwargs)

    def switches(self) -> Any:
        return self.inner.switches()

    def finish(self) -> None:
        self.inner.finish()
