"""Softmax, norms and moments, written out."""

from __future__ import annotations

import math
from typing import Any

from ..declare import Call, Drawing, call
from .declaration import APART, FREE, SUMS, THROUGH_SUMS, OperatorFormula, Run, rows


def layer_norm_arguments(d: Drawing) -> Call:
    size = d.size(2, 257)
    affine = [d.tensor((size,), FREE) for _ in range(2 * d.flag())]
    return call(d.tensor((*d.shape(0, 2, most=9), size), FREE), [size], *affine)


def rms_norm_arguments(d: Drawing) -> Call:
    size = d.size(2, 257)
    return call(
        d.tensor((*d.shape(0, 2, most=9), size), FREE),
        [size],
        d.tensor((size,), FREE) if d.flag() else None,
        2.0**-10,
    )


def group_norm_arguments(d: Drawing) -> Call:
    groups, width = d.size(1, 4), d.size(1, 4)
    affine = [d.tensor((groups * width,), FREE) for _ in range(2 * d.flag())]
    return call(d.tensor((d.size(1, 4), groups * width, d.size(2, 17)), FREE), groups, *affine)


def normalize_arguments(d: Drawing) -> Call:
    return call(
        d.tensor((d.size(1, 17), d.size(2, 65)), APART)
    )  # of a single number only the sign would be left


def softmax(call: Run, x: Any, dim: int) -> Any:
    shifted = call("exp", call("sub", x, call("amax", x.detach(), dim, keepdim=True)))
    return call("div", shifted, call("sum", shifted, dim, keepdim=True))


def log_softmax(call: Run, x: Any, dim: int) -> Any:
    shifted = call("sub", x, call("amax", x.detach(), dim, keepdim=True))
    return call("sub", shifted, call("log", call("sum", call("exp", shifted), dim, keepdim=True)))


def logsumexp(call: Run, x: Any, dim: Any, keepdim: bool = False) -> Any:
    top = call("amax", x, dim, keepdim=True)
    total = call("sum", call("exp", call("sub", x, top)), dim, keepdim=True)
    result = call("add", call("log", total), top)
    return result if keepdim else without(result, dim)


def without(x: Any, dims: Any) -> Any:
    """Without these dimensions, each of size 1."""
    chosen = {d % max(x.ndim, 1) for d in ([dims] if isinstance(dims, int) else dims)}
    return x.reshape([n for i, n in enumerate(x.shape) if i not in chosen])


def layer_norm(
    call: Run, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    dims = list(range(-len(shape), 0))
    centered = call("sub", x, call("mean", x, dims, keepdim=True))
    variance = call("mean", call("mul", centered, centered), dims, keepdim=True)
    y = call("mul", centered, call("rsqrt", call("add", variance, eps)))
    y = y if weight is None else call("mul", y, weight)
    return y if bias is None else call("add", y, bias)


def rms_norm(call: Run, x: Any, shape: Any, weight: Any = None, eps: float = 1e-5) -> Any:
    mean = call("mean", call("mul", x, x), list(range(-len(shape), 0)), keepdim=True)
    y = call("mul", x, call("rsqrt", call("add", mean, eps)))
    return y if weight is None else call("mul", y, weight)


def group_norm(
    call: Run, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    y = layer_norm(
        call, x.reshape(x.shape[0], groups, -1), [x[0].numel() // groups], None, None, eps
    ).reshape(x.shape)
    channels = [1, x.shape[1], *[1] * (x.ndim - 2)]
    y = y if weight is None else call("mul", y, weight.reshape(channels))
    return y if bias is None else call("add", y, bias.reshape(channels))


def normalize(call: Run, x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    if p != 2.0:
        raise NotImplementedError
    length = call("sqrt", call("sum", call("mul", x, x), dim, keepdim=True))
    return call("div", x, call("clamp_min", length, eps))


def var(call: Run, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    centered = call("sub", x, call("mean", x, dims, keepdim=True))
    total = call("sum", call("mul", centered, centered), dims, keepdim=keepdim)
    return call("div", total, math.prod(x.shape[d] for d in dims) - correction)


def std(call: Run, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    return call("sqrt", var(call, x, dim, correction=correction, keepdim=keepdim))


def mean(call: Run, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return call("div", call("sum", x, dims, keepdim=keepdim), math.prod(x.shape[d] for d in dims))


def norm(call: Run, x: Any) -> Any:
    return call("sqrt", call("sum", call("mul", x, x)))


FORMULAS = [
    OperatorFormula(
        "softmax", "softmax", "exp(x − max) / sum written out", softmax, rows(FREE, least=3)
    ),
    OperatorFormula(
        "log_softmax",
        "log_softmax",
        "(x − max) − log(sum(exp)) written out",
        log_softmax,
        rows(FREE, least=3),
    ),
    OperatorFormula(
        "logsumexp",
        "logsumexp",
        "log(sum(exp(x − max))) + max",
        logsumexp,
        rows(FREE),
        traits=THROUGH_SUMS,
    ),
    OperatorFormula(
        "layer_norm",
        "nn.functional.layer_norm",
        "mean and variance written out",
        layer_norm,
        layer_norm_arguments,
    ),
    OperatorFormula(
        "rms_norm",
        "nn.functional.rms_norm",
        "the mean of squares written out",
        rms_norm,
        rms_norm_arguments,
    ),
    OperatorFormula(
        "group_norm",
        "nn.functional.group_norm",
        "mean and variance written out",
        group_norm,
        group_norm_arguments,
    ),
    OperatorFormula(
        "normalize", "nn.functional.normalize", "x / sqrt(sum(x²))", normalize, normalize_arguments
    ),
    OperatorFormula(
        "var", "var", "the mean of squared differences written out", var, rows(SUMS, least=2)
    ),
    # For equal numbers (a bitstream begins with blanks) the gradient is not defined.
    OperatorFormula(
        "std",
        "std",
        "the root of the mean of squared differences",
        std,
        rows(APART, least=3, distinct=True),
        differentiable=False,
    ),
    OperatorFormula("mean", "mean", "sum / n", mean, rows()),
    OperatorFormula(
        "norm",
        "linalg.vector_norm",
        "sqrt(sum(x²))",
        norm,
        rows(APART, dims=False),
        traits=THROUGH_SUMS,
    ),
]
