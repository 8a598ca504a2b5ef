"""Positions, joined tensors and running sums, in terms of one-hot products and slices."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from ..declare import Call, Drawing, call
from .declaration import FREE, SUMS, OperatorFormula, Run, rows, run


def embedding_arguments(d: Drawing) -> Call:
    table = d.size(1, 33), d.size(1, 17)
    return call(d.index(d.shape(1, 2, most=9), table[0]), d.tensor(table, FREE))


def index_add_arguments(d: Drawing) -> Call:
    size, width, count = d.size(1, 17), d.size(1, 17), d.size(1, 33)
    return call(
        d.tensor((size, width), SUMS), 0, d.index((count,), size), d.tensor((count, width), SUMS)
    )


def scatter_add_arguments(d: Drawing) -> Call:
    height, size, count = d.size(1, 9), d.size(1, 17), d.size(1, 33)
    return call(
        d.tensor((height, size), SUMS),
        1,
        d.index((height, count), size),
        d.tensor((height, count), SUMS),
    )


def gather_arguments(d: Drawing) -> Call:
    height, size = d.size(1, 9), d.size(1, 33)
    return call(d.tensor((height, size), FREE), 1, d.index((height, d.size(1, 33)), size))


def pad_arguments(d: Drawing) -> Call:
    return call(d.tensor((*d.shape(0, 2), d.size(4, 17)), FREE), [d.integer(0, 3), d.integer(0, 3)])


def stack_arguments(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call([d.tensor(shape, FREE) for _ in range(d.integer(1, 4))])


def roll_arguments(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    return call(d.tensor(shape, FREE), d.integer(-5, 5), 0)


def embedding(call: Run, index: Any, table: Any) -> Any:
    return call("matmul", functional.one_hot(index, table.shape[0]).to(table.dtype), table)


def index_add(call: Run, x: Any, dim: int, index: Any, source: Any) -> Any:
    return call(
        "add", x, call("matmul", functional.one_hot(index, x.shape[0]).to(x.dtype).T, source)
    )


def scatter_add(call: Run, x: Any, dim: int, index: Any, source: Any) -> Any:
    hot = functional.one_hot(index, x.shape[-1]).to(x.dtype)
    rows, columns = index.shape  # an index may have fewer than the source, and than the input
    added = call("sum", call("mul", hot, source[:rows, :columns].unsqueeze(-1)), -2)
    rest = x.shape[0] - rows
    return call("add", x, functional.pad(added, (0, 0, 0, rest)) if rest else added)


def gather(call: Run, x: Any, dim: int, index: Any) -> Any:
    rows = torch.arange(index.shape[0], device=x.device).unsqueeze(1)  # an index may have fewer
    return x[rows, index]


def cumsum(call: Run, x: Any, dim: int) -> Any:
    n = x.shape[-1]
    return call("matmul", x, torch.ones(n, n, dtype=x.dtype, device=x.device).triu())


def trapezoid(call: Run, y: Any) -> Any:
    return call("sum", call("mul", call("add", y[..., 1:], y[..., :-1]), 0.5), -1)


def rfft(call: Run, x: Any) -> Any:
    n = x.shape[-1]
    turns = torch.outer(torch.arange(n), torch.arange(n // 2 + 1)) % n
    angles = (turns.to(torch.float64) * (-2.0 * math.pi / n)).to(x.device)
    real, imaginary = (call("matmul", x, part.to(x.dtype)) for part in (angles.cos(), angles.sin()))
    return torch.stack((real, imaginary), -1)


def pad(call: Run, x: Any, widths: Any) -> Any:
    left, right = (x.new_zeros(*x.shape[:-1], n) for n in widths)
    return call("cat", [left, x, right], -1)


def stack(call: Run, tensors: Any) -> Any:
    return call("cat", [t.unsqueeze(0) for t in tensors], 0)


def roll(call: Run, x: Any, shift: int, dim: int) -> Any:
    at = x.shape[0] - shift % x.shape[0]
    return call("cat", [x[at:], x[:at]], 0)


def real_parts(name: str, *args: Any) -> torch.Tensor:
    """A complex result as real numbers."""
    return torch.view_as_real(run(name, *args))


FORMULAS = [
    OperatorFormula(
        "embedding", "nn.functional.embedding", "one-hot matmul", embedding, embedding_arguments
    ),
    OperatorFormula("index_add", "index_add", "one-hot matmul", index_add, index_add_arguments),
    OperatorFormula(
        "scatter_add", "scatter_add", "one-hot products, summed", scatter_add, scatter_add_arguments
    ),
    OperatorFormula("gather", "gather", "advanced indexing", gather, gather_arguments),
    OperatorFormula("cumsum", "cumsum", "a triangular matmul", cumsum, rows()),
    OperatorFormula(
        "trapezoid", "trapezoid", "a sum of means", trapezoid, rows(SUMS, dims=False, least=2)
    ),
    OperatorFormula(
        "rfft",
        "fft.rfft",
        "matmul with the DFT matrix",
        rfft,
        rows(FREE, dims=False),
        reference=real_parts,
    ),
    OperatorFormula("pad", "nn.functional.pad", "cat with zeros", pad, pad_arguments),
    OperatorFormula("stack", "stack", "cat of unsqueezed tensors", stack, stack_arguments),
    OperatorFormula("roll", "roll", "cat of two slices", roll, roll_arguments),
]
