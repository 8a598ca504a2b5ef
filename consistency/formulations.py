"""Other ways to write an operator, in terms of operators that a backend has as well: tried as work-arounds.

A formulation is a function of ``call`` (which runs a named operator on the backend under test) and the operator's arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

Call = Callable[..., Any]
Formulation = Callable[..., Any]


def _linear(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    product = call("matmul", x, weight.T)
    return product if bias is None else call("add", product, bias)


def _matmul(call: Call, x: Any, y: Any) -> Any:
    if x.ndim < 2 or y.ndim < 2:
        raise NotImplementedError
    return call("sum", call("mul", x.unsqueeze(-1), y.unsqueeze(-3)), -2)


def _softmax(call: Call, x: Any, dim: int) -> Any:
    shifted = call("exp", call("sub", x, call("amax", x, dim, keepdim=True)))
    return call("div", shifted, call("sum", shifted, dim, keepdim=True))


def _log_softmax(call: Call, x: Any, dim: int) -> Any:
    shifted = call("sub", x, call("amax", x, dim, keepdim=True))
    return call("sub", shifted, call("log", call("sum", call("exp", shifted), dim, keepdim=True)))


def _layer_norm(call: Call, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    dims = list(range(-len(shape), 0))
    centred = call("sub", x, call("mean", x, dims, keepdim=True))
    variance = call("mean", call("mul", centred, centred), dims, keepdim=True)
    y = call("mul", centred, call("rsqrt", call("add", variance, eps)))
    y = y if weight is None else call("mul", y, weight)
    return y if bias is None else call("add", y, bias)


def _group_norm(call: Call, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    y = _layer_norm(call, x.reshape(x.shape[0], groups, -1), [x[0].numel() // groups], None, None, eps).reshape(x.shape)
    channels = [1, x.shape[1], *[1] * (x.ndim - 2)]
    y = y if weight is None else call("mul", y, weight.reshape(channels))
    return y if bias is None else call("add", y, bias.reshape(channels))


def _masked_fill(call: Call, x: Any, mask: Any, value: Any) -> Any:
    return call("where", mask, torch.as_tensor(value, dtype=x.dtype, device=x.device), x)


def _var(call: Call, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    centred = call("sub", x, call("mean", x, dims, keepdim=True))
    total = call("sum", call("mul", centred, centred), dims, keepdim=keepdim)
    return call("div", total, math.prod(x.shape[d] for d in dims) - correction)


def _gelu(call: Call, x: Any, *, approximate: str = "none") -> Any:
    if approximate != "none":
        raise NotImplementedError
    return call("mul", x, call("mul", call("special.erfc", call("mul", x, -math.sqrt(0.5))), 0.5))


# Operator → [(words for the work-around, how)].
FORMULATIONS: dict[str, list[tuple[str, Formulation]]] = {
    "nn.functional.linear": [("x @ weight.T + bias", _linear)],
    "matmul": [("(x[…, :, None] * y).sum(-2)", _matmul)],
    "mm": [("(x[:, :, None] * y).sum(-2)", _matmul)],
    "bmm": [("(x[…, :, None] * y).sum(-2)", _matmul)],
    "softmax": [("exp(x − max) / sum written out", _softmax)],
    "log_softmax": [("(x − max) − log(sum(exp)) written out", _log_softmax)],
    "nn.functional.layer_norm": [("mean and variance written out", _layer_norm)],
    "nn.functional.group_norm": [("mean and variance written out", _group_norm)],
    "masked_fill": [("torch.where(mask, value, x)", _masked_fill)],
    "var": [("the mean of squared differences written out", _var)],
    "nn.functional.gelu": [("x · erfc(−x/√2) / 2", _gelu)],
}
