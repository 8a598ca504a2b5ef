"""A fault, and the healthy results that it is planted into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from consistency.core import dtypes
from consistency.core.model import Case, Outcome
from consistency.generate.materialize import Materials
from consistency.operators.declare import Operator

Change = Callable[[torch.Tensor], torch.Tensor | None]


@dataclass(frozen=True)
class Healthy:
    """One case in one direction with what torch's CPU returns."""

    operator: Operator
    materials: Materials
    direction: str
    outcome: Outcome

    @property
    def case(self) -> Case:
        return self.materials.case

    @property
    def tensors(self) -> list[torch.Tensor | None]:
        return [output.tensor for output in self.outcome.outputs]

    def with_tensors(self, tensors: Sequence[torch.Tensor | None]) -> Outcome | None:
        """The outcome with other numbers; None if they are the same."""
        pairs = list(zip(self.outcome.outputs, tensors, strict=True))
        if all(same(o.tensor, t) for o, t in pairs):
            return None
        outputs = tuple(
            o if t is None else replace(o, tensor=t, dtype=dtypes.name_of(t.dtype))
            for o, t in pairs
        )
        return replace(self.outcome, outputs=outputs)

    def each(self, change: Change) -> Outcome | None:
        """The outcome with every tensor changed; None if nothing changes."""
        changed = []
        for tensor in self.tensors:
            other = None if tensor is None else _changed(tensor.detach(), change)
            changed.append(tensor if other is None else other)
        return self.with_tensors(changed)


def _changed(tensor: torch.Tensor, change: Change) -> torch.Tensor | None:
    """The changed tensor; of unsigned integers that torch does not add, as int64 of these bits."""
    if dtypes.name_of(tensor.dtype) not in dtypes.WIDE_UNSIGNED:
        return change(tensor)
    other = change(tensor.to(torch.int64))
    return other.to(tensor.dtype) if other is not None and other.dtype == torch.int64 else other


Plant = Callable[[Healthy], Outcome | None]


@dataclass(frozen=True)
class Fault:
    """What is planted. ``plant`` returns the faulty outcome, or None where it does not show.
    ``likely``, where planting needs another call, says cheaply whether it may show; ``weight``: how
    much a case is worth that notices it."""

    name: str
    plant: Plant
    likely: Callable[[Healthy], bool] | None = None
    weight: float = 1.0


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Whether two tensors have the same numbers: NaN equals NaN, and 0 is not -0."""
    if a is None or b is None or a is b:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_complex():
        return same(
            torch.view_as_real(a.detach().resolve_conj()),
            torch.view_as_real(b.detach().resolve_conj()),
        )
    equal = a == b
    if a.is_floating_point():
        equal &= torch.signbit(a) == torch.signbit(b)
        equal |= a.isnan() & b.isnan()
    return bool(equal.all())
