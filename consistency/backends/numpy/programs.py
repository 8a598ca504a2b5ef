"""Chains of views, writes in place and reductions, on arrays that share their memory as the tensors
do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dtypes import Array
from consistency.backends.numpy.implementations import implements

_READS_TWO = frozenset({"copy_", "add_", "add", "sub", "mul"})


@implements("program", native_half=True, one_dtype=True)
def program(steps: Sequence[Sequence[Any]], *tensors: Array) -> list[Array]:
    """Every register's final state. A step is ``[operation, register, …]``; those that are no
    writes add a register."""
    registers = list(tensors)
    for name, *arguments in steps:
        count = 2 if name in _READS_TWO else 1
        operands, numbers = [registers[i] for i in arguments[:count]], arguments[count:]
        if name.endswith("_"):
            _write(name, operands, numbers)
        else:
            registers.append(np.asarray(_make(name, operands, numbers)))
    return registers


def _write(name: str, operands: list[Array], numbers: list[Any]) -> None:
    x = operands[0]
    scalars = [x.dtype.type(number) for number in numbers]
    match name:
        case "copy_":
            x[...] = operands[1]
        case "add_":
            np.add(x, operands[1], out=x)
        case "mul_":
            np.multiply(x, scalars[0], out=x)
        case "neg_":
            # Without out=: with it NumPy 2.4 reads the wrong elements of tensors with a stride of
            # four float32 or eight float64 (docs/findings.md).
            x[...] = -x
        case "fill_" | "zero_":
            x[...] = scalars[0] if scalars else 0
        case "clamp_":
            np.clip(x, -scalars[0], scalars[0], out=x)
        case _:
            raise NotImplementedError(f"step {name}")


def _make(name: str, operands: list[Array], numbers: list[Any]) -> Any:
    x = operands[0]
    match name:
        case "slice":
            dim, start, stop, step = numbers
            return x[(slice(None),) * dim + (slice(start, stop, step), ...)]
        case "flip_halves":
            return x[x.shape[0] // 2 :]
        case "select":
            dim, position = numbers
            return x[(slice(None),) * dim + (position, ...)]
        case "transpose":
            return x.swapaxes(*numbers)
        case "unsqueeze":
            return np.expand_dims(x, *numbers)
        case "expand":
            return np.broadcast_to(x, (numbers[0], *x.shape))
        case "add" | "sub" | "mul":
            return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](*operands)
        case "neg":
            return -x
        case "abs":
            return np.abs(x)
        case "clone":
            return x.copy()
        case "sum":
            return np.sum(x, axis=numbers[0], dtype=x.dtype)
        case "amax":
            return np.max(x, axis=numbers[0])
        case _:
            raise NotImplementedError(f"step {name}")
