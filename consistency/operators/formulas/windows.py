"""Convolutions, pooling and interpolation, in terms of windows and indices."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from ...core.views import view_of
from ..declare import Call, Drawing, call
from .declaration import FREE, SUMS, OperatorFormula, Run


def conv2d_arguments(d: Drawing) -> Call:
    channels, size = d.size(1, 8), d.size(1, 3)
    x = d.tensor((d.size(1, 3), channels, d.size(size * 2, 12), d.size(size * 2, 12)), SUMS)
    weight = d.tensor((d.size(1, 8), channels, size, d.size(1, size)), SUMS)
    bias = [d.tensor((weight_rows(weight),), FREE)] if d.flag() else []
    options = {
        name: d.choice(*values)
        for name, values in {"stride": (1, 2), "padding": (0, int(size > 1))}.items()
    }
    return call(x, weight, *bias, **options)


def conv1d_arguments(d: Drawing) -> Call:
    channels, size = d.size(1, 8), d.size(1, 5)
    weight = d.tensor((d.size(1, 8), channels, size), SUMS)
    bias = [d.tensor((weight_rows(weight),), FREE)] if d.flag() else []
    x = d.tensor((d.size(1, 3), channels, d.size(size, 33)), SUMS)
    return call(x, weight, *bias, stride=d.choice(1, 2), padding=d.choice(0, 1))


def weight_rows(weight: Any) -> int:
    """The first size of a weight that may be drawn as a view: found on a tensor without numbers."""
    return int(view_of(torch.empty(math.prod(weight.base), device="meta"), weight).shape[0])


def avg_pool2d_arguments(d: Drawing) -> Call:
    size = d.size(1, 4)
    return call(
        d.tensor((d.size(1, 3), d.size(1, 5), d.size(size, 17), d.size(size, 17)), FREE), size
    )


def max_pool2d_arguments(d: Drawing) -> Call:
    """As windows, all numbers distinct: among equal ones torch gives the gradient to the first, and
    the formula to all."""
    size = d.size(1, 4)
    shape = (d.size(1, 3), d.size(1, 5), d.size(size, 17), d.size(size, 17))
    return call(d.tensor(shape, FREE, values=("distinct",), overlap=False), size)


def nearest_arguments(d: Drawing) -> Call:
    return call(
        d.tensor((d.size(1, 3), d.size(1, 5), d.size(1, 9), d.size(1, 9)), FREE),
        scale_factor=d.choice(2, 3, 1),
    )


def conv2d(
    call: Run,
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> Any:
    size = weight.shape[2:]
    columns = call("nn.functional.unfold", x, size, dilation, padding, stride)
    y = call("matmul", weight.reshape(weight.shape[0], -1), columns)
    y = y if bias is None else call("add", y, bias.reshape(-1, 1))
    spans = [
        (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(x.shape[2:], size, strict=True)
    ]
    return y.reshape(x.shape[0], weight.shape[0], *spans)


def conv1d(
    call: Run, x: Any, weight: Any, bias: Any = None, *, stride: int = 1, padding: int = 0
) -> Any:
    windows = functional.pad(x, (padding, padding)).unfold(2, weight.shape[2], stride)
    y = call("einsum", "nclk,ock->nol", windows, weight)
    return y if bias is None else call("add", y, bias.reshape(-1, 1))


def avg_pool2d(call: Run, x: Any, size: int) -> Any:
    return call("mean", x.unfold(2, size, size).unfold(3, size, size), [-2, -1])


def max_pool2d(call: Run, x: Any, size: int) -> Any:
    return call("amax", x.unfold(2, size, size).unfold(3, size, size), [-2, -1])


def nearest(call: Run, x: Any, *, scale_factor: int) -> Any:
    rows, columns = (
        torch.arange(n * scale_factor, device=x.device) // scale_factor for n in x.shape[2:]
    )
    return x[:, :, rows][:, :, :, columns]


FORMULAS = [
    OperatorFormula(
        "conv2d", "nn.functional.conv2d", "unfold and matmul", conv2d, conv2d_arguments
    ),
    OperatorFormula(
        "conv1d", "nn.functional.conv1d", "windows and einsum", conv1d, conv1d_arguments
    ),
    OperatorFormula(
        "avg_pool2d",
        "nn.functional.avg_pool2d",
        "means of windows",
        avg_pool2d,
        avg_pool2d_arguments,
    ),
    # For equal numbers (a bitstream begins with blanks) the gradients are defined differently.
    OperatorFormula(
        "max_pool2d",
        "nn.functional.max_pool2d",
        "largest of windows",
        max_pool2d,
        max_pool2d_arguments,
        differentiable=False,
        traits=frozenset({"constant"}),
    ),
    OperatorFormula("nearest", "nn.functional.interpolate", "indexing", nearest, nearest_arguments),
]
