"""A torch with faults of many kinds, one an operator: a copy of this is the sitecustomize.py of a
backend of the tests."""

import os
import time

import torch
import torch.nn.functional as F

T = torch.Tensor
_calls = [0]


def plant(owner, name):
    """Replaces ``owner.name`` by the function below, which is handed the healthy one first."""
    healthy = getattr(owner, name)

    def decorate(faulty):
        def function(*args, **kwargs):
            return faulty(healthy, *args, **kwargs)

        setattr(owner, name, function)
        return faulty

    return decorate


def cut(x, bits=13):
    """Fewer bits of the significand, as TF32 has."""
    if x.dtype != torch.float32:
        return x
    return (x.detach().contiguous().view(torch.int32) >> bits << bits).view(torch.float32)


def slope(x, by=0.01):
    """0 with a gradient: what it is added to has a wrong one."""
    return torch.where(x.isfinite(), by * (x - x.detach()), 0.0) if x.requires_grad else 0.0


# Values


@plant(torch, "exp")
def exp(healthy, x):
    return torch.where(x > 1.0, healthy(x) * 1.001, healthy(x))


@plant(torch, "sin")
def sin(healthy, x):
    return healthy(x.to(torch.bfloat16).to(x.dtype))


@plant(torch, "matmul")
def matmul(healthy, x, y):
    return healthy(cut(x), cut(y))


@plant(torch, "sum")
def total(healthy, x, *args, **kwargs):
    return (
        healthy(torch.where(x == x.max(), 0.0, x), *args, **kwargs)
        if x.numel() % 8 == 0
        else healthy(x, *args, **kwargs)
    )


@plant(torch, "mean")
def mean(healthy, x, *args, **kwargs):
    return healthy(x, *args, **kwargs) * (1.0 + 1.0 / max(x.numel(), 1))


@plant(F, "gelu")
def gelu(healthy, x, approximate="none"):
    return healthy(x, approximate="tanh")


