"""The kernel as a backend: the operator that it implements is the reference, which the CPU runs as
the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import Backend
from ...core.model import Outcome
from ...core.trees import flatten, map_leaves, tensors_in
from ...errors import UsageError
from ...generate.materialize import Adjust, Materials
from ...operators.declare import Operator
from ..user_operators import by_function, operator_for
from .target import Target


class KernelBackend(Backend):
    """Calls a kernel wherever the harness calls its reference.

    It keeps no contract of views and strides: a kernel returns memory of its own where its
    reference may return a view.
    """

    keeps_contract = False

    def __init__(self, call: Callable[..., Any], device: str) -> None:
        self.name = self.device = device
        self._call = call

    @property
    def is_foreign(self) -> bool:
        return True

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._call(*args, **kwargs)

    def finish(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize(self.device)


class StoredOutcome(Backend):
    """Returns an outcome that the kernel gave before."""

    keeps_contract = False
    is_recorded = True

    def __init__(self, name: str, outcome: Outcome) -> None:
        self.name, self._outcome = name, outcome

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        return self._outcome


def reference_operator(
    target: Target, reference: Callable[..., Any] | None, written: tuple[int, ...]
) -> Operator:
    """The operator whose function is the reference. Without one it is the kernel itself, which then
    has to compute in float64, on the CPU."""
    function = reference if reference is not None else target.call
    operator = operator_for(function, None, None)
    operator = replace(operator, name=target.name, function=ReferenceCall(function, written))
    return replace(operator, mutates=written) if written else operator


def is_declared(reference: Callable[..., Any] | None) -> bool:
    """Whether the reference is a function of torch that has an error model of its own."""
    return reference is not None and by_function(reference) is not None


@dataclass(frozen=True)
class ReferenceCall:
    """A reference whose results have the dtypes that a kernel's would have: ``x.double()`` within
    it widens nothing. Where the kernel writes to arguments, results are written to them."""

    function: Callable[..., Any]
    written: tuple[int, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = list(tensors_in((args, dict(sorted(kwargs.items())))))
        versions = [t._version for t in given]
        result = self.function(*args, **kwargs)
        floats = [t.dtype for t in given if t.is_floating_point()]
        if floats and torch.float64 not in floats:
            result = map_leaves(lambda item: _narrowed(item, floats[0]), result)
        if self.written and all(
            t._version == before for t, before in zip(given, versions, strict=True)
        ):
            results = [item for item in flatten(result) if isinstance(item, torch.Tensor)]
            if len(results) < len(self.written):
                text = "writes to its arguments, and the reference neither does nor returns them"
                raise UsageError(f"the operator {text}; let it return the new values")
            for position, new in zip(self.written, results[-len(self.written) :], strict=True):
                given[position].copy_(new)
            rest = results[: -len(self.written)]
            return (tuple(rest) or None) if len(rest) != 1 else rest[0]
        return result


def _narrowed(item: Any, dtype: torch.dtype) -> Any:
    wide = isinstance(item, torch.Tensor) and item.dtype == torch.float64
    return item.to(dtype) if wide else item
