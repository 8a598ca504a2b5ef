"""The steps of short programs: the effect of each on tensors, and on the sizes of rounded
numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Step = Sequence[Any]
Perform = Callable[[str, list[torch.Tensor], list[Any]], torch.Tensor]
VIEWS = ("slice", "transpose", "select", "unsqueeze", "flip_halves", "expand")
WRITES = ("copy_", "add_", "mul_", "neg_", "fill_", "clamp_", "zero_")
# results have the shape of the first operand, to which the second one expands
ELEMENTWISE = frozenset({"add", "sub", "mul", "neg", "abs"})
READS_TWO = frozenset({"copy_", "add_", "add", "sub", "mul"})


def perform(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    """One step, as a user would write it. Writes return the tensor they wrote to."""
    x = operands[0]
    match name:
        case "slice":
            dim, start, stop, step = numbers
            return x[(slice(None),) * dim + (slice(start, stop, step),)]
        case "flip_halves":  # a view of a view: the second half of the first dimension
            return x[x.shape[0] // 2 :].narrow(0, 0, x.shape[0] - x.shape[0] // 2)
        case "expand":
            return x.unsqueeze(0).expand(numbers[0], *x.shape)
        case "clamp_":
            return x.clamp_(-numbers[0], numbers[0])
        case _:
            result = getattr(torch.Tensor, name)(*operands, *numbers)
            assert isinstance(result, torch.Tensor)
            return result


def sizes(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    """One step on the sizes of rounded numbers: they add up where numbers may cancel."""
    match name:
        case "sub":
            return operands[0] + operands[1]
        case "neg" | "abs":
            return operands[0].clone()
        case "neg_":
            return operands[0]
        case "clamp_":
            return operands[0]  # the error of what is cut off is 0, at most that of what is not
        case "amax":
            return operands[0].amax(*numbers)
    return perform(name, operands, [abs(n) if isinstance(n, float) else n for n in numbers])


def without_numbers(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    """One step on meta tensors, for the shape of its result. Elementwise steps are not called:
    what computes their shape is Python that loads torch's compiler, which takes a second."""
    if name in ELEMENTWISE:
        return torch.empty_like(operands[0])
    return perform(name, operands, numbers)


def interpret(
    steps: Sequence[Step], tensors: Sequence[torch.Tensor], perform: Perform = perform
) -> list[torch.Tensor]:
    """Run the steps; return every register. ``perform`` may be replaced to simulate a backend's
    faults."""
    registers = list(tensors)
    for name, *arguments in steps:
        count = 2 if name in READS_TWO else 1
        result = perform(name, [registers[i] for i in arguments[:count]], list(arguments[count:]))
        if name not in WRITES:
            registers.append(result)
    return registers


def program(steps: Sequence[Step], *tensors: torch.Tensor) -> list[torch.Tensor]:
    return interpret(steps, tensors)