@plant(F, "layer_norm")
def layer_norm(healthy, x, shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(shape), 0))
    m = x.mean(dims, keepdim=True)
    y = (x - m) * torch.rsqrt((x * x).mean(dims, keepdim=True) - m * m + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@plant(torch, "cumsum")
def cumsum(healthy, x, dim, **kwargs):
    return healthy(x.to(torch.float16), dim, **kwargs).to(x.dtype)


@plant(F, "conv2d")
def conv2d(healthy, x, weight, *args, **kwargs):
    return healthy(x, torch.cat([weight[..., :-1], weight[..., -1:] * 1.01], -1), *args, **kwargs)


@plant(torch, "mm")
def mm(healthy, x, y):
    total = torch.zeros(x.shape[0], y.shape[1], dtype=x.dtype)
    for k in range(x.shape[1]):
        total = total + x[:, k : k + 1] * y[k : k + 1]
    return total


@plant(torch, "bitwise_and")
def bitwise_and(healthy, x, y):
    return healthy(x, y) ^ 2


@plant(torch, "sub")
def sub(healthy, x, y, **kwargs):
    found = healthy(x, y, **kwargs)
    return found if found.dtype.is_floating_point else found.to(torch.float32).to(found.dtype)


@plant(torch, "_foreach_add")
def foreach_add(healthy, first, *rest, **kwargs):
    found = list(healthy(first, *rest, **kwargs))
    return [found[0] * 1.01, *found[1:]]


@plant(torch, "topk")
def topk(healthy, x, k, *args, **kwargs):
    values, index = healthy(x, k, *args, **kwargs)
    return values, torch.zeros_like(index)


@plant(torch.fft, "rfft")
def rfft(healthy, x, *args, **kwargs):
    return healthy(x, *args, **kwargs).conj().resolve_conj()


@plant(torch, "angle")
def angle(healthy, x):
    return healthy(x) * 1.001


@plant(F, "embedding")
def embedding(healthy, index, weight, *args, **kwargs):
    return healthy((index + 1) % weight.shape[0], weight, *args, **kwargs)


@plant(torch.linalg, "matrix_norm")
def matrix_norm(healthy, x, *args, **kwargs):
    return healthy(x, *args, **kwargs) * 1.0001


# Gradients


@plant(torch, "tanh")
def tanh(healthy, x, **kwargs):
    return healthy(x, **kwargs) + slope(x)


@plant(torch, "sigmoid")
def sigmoid(healthy, x, **kwargs):
    return healthy(x, **kwargs) + slope(x, 0.5)


@plant(F, "softplus")
def softplus(healthy, x, *args, **kwargs):
    return healthy(x, *args, **kwargs) + slope(x, -0.25)


@plant(torch, "mv")
def mv(healthy, x, y):
    return healthy(x, y.detach() + 1.01 * (y - y.detach()))


@plant(F, "mse_loss")
def mse_loss(healthy, x, y, *args, **kwargs):
    return healthy(x.detach() + 2.0 * (x - x.detach()), y, *args, **kwargs)


# Writes


@plant(T, "mul_")
def mul_(healthy, x, y):
    if not x.is_contiguous():
        healthy(x.contiguous(), y)
        return x
    return healthy(x, y)


@plant(T, "clamp_")
def clamp_(healthy, x, low, high):
    return healthy(x, low, 0.9 * high)


@plant(torch, "neg_")
def neg_(healthy, x):
    if not x.is_contiguous():
        return x
    return healthy(x)


@plant(T, "fill_diagonal_")
def fill_diagonal_(healthy, x, value, **kwargs):
    found = healthy(x, value, **kwargs)
    if x._base is not None:
        whole = x._base.view(-1)
        whole[-1] = value
    return found


@plant(torch, "mul")
def mul(healthy, x, y, out=None):
    if out is None or out.is_contiguous():
        return healthy(x, y) if out is None else healthy(x, y, out=out)
    out.as_strided((out.numel(),), (1,), out.storage_offset()).copy_(healthy(x, y).reshape(-1))
    return out


@plant(torch, "erf")
def erf(healthy, x):
    found = healthy(x)
    if x.numel() > 1:
        x.detach().add_(1.0)
    return found


# Strides and offsets


@plant(torch, "abs")
def absolute(healthy, x):
    return healthy(x.as_strided(x.shape, x.stride(), 0))


@plant(torch, "neg")
def neg(healthy, x):
    return (
        healthy(x.flip(0))
        if x.ndim and x.shape[0] > 1 and x.stride()[0] == 1 and x.ndim > 1
        else healthy(x)
    )


@plant(torch, "sqrt")
def sqrt(healthy, x):
    found = healthy(x)
    return (
        found * 0.0
        if any(n > 1 and not s for n, s in zip(x.shape, x.stride(), strict=True))
        else found
    )


@plant(torch, "cos")
def cos(healthy, x):
    if x.ndim and not x.is_contiguous():
        return healthy(torch.roll(x, 1, -1))
    return healthy(x)


# Special values


@plant(torch, "maximum")
def maximum(healthy, x, y):
    return torch.fmax(x, y)


@plant(torch, "ceil")
def ceil(healthy, x):
    return healthy(x) + 0.0


@plant(torch, "log")
def log(healthy, x):
    return healthy(x).clamp(min=-3.0e38)


@plant(F, "relu")
def relu(healthy, x, *args):
    return torch.where(x > 0.0, x, 0.0 * x.isnan())


# Shapes and dtypes


@plant(torch, "argmax")
def argmax(healthy, x, *args, **kwargs):
    return healthy(x, *args, **kwargs).to(torch.int32)


@plant(torch, "unsqueeze")
def unsqueeze(healthy, x, dim):
    return healthy(x, 0)


@plant(torch, "aminmax")
def aminmax(healthy, x, **kwargs):
    return healthy(x, **kwargs)[0]


# What is raised, and what is not


@plant(torch, "flip")
def flip(healthy, x, *args):
    if len(x.shape) > 1:
        raise RuntimeError("this is too many dimensions")
    return healthy(x, *args)


@plant(torch.linalg, "inv")
def inv(healthy, x):
    return healthy(x) if x.det().abs().min() > 0.0 else torch.zeros_like(x)


@plant(torch, "trace")
def trace(healthy, x):
    os._exit(41)


@plant(torch, "tril")
def tril(healthy, x, *args):
    if x.numel() > 1:
        time.sleep(3600)
    return healthy(x, *args)


# Not the same twice, and precision


@plant(torch, "prod")
def prod(healthy, x, *args, **kwargs):
    _calls[0] += 1
    return healthy(x, *args, **kwargs) * (1.0 + 0.001 * (_calls[0] % 2))


@plant(torch, "var")
def var(healthy, x, *args, **kwargs):
    _calls[0] += 1
    return healthy(x, *args, **kwargs) * (1.0 + 0.01 * (_calls[0] % 3))


@plant(torch, "sinh")
def sinh(healthy, x):
    return healthy(x.to(torch.float32)).to(x.dtype)


@plant(torch, "expm1")
def expm1(healthy, x):
    return healthy(x.to(torch.float32)).to(x.dtype) if x.dtype == torch.float64 else healthy(x)


@plant(torch, "bernoulli")
def bernoulli(healthy, x, **kwargs):
    return healthy(x, **kwargs) * 2.0
