"""Short programs: sequences of views, in-place writes, arithmetic and reductions, over one to three
tensors.

Aliasing defects only show in sequences. A program is plain data: the first argument is a list of
steps, the tensors follow. A step is ``[operation, register, …]``; the tensors are the first
registers, and every step but a write adds one. The final state of every register is judged, and the
storages behind the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .declare import FLOAT, Call, Domain, Drawing, Operator, accumulated, call
from .hooks import Args, Kwargs, Tensors
from .program_steps import (
    READS_TWO,
    VIEWS,
    WRITES,
    interpret,
    program,
    sizes,
    without_numbers,
)

VALUES = Domain(-4.0, 4.0)
MAKES = ("add", "sub", "mul", "neg", "abs", "clone")
REDUCTIONS = ("sum", "amax")
MOST_TENSORS = 3
MOST_STEPS = 6


class ProgramBuilder:
    """Draws valid steps: tracks every register's shape, the memory it belongs to, and whether
    elements share memory."""

    def __init__(self, d: Drawing, shapes: Sequence[tuple[int, ...]]) -> None:
        self.d = d
        self.steps: list[list[Any]] = []
        self.registers = [torch.empty(shape, device="meta") for shape in shapes]
        self.memory = list(range(len(shapes)))
        self.shared = [False] * len(shapes)
        self.products = [1] * len(shapes)  # by memory: how many factors a number there may have

    def pick(self, fits: Callable[[int], bool] = lambda i: True) -> int | None:
        """A register, preferably a recent one: steps that build on each other test more."""
        fitting = [i for i in reversed(range(len(self.registers))) if fits(i)]
        return self.d.choice(*fitting) if fitting else None

    def add(self, name: str, sources: list[int], *numbers: Any) -> None:
        if name not in WRITES:
            result = without_numbers(name, [self.registers[i] for i in sources], list(numbers))
            self.registers.append(result)
            view = name in VIEWS
            self.memory.append(self.memory[sources[0]] if view else len(self.products))
            self.shared.append(name == "expand" or (view and self.shared[sources[0]]))
            if not view:
                self.products.append(self._factors(name, sources))
        else:
            self.products[self.memory[sources[0]]] = max(
                self.products[self.memory[sources[0]]], self._factors(name, sources)
            )
        self.steps.append([name, *sources, *numbers])

    def _factors(self, name: str, sources: list[int]) -> int:
        factors = [self.products[self.memory[i]] for i in sources]
        return sum(factors) if name == "mul" else max(factors)

    def view(self) -> bool:
        name = self.d.choice(*VIEWS)
        ranks = {"slice": 1, "flip_halves": 1, "select": 1, "transpose": 2}
        source = self.pick(
            lambda i: (
                self.registers[i].ndim >= ranks.get(name, 0)
                and (name not in ("unsqueeze", "expand") or self.registers[i].ndim < 3)
            )
        )
        if source is None:
            return False
        shape = tuple(self.registers[source].shape)
        match name:
            case "slice":
                dim = self.d.integer(0, len(shape) - 1)
                start = self.d.integer(0, shape[dim] - 1)
                self.add(name, [source], dim, start, None, self.d.choice(1, 2))
            case "transpose":
                self.add(name, [source], 0, len(shape) - 1)
            case "select":
                dim = self.d.integer(0, len(shape) - 1)
                self.add(name, [source], dim, self.d.integer(0, shape[dim] - 1))
            case "unsqueeze":
                self.add(name, [source], self.d.integer(0, len(shape)))
            case "expand":
                self.add(name, [source], self.d.integer(2, 3))
            case _:
                self.add(name, [source])
        return True

    def write(self) -> bool:
        name = self.d.choice(*WRITES)
        target = self.pick(lambda i: not self.shared[i])
        if target is None:
            return False
        if name in READS_TWO:
            shape, memory = self.registers[target].shape, self.memory[target]
            source = self.pick(
                lambda i: self.memory[i] != memory and broadcasts(self.registers[i].shape, shape)
            )
            if source is None:
                return False
            self.add(name, [target, source])
        elif name == "clamp_":
            self.add(name, [target], self.d.number(0.5, 3.0))
        elif name in ("fill_", "mul_"):
            self.add(name, [target], self.d.number(-2.0, 2.0))
        else:
            self.add(name, [target])
        return True

    def make(self) -> bool:
        name = self.d.choice(*MAKES)
        first = self.pick()
        assert first is not None
        if name not in READS_TWO:
            self.add(name, [first])
            return True
        shape, factors = self.registers[first].shape, self.products[self.memory[first]]
        second = self.pick(
            lambda i: (
                broadcasts(self.registers[i].shape, shape)
                and (name != "mul" or factors + self.products[self.memory[i]] <= 6)
            )
        )
        if second is None:
            return False
        self.add(name, [first, second])
        return True

    def reduce(self) -> bool:
        name = self.d.choice(*REDUCTIONS)
        source = self.pick(lambda i: self.registers[i].ndim > 0)
        if source is None:
            return False
        self.add(name, [source], self.d.integer(0, self.registers[source].ndim - 1))
        return True


def broadcasts(shape: Sequence[int], wide: Sequence[int]) -> bool:
    """Whether ``shape`` expands to ``wide``."""
    return len(shape) <= len(wide) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(wide), strict=False)
    )


def drawn(d: Drawing) -> Call:
    """Shrinks towards one small tensor and two steps, views first."""
    shape = d.shape(1, 3, most=17, elements=512)
    shapes = [shape, *(d.broadcastable(shape) for _ in range(d.integer(0, MOST_TENSORS - 1)))]
    tensors = [d.tensor(s, VALUES, overlap=False) for s in shapes]
    builder = ProgramBuilder(d, shapes)
    for count in range(MOST_STEPS):
        if count >= 2 and not d.choice(False, True, True, True):
            break
        kind = d.choice("view", "write", "view", "write", "make", "reduce")
        if not getattr(builder, kind)():
            builder.add("clone", [len(builder.registers) - 1])
    return call(builder.steps, *tensors)


def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[torch.Tensor]:
    """The same program on sizes: one for every register, then one for every storage."""
    steps, *tensors = args
    bases = [
        torch.as_strided(t, (t.untyped_storage().nbytes() // t.element_size(),), (1,), 0).abs()
        for t in tensors
    ]
    views = [
        base.as_strided(t.shape, t.stride(), t.storage_offset())
        for base, t in zip(bases, tensors, strict=True)
    ]
    return [*interpret(steps, views, sizes), *bases]


def terms(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """The largest number of roundings behind a number: one per step, and those of the sums."""
    registers = [torch.empty_like(t, device="meta") for t in args[1:]]
    total = 0
    for name, *arguments in args[0]:
        total += registers[arguments[0]].shape[arguments[1]] if name == "sum" else 1
        if name not in WRITES:
            count = 2 if name in READS_TWO else 1
            operands = [registers[i] for i in arguments[:count]]
            registers.append(without_numbers(name, operands, list(arguments[count:])))
    return float(total)


OPERATORS = [
    Operator(
        name="program", family="programs", sample=drawn, function=program, dtypes=FLOAT,
        differentiable=False,
        traits=frozenset({"inplace", "constant"}), mutates=tuple(range(MOST_TENSORS)),
        error=accumulated(magnitude, terms, growth="linear", wide_accumulation=False),
    ),
]  # fmt: skip
