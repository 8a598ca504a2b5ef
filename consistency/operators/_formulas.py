"""Operators written otherwise, in terms of others. ``call(name, …)`` runs a named operator,
wherever the formula is tried.

What only moves data (views, cat, indexing) is written plainly; every step that computes goes
through ``call``. By how much softmax is shifted makes no difference to its gradient, so the shift
is detached.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

Run = Callable[..., Any]
Formula = Callable[..., Any]


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
    centred = call("sub", x, call("mean", x, dims, keepdim=True))
    variance = call("mean", call("mul", centred, centred), dims, keepdim=True)
    y = call("mul", centred, call("rsqrt", call("add", variance, eps)))
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


def masked_fill(call: Run, x: Any, mask: Any, value: Any) -> Any:
    return call("where", mask, torch.as_tensor(value, dtype=x.dtype, device=x.device), x)


def var(call: Run, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    centred = call("sub", x, call("mean", x, dims, keepdim=True))
    total = call("sum", call("mul", centred, centred), dims, keepdim=keepdim)
    return call("div", total, math.prod(x.shape[d] for d in dims) - correction)


def std(call: Run, x: Any, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    return call("sqrt", var(call, x, dim, correction=correction, keepdim=keepdim))


def mean(call: Run, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return call("div", call("sum", x, dims, keepdim=keepdim), math.prod(x.shape[d] for d in dims))


def norm(call: Run, x: Any) -> Any:
    return call("sqrt", call("sum", call("mul", x, x)))


def gelu(call: Run, x: Any, *, approximate: str = "none") -> Any:
    if approximate != "none":
        raise NotImplementedError
    return call("mul", x, call("mul", call("special.erfc", call("mul", x, -math.sqrt(0.5))), 0.5))


def silu(call: Run, x: Any) -> Any:
    return call("div", x, call("add", call("exp", call("neg", x)), 1.0))


def sigmoid(call: Run, x: Any) -> Any:
    return call("reciprocal", call("add", call("exp", call("neg", x)), 1.0))


def tanh(call: Run, x: Any) -> Any:
    return call("sub", call("mul", call("sigmoid", call("mul", x, 2.0)), 2.0), 1.0)


def softplus(call: Run, x: Any) -> Any:
    return call("logaddexp", x, torch.zeros_like(x))


def mish(call: Run, x: Any) -> Any:
    return call("mul", x, call("tanh", call("nn.functional.softplus", x)))


def relu(call: Run, x: Any) -> Any:
    return call("clamp_min", x, 0.0)


def attention(call: Run, query: Any, key: Any, value: Any) -> Any:
    scores = call(
        "mul", call("matmul", query, key.transpose(-2, -1)), 1.0 / math.sqrt(query.shape[-1])
    )
    return call("matmul", call("softmax", scores, -1), value)


def cross_entropy(call: Run, x: Any, target: Any) -> Any:
    chosen = call("log_softmax", x, 1).gather(1, target.unsqueeze(1))
    return call("neg", call("mean", chosen))


def mse_loss(call: Run, x: Any, y: Any) -> Any:
    difference = call("sub", x, y)
    return call("mean", call("mul", difference, difference))


def l1_loss(call: Run, x: Any, y: Any) -> Any:
    return call("mean", call("abs", call("sub", x, y)))


def cosine_similarity(call: Run, x: Any, y: Any) -> Any:
    length = call(
        "sqrt", call("mul", call("sum", call("mul", x, x), -1), call("sum", call("mul", y, y), -1))
    )
    return call("div", call("sum", call("mul", x, y), -1), length)


def pairwise_distance(call: Run, x: Any, y: Any) -> Any:
    difference = call("add", call("sub", x, y), 1e-6)
    return call("sqrt", call("sum", call("mul", difference, difference), -1))


def cdist(call: Run, x: Any, y: Any) -> Any:
    difference = call("sub", x.unsqueeze(-2), y.unsqueeze(-3))
    return call("sqrt", call("sum", call("mul", difference, difference), -1))


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


def embedding(call: Run, index: Any, table: Any) -> Any:
    return call("matmul", functional.one_hot(index, table.shape[0]).to(table.dtype), table)


def index_add(call: Run, x: Any, dim: int, index: Any, source: Any) -> Any:
    return call(
        "add", x, call("matmul", functional.one_hot(index, x.shape[0]).to(x.dtype).T, source)
    )


def scatter_add(call: Run, x: Any, dim: int, index: Any, source: Any) -> Any:
    hot = functional.one_hot(index, x.shape[-1]).to(x.dtype)
    return call("add", x, call("sum", call("mul", hot, source.unsqueeze(-1)), -2))


def gather(call: Run, x: Any, dim: int, index: Any) -> Any:
    rows = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
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


def tensordot(call: Run, x: Any, y: Any, dims: int = 1) -> Any:
    if dims != 1:
        raise NotImplementedError
    return call("einsum", "...i,ij->...j", x, y)


def pad(call: Run, x: Any, widths: Any) -> Any:
    left, right = (x.new_zeros(*x.shape[:-1], n) for n in widths)
    return call("cat", [left, x, right], -1)


def stack(call: Run, tensors: Any) -> Any:
    return call("cat", [t.unsqueeze(0) for t in tensors], 0)


def roll(call: Run, x: Any, shift: int, dim: int) -> Any:
    at = x.shape[0] - shift % x.shape[0]
    return call("cat", [x[at:], x[:at]], 0)


def where(call: Run, mask: Any, x: Any, y: Any) -> Any:
    kept = mask.to(x.dtype)
    return call("add", call("mul", x, kept), call("mul", y, call("rsub", kept, 1.0)))


def lerp(call: Run, x: Any, y: Any, weight: float) -> Any:
    return call("add", x, call("mul", call("sub", y, x), weight))


def hypot(call: Run, x: Any, y: Any) -> Any:
    return call("sqrt", call("add", call("mul", x, x), call("mul", y, y)))


def inverse(call: Run, x: Any) -> Any:
    return call("linalg.solve", x, torch.eye(x.shape[-1], dtype=x.dtype, device=x.device))


def amin(call: Run, x: Any, dim: int) -> Any:
    return call("neg", call("amax", call("neg", x), dim))
