"""Recorded steps as calls in float64.

One flat float64 tensor, a slot, stands for each recorded storage, and each recorded tensor is the
place in its slot with the same memory layout. Which arguments of a step are such places is worked
out once, since there are many replays of the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ..core.trees import flatten, map_leaves
from ..operators.catalog.signature import signature

Slots = dict[int, torch.Tensor]
Arguments = tuple[Any, Any]  # the positional and the named ones of a call


@dataclass(slots=True)
class RecordedStep:
    """One torch operator, its arguments, what it returned or wrote, and whether that was rounded.

    ``off`` is, per result, the absolute RMS error against float64 on the same numbers, or 0 if
    correct rounding explains the error.
    """

    call: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[torch.Tensor | None, ...]
    rounds: bool = False
    off: tuple[float, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether its results are the arguments that it writes to."""
        return bool(signature(self.call).written)

    @property
    def name(self) -> str:
        """``mean`` of ``aten::mean.dim``, ``mul`` of ``aten::mul_.Tensor``."""
        return signature(self.call).name.removesuffix("_")


# (step, number of the result, result in float64, arguments) ↦ the changed result
StepChange = Callable[[RecordedStep, int, torch.Tensor, Arguments], torch.Tensor]


@dataclass(frozen=True, slots=True)
class SlotRegion:
    """Where in the slot of a storage the numbers of a recorded tensor lie."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_whole: bool  # its numbers are those of the slot, in this order
    slot_size: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> SlotRegion:
        """That of a recorded tensor."""
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        offset = int(tensor.storage_offset())
        whole = not offset and tensor.numel() == size and tensor.is_contiguous()
        return cls(
            storage_of(tensor), tuple(tensor.shape), tensor.stride(), offset, whole, size
        )  # fmt: skip

    def read(self, slots: Slots) -> torch.Tensor:
        """A view of the numbers there."""
        slot = slots[self.storage]
        if self.is_whole:
            return slot.view(self.shape)
        return slot.as_strided(self.shape, self.strides, self.offset)

    def write(self, slots: Slots, numbers: torch.Tensor) -> torch.Tensor:
        """A new slot with these numbers there and zeros elsewhere; a view of them."""
        slots[self.storage] = torch.zeros(self.slot_size, dtype=torch.float64)
        return self.read(slots).copy_(numbers)

    def keep(self, slots: Slots, numbers: torch.Tensor) -> None:
        """As :meth:`write` of numbers that nothing else holds, and without a copy if possible."""
        if self.is_whole and numbers.dtype == torch.float64:
            slots[self.storage] = numbers.reshape(-1)
        else:
            self.write(slots, numbers)


class ReplayedStep:
    """A recorded step that can be called again on the numbers of slots."""

    def __init__(self, step: RecordedStep) -> None:
        self.step = step
        self._call, self._writes, self._rounds = step.call, step.writes, step.rounds
        self._args = [_Argument(value) for value in step.args]
        self._kwargs = {name: _Argument(value) for name, value in step.kwargs.items()}
        self._places = [
            SlotRegion.of(r) if r is not None and r.is_floating_point() else None
            for r in step.results
        ]

    def __call__(self, slots: Slots, change: StepChange | None) -> None:
        """Call the step, and put its results into slots; ``change`` those of a rounding one."""
        args = [argument.read(slots) for argument in self._args]
        kwargs = {name: argument.read(slots) for name, argument in self._kwargs.items()}
        returned = self._call(*args, **kwargs)
        results = results_of(self._call, returned, args, kwargs)
        changes = change if self._rounds else None
        for number, (place, new) in enumerate(zip(self._places, results, strict=True)):
            if place is None:
                continue
            if self._writes:
                if changes is not None:
                    new.copy_(changes(self.step, number, new, (args, kwargs)))
                continue
            changed = changes(self.step, number, new, (args, kwargs)) if changes else new
            if changed is new:  # may be an operand, or a view of one
                place.write(slots, new)
            else:
                place.keep(slots, changed)


class _Argument:
    """An argument of a recorded step: a constant, or numbers in slots."""

    def __init__(self, value: Any) -> None:
        self._value = map_leaves(_place_or_constant, value)
        self._place = self._value if isinstance(self._value, SlotRegion) else None
        self._nested = self._place is None and any(
            isinstance(leaf, SlotRegion) for leaf in flatten(self._value)
        )

    def read(self, slots: Slots) -> Any:
        if self._place is not None:
            return self._place.read(slots)
        if not self._nested:
            return self._value
        return map_leaves(
            lambda leaf: leaf.read(slots) if isinstance(leaf, SlotRegion) else leaf, self._value
        )


def replayed(
    steps: Iterable[ReplayedStep], slots: Slots, change: StepChange | None,
    outputs: Iterable[SlotRegion | None],
) -> list[torch.Tensor | None]:  # fmt: skip
    """What is at the places of the outputs after all steps; changes the slots."""
    with torch.no_grad():
        for step in steps:
            step(slots, change)
        return [None if place is None else place.read(slots) for place in outputs]


def results_of(func: Any, returned: Any, args: Any, kwargs: Any) -> list[Any]:
    """The results of a call: the arguments that it writes to, or else what it returns."""
    schema = signature(func)
    written = schema.written
    return list(flatten(schema.arguments_named(written, args, kwargs) if written else returned))


def storage_of(tensor: torch.Tensor) -> int:
    """What identifies the memory of a tensor as long as it lives."""
    return int(tensor.untyped_storage()._cdata)


def _place_or_constant(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return SlotRegion.of(value)
    return in_float64(value)


def in_float64(value: Any) -> Any:
    """A floating-point dtype as float64; anything else as it is."""
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value
