"""Functions of matrices: each matrix of a batch is computed as a whole in python-flint's balls, and
cached per precision.

A *stack* is a tensor of three dimensions, a batch of matrices. Matrices with infinities or NaN are
unsure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
from flint import acb, acb_mat, arb_mat

from . import balls, movement
from . import complex_numbers as c
from .balls import Elements
from .complex_numbers import Pair, Tensor, pair
from .nodes import Deadline, Node, Positions

Matrix = Any  # arb_mat | acb_mat
MOST_ENTRIES = 1 << 14  # of one matrix; more would take minutes


@dataclass(frozen=True)
class MatrixResult:
    """One result of a function. ``kind`` is ``same`` (complex if the arguments are), ``real`` or
    ``int``."""

    rows: int
    columns: int
    kind: str = "same"


@dataclass(frozen=True)
class MatrixFunction:
    """``of`` takes matrices and returns the rows of each result, as lists or as a matrix. ``pulls``
    has a function per result: (arguments, results, gradient of this result) ↦ gradients of the
    arguments; None where there is none."""

    name: str
    results: Callable[..., Sequence[MatrixResult]]  # from the arguments' shapes
    of: Callable[..., Sequence[Any]]
    pulls: Sequence[
        Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], Sequence[Tensor | None]] | None
    ] = ()

    def __call__(self, *arguments: Tensor) -> list[Tensor]:
        """The results for stacks with one batch size."""
        return MatrixCall(self, arguments).results


class MatrixCall:
    """The arguments and results of a function, and the values computed so far."""

    def __init__(self, function: MatrixFunction, arguments: Sequence[Tensor]) -> None:
        self.function, self.arguments = function, arguments
        self.complex = c.is_complex(*arguments)
        self.nodes = [
            part for x in arguments for part in ((x.re, x.im) if isinstance(x, Pair) else (x,))
        ]
        batch = arguments[0].shape[0]
        self._bits = 0
        # By index in the batch: the elements of each result.
        self._found: dict[int, list[list[Any]]] = {}
        self.results: list[Tensor] = []
        for number, result in enumerate(function.results(*(x.shape[1:] for x in arguments))):
            block = MatrixBlock(self, number, batch, result)
            shape, part_count = block.shape[:3], block.shape[3]
            strides = [part_count * s for s in movement.row_major(shape)]
            parts = [movement.view(block, shape, strides, p) for p in range(part_count)]
            self.results.append(Pair(*parts) if len(parts) == 2 else parts[0])

    def found(self) -> dict[int, list[list[Any]]]:
        if self._bits != flint.ctx.prec:
            self._bits, self._found = flint.ctx.prec, {}
        return self._found

    def compute(self, given: Sequence[Elements]) -> list[list[Any]]:
        """The results for one matrix, from the elements of each node."""
        Deadline.check()
        parts = iter(given)
        matrices: list[Matrix] = []
        for x in self.arguments:
            lists = [
                [balls.ball(value) for value in next(parts).tolist()]
                for _ in range(2 if isinstance(x, Pair) else 1)
            ]
            _, rows, columns = x.shape
            if len(lists) == 2:
                matrices.append(acb_mat(rows, columns, [acb(*z) for z in zip(*lists, strict=True)]))
            else:
                matrices.append(
                    acb_mat(rows, columns, lists[0])
                    if self.complex
                    else arb_mat(rows, columns, lists[0])
                )
            if not all(value.is_finite() for numbers in lists for value in numbers):
                raise balls.Unsure("a matrix of what is not finite")
        try:
            return [_numbers(x) for x in self.function.of(*matrices)]
        except ZeroDivisionError as error:
            raise balls.Unsure(
                f"{self.function.name}: a matrix that balls cannot tell from a singular one"
            ) from error


def _numbers(x: Any) -> list[Any]:
    rows = x.tolist() if isinstance(x, (arb_mat, acb_mat)) else x
    return [value for row in rows for value in row]


class MatrixBlock(Node):
    """One result of a call: batch × rows × columns × (1, or 2 for complex numbers)."""

    def __init__(self, call: MatrixCall, number: int, batch: int, result: MatrixResult) -> None:
        parts = 2 if call.complex and result.kind == "same" else 1
        super().__init__((batch, result.rows, result.columns, parts), call.nodes)
        self.call, self.which = call, number
        self.kind = "int" if result.kind == "int" else "real"
        self._asked: list[int] = []

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        results = self.call.found()
        batch = np.unique(positions // math.prod(self.shape[1:])).tolist()
        self._asked = [b for b in batch if b not in results]
        sizes = [math.prod(node.shape[1:]) for node in self.inputs]
        if max(sizes) > MOST_ENTRIES:
            raise balls.Unknowable("a matrix so large takes too long")
        lacking = np.asarray(self._asked, dtype=np.int64)[:, None]
        return tuple(lacking * size + np.arange(size) for size in sizes)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        results = self.call.found()
        for i, b in enumerate(self._asked):
            if b not in results:  # another result of the call may have been computed meanwhile
                results[b] = self.call.compute([g[i] for g in given])
        _, _, _, parts = self.shape
        size = math.prod(self.shape[1:3])
        values = []
        for position in positions.tolist():
            place, part = divmod(position, parts)
            b, at = divmod(place, size)
            value = results[b][self.which][at]
            if isinstance(value, acb):
                value = value.imag if part else value.real
            elif part:  # of a real number among complex ones
                value = balls.ZERO if value.is_finite() else value
            values.append(value)
        return values

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        pulls = self.call.function.pulls
        pull = pulls[self.which] if self.which < len(pulls) else None
        if pull is None:
            raise balls.Unsure(f"the gradient of {self.call.function.name} by what is not unique")
        shape, parts = self.shape[:3], self.shape[3]
        strides = [parts * s for s in movement.row_major(shape)]
        views = [movement.view(gradient, shape, strides, p) for p in range(parts)]
        gradients: list[Node | None] = []
        result_gradient = Pair(*views) if parts == 2 else views[0]
        by_argument = pull(self.call.arguments, self.call.results, result_gradient)
        for x, g in zip(self.call.arguments, by_argument, strict=True):
            if isinstance(x, Pair):
                gradients += [None, None] if g is None else [pair(g).re, pair(g).im]
            else:
                gradients.append(None if g is None else real_part(g))
        return gradients


def real_part(x: Tensor) -> Node:
    return x.re if isinstance(x, Pair) else x


def transposed(x: Tensor) -> Any:
    return c.each(lambda node: movement.transpose(node, -1, -2), x)


def adjoint(x: Tensor) -> Any:
    """The conjugate transpose of each matrix."""
    return c.conj(transposed(x))


def masked(x: Tensor, keep: Any) -> Any:
    """The matrices with zeros where ``keep`` (rows × columns) is False."""

    def of(node: Node) -> Node:
        labels = np.where(keep, np.arange(node.size).reshape(node.shape), -1)
        return movement.gather(node, labels, node.shape)

    return c.each(of, x)


def lower(x: Tensor, diagonal: int = 0) -> Any:
    return masked(x, np.tri(x.shape[-2], x.shape[-1], diagonal, dtype=bool))


def upper(x: Tensor) -> Any:
    return masked(x, ~np.tri(x.shape[-2], x.shape[-1], -1, dtype=bool))


def stack(x: Tensor) -> Any:
    """All batch dimensions merged into one."""
    shape = (math.prod(x.shape[:-2]), *x.shape[-2:])
    return c.each(lambda node: movement.reshape(node, shape), x)


def reshaped(x: Tensor, shape: Sequence[int]) -> Any:
    return c.each(lambda node: movement.reshape(node, tuple(shape)), x)


def expanded(x: Tensor, shape: Sequence[int]) -> Any:
    return c.each(lambda node: movement.expand(node, tuple(shape)), x)
