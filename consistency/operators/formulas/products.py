"""Products of matrices and vectors, in terms of others."""

from __future__ import annotations

from typing import Any

import torch

from ..declare import Call, Drawing, call
from .declaration import FREE, SUMS, OperatorFormula, Run, pair, run


def kron_arguments(d: Drawing) -> Call:
    return call(*(d.tensor((d.size(1, 9), d.size(1, 17)), FREE) for _ in range(2)))


def tensordot_arguments(d: Drawing) -> Call:
    return call(*pair("bk", "kj")(d).args, dims=1)


def linear_arguments(d: Drawing) -> Call:
    into, out = d.size(1, 129), d.size(1, 33)
    bias = [d.tensor((out,), FREE)] if d.flag() else []
    return call(d.tensor((*d.shape(0, 2, most=9), into), SUMS), d.tensor((out, into), SUMS), *bias)


def linear(call: Run, x: Any, weight: Any, bias: Any = None) -> Any:
    product = call("matmul", x, weight.T)
    return product if bias is None else call("add", product, bias)


def matmul(call: Run, x: Any, y: Any) -> Any:
    if x.ndim < 2 or y.ndim < 2:
        raise NotImplementedError
    return call("sum", call("mul", x.unsqueeze(-1), y.unsqueeze(-3)), -2)


def bmm(call: Run, x: Any, y: Any) -> Any:
    return call("einsum", "bik,bkj->bij", x, y)


def mv(call: Run, x: Any, y: Any) -> Any:
    return call("sum", call("mul", x, y), -1)


def outer(call: Run, x: Any, y: Any) -> Any:
    return call("mul", x.unsqueeze(1), y.unsqueeze(0))


def addmm(call: Run, c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return call("add", call("mul", c, beta), call("mul", call("mm", x, y), alpha))


def baddbmm(call: Run, c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return call("add", call("mul", c, beta), call("mul", call("bmm", x, y), alpha))


def addmv(call: Run, c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return call("add", call("mul", c, beta), call("mul", call("mv", x, y), alpha))


def addr(call: Run, c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return call("add", call("mul", c, beta), call("mul", outer(call, x, y), alpha))


def kron(call: Run, x: Any, y: Any) -> Any:
    rank = max(x.ndim, y.ndim)
    x, y = (t.reshape([1] * (rank - t.ndim) + list(t.shape)) for t in (x, y))
    left = x.reshape([n for size in x.shape for n in (size, 1)])
    right = y.reshape([n for size in y.shape for n in (1, size)])
    return call("mul", left, right).reshape([n * m for n, m in zip(x.shape, y.shape, strict=True)])


def tensordot(call: Run, x: Any, y: Any, dims: int = 1) -> Any:
    if dims != 1:
        raise NotImplementedError
    return call("einsum", "...i,ij->...j", x, y)


def of_contiguous(name: str, *args: Any) -> Any:
    """torch.kron refuses some strided operands (docs/findings.md), which the formula takes, also
    contiguous ones whose dimensions of size 1 have other strides."""
    return run(name, *(arg.clone(memory_format=torch.contiguous_format) for arg in args))


FORMULAS = [
    OperatorFormula(
        "linear", "nn.functional.linear", "x @ weight.T + bias", linear, linear_arguments
    ),
    OperatorFormula("matmul", "matmul", "(x[…, :, None] * y).sum(-2)", matmul, pair("ik", "kj")),
    OperatorFormula("mm", "mm", "(x[:, :, None] * y).sum(-2)", matmul, pair("ik", "kj")),
    OperatorFormula("bmm", "bmm", "einsum", bmm, pair("bik", "bkj")),
    OperatorFormula("mv", "mv", "(x * y).sum(-1)", mv, pair("ik", "k")),
    OperatorFormula("dot", "dot", "(x * y).sum()", mv, pair("k", "k")),
    OperatorFormula("outer", "outer", "x[:, None] * y", outer, pair("i", "j")),
    OperatorFormula(
        "addmm",
        "addmm",
        "beta·c + alpha·(x @ y)",
        addmm,
        pair("ik", "kj", factors=True, added="ij"),
    ),
    OperatorFormula(
        "baddbmm",
        "baddbmm",
        "beta·c + alpha·(x @ y)",
        baddbmm,
        pair("bik", "bkj", factors=True, added="bij"),
    ),
    OperatorFormula(
        "addmv", "addmv", "beta·c + alpha·(x @ y)", addmv, pair("ik", "k", factors=True, added="i")
    ),
    OperatorFormula(
        "addr",
        "addr",
        "beta·c + alpha·x[:, None]·y",
        addr,
        pair("i", "j", factors=True, added="ij"),
    ),
    OperatorFormula(
        "kron",
        "kron",
        "products of unsqueezed operands",
        kron,
        kron_arguments,
        reference=of_contiguous,
    ),
    OperatorFormula("tensordot", "tensordot", "einsum", tensordot, tensordot_arguments),
]
