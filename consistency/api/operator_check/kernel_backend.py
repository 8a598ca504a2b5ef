"""The kernel as a backend: the operator that it implements is the reference, which the CPU runs as
the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import Backend
from ...backends.cpu import Cpu
from ...core.model import Outcome
from ...core.trees import flatten, map_leaves, tensors_in
from ...errors import UsageError
from ...generate.materialize import Adjust, Materials
from ...operators.declare import Operator
from ..user_operators import by_function, operator_for
from .target import Target

_CPU = Cpu()


class KernelBackend(Backend):
    """Calls a kernel wherever the harness calls its reference.

    It keeps no contract of views and strides: a kernel returns memory of its own where its
    reference may return a view.
    """

    keeps_contract = False

    def __init__(self, call: Callable[..., Any], device: str) -> None:
        self.name = self.device = device
        self.kernel = call

    @property
    def is_foreign(self) -> bool:
        return True

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.kernel(*args, **kwargs)

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
    return replace(operator, name=target.name, function=ReferenceCall(function, written))


def is_declared(reference: Callable[..., Any] | None) -> bool:
    """Whether the reference is a function of torch that has an error model of its own."""
    return reference is not None and by_function(reference) is not None


@dataclass(frozen=True)
class PureCall:
    """A kernel that writes to arguments, as a function that returns what it would write."""

    function: Callable[..., Any]
    written: tuple[int, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs, copies = _with_copies(args, kwargs, self.written, _copy)
        results = list(flatten(self.function(*args, **kwargs)))
        return (*(item for item in results if item is not None), *copies)


@dataclass(frozen=True)
class ReferenceCall:
    """A reference whose results have the dtypes that a kernel's would have: ``x.double()`` within
    it widens nothing. Where the kernel writes to arguments, the reference may do so, too, or return
    the new values last."""

    function: Callable[..., Any]
    written: tuple[int, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs, copies = _with_copies(args, kwargs, self.written, torch.clone)
        versions = [copy._version for copy in copies]
        result = self.function(*args, **kwargs)
        floats = [t.dtype for t in tensors_in((args, kwargs)) if t.is_floating_point()]
        if floats and torch.float64 not in floats:
            result = map_leaves(lambda item: _narrowed(item, floats[0]), result)
        if not self.written:
            return result
        results = [item for item in flatten(result) if item is not None]
        if any(copy._version != before for copy, before in zip(copies, versions, strict=True)):
            return (*results, *copies)
        if len(results) < len(self.written):
            text = "writes to its arguments, and the reference neither does nor returns them"
            raise UsageError(f"the operator {text}; let it return the new values")
        return tuple(results)


def _with_copies(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    written: Sequence[int],
    copy: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[tuple[Any, ...], dict[str, Any], list[torch.Tensor]]:
    """The arguments with copies of the tensors at ``written``; and these."""
    named = dict(sorted(kwargs.items()))
    if not written:
        return args, named, []
    given = list(tensors_in((args, named)))
    copies = {id(given[i]): copy(given[i]) for i in written}
    args, named = map_leaves(lambda item: copies.get(id(item), item), (args, named))
    return args, named, list(copies.values())


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in the same layout, with the gaps of its storage."""
    storage = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    storage = storage.set_(tensor.detach().untyped_storage().clone())  # type: ignore[no-untyped-call]
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _narrowed(item: Any, dtype: torch.dtype) -> Any:
    wide = isinstance(item, torch.Tensor) and item.dtype == torch.float64
    return item.to(dtype) if wide else item


def rounds_as_reference(
    operator: Operator, backend: Backend, materials: Materials, direction: str
) -> bool:
    """Whether the kernel gives the bits that the reference gives in the same dtype; whole numbers
    may be those of the reference in float64, too, or between both."""
    mine = backend.run(operator, materials, direction)
    theirs = _CPU.run(operator, materials, direction)
    wide = _CPU.run(operator, materials, direction, "float64")
    if not (mine.ok and theirs.ok and wide.ok) or mine.modified:
        return False
    outputs = (mine.outputs, theirs.outputs, wide.outputs)
    if len({len(one) for one in outputs}) > 1:
        return False
    return all(
        _rounds_alike(a.tensor, b.tensor, c.tensor) for a, b, c in zip(*outputs, strict=True)
    )


def _rounds_alike(
    mine: torch.Tensor | None, theirs: torch.Tensor | None, wide: torch.Tensor | None
) -> bool:
    if mine is None or theirs is None or wide is None:
        return mine is theirs
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype or mine.shape != wide.shape:
        return False
    if mine.is_floating_point() or mine.is_complex():
        return bool(torch.allclose(mine, theirs, rtol=0.0, atol=0.0, equal_nan=True))
    a, b, c = (t.to(torch.int64) for t in (mine, theirs, wide))
    return bool(((torch.minimum(b, c) <= a) & (a <= torch.maximum(b, c))).all())
