"""Sound ways of computing sums, softmax, variance, attention and convolutions that are not torch's
own."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def shifted_softmax(x: Tensor, dim: int) -> Tensor:
    shifted = (x - x.amax(dim, keepdim=True).detach()).exp()
    return shifted / shifted.sum(dim, keepdim=True)


def shifted_log_softmax(x: Tensor, dim: int) -> Tensor:
    shifted = x - x.amax(dim, keepdim=True).detach()
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def online_softmax(x: Tensor, dim: int, block: int = 16) -> Tensor:
    """In blocks, each rescaled when a larger maximum turns up, as fused attention does."""
    if not x.ndim:
        return x.softmax(dim)
    parts = x.split(block, dim)
    top = parts[0].amax(dim, keepdim=True)
    total = (parts[0] - top).exp().sum(dim, keepdim=True)
    for part in parts[1:]:
        new = torch.maximum(top, part.amax(dim, keepdim=True))
        total = total * (top - new).exp() + (part - new).exp().sum(dim, keepdim=True)
        top = new
    return (x - top).exp() / total


def shifted_logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    top = x.amax(dim, keepdim=True).nan_to_num(nan=math.nan, posinf=0.0, neginf=0.0)
    total = (x - top).exp().sum(dim, keepdim=True).log() + top
    return total if keepdim else total.reshape(torch.logsumexp(x, dim).shape)


def addend(x: Tensor, beta: float) -> Tensor:
    """What is added to a product: with beta = 0 torch promises to ignore it, even NaN."""
    return beta * x if beta else torch.zeros_like(x)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: Any = None,
) -> Tensor:
    """The key is scaled rather than the scores, and the weights divided at the end."""
    scores = q @ (k * (1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)).mT
    if is_causal:
        scores = scores.masked_fill(
            ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf
        )
    if attn_mask is not None:
        scores = (
            scores.masked_fill(~attn_mask, -math.inf)
            if attn_mask.dtype == torch.bool
            else scores + attn_mask
        )
    hidden = (scores == -math.inf).all(-1, keepdim=True)  # such a query's result is 0
    largest = scores.amax(-1, keepdim=True).detach().masked_fill(hidden, 0.0)
    weights = (scores - largest).exp()
    return (weights @ v) / weights.sum(-1, keepdim=True).masked_fill(hidden, 1.0)


def rounded_product(a: Tensor, b: Tensor, c: Tensor, value: Any = 1) -> Tensor:
    """Product first, where it stays within the format."""
    product = b * c
    inside = (product.abs() > torch.finfo(product.dtype).tiny) & product.isfinite()
    return torch.where(inside, a + value * product, torch.addcmul(a, b, c, value=value))


def welford(x: Tensor, dim: Any = None, **options: Any) -> Tensor:
    """Two passes: the squares of the differences from the mean."""
    scale = to_small(x)
    return squares_from_the_mean(x * scale, dim, **options) / scale / scale


def two_passes_and_a_root(x: Tensor, dim: Any = None, **options: Any) -> Tensor:
    scale = to_small(x)
    return squares_from_the_mean(x * scale, dim, **options).sqrt() / scale


def to_small(x: Tensor) -> float:
    """A power of two that brings large numbers to no more than 1, so that no square leaves the
    format."""
    largest = float(x.detach().abs().max()) if x.numel() else 0.0
    return 2.0 ** -math.frexp(largest)[1] if math.isfinite(largest) and largest > 1.0 else 1.0


def squares_from_the_mean(x: Tensor, dim: Any = None, **options: Any) -> Tensor:
    dims = list(range(x.ndim)) if dim is None else dim
    n = (
        x.numel()
        if dim is None
        else math.prod(x.shape[d] for d in ([dim] if isinstance(dim, int) else dim))
    )
    correction = options.get("correction", 1 if options.get("unbiased", True) else 0)
    squares = (
        (x - x.mean(dims, keepdim=True)).square().sum(dims, keepdim=options.get("keepdim", False))
    )
    return squares / max(n - correction, 0) if n > correction else squares / 0.0


def halves(x: Tensor, **options: Any) -> Tensor:
    """A sum of even and odd positions."""
    x, dim = x.to(options.get("dtype") or x.dtype), options.pop("dim", None)
    if x.ndim and (dim is None or dim in ([], ())):
        dim = list(range(x.ndim))
    if not x.ndim:
        return x.clone()
    last = dim if isinstance(dim, int) else dim[-1]
    even = torch.arange(0, x.shape[last], 2)
    odd = torch.arange(1, x.shape[last], 2)
    return x.index_select(last, even).sum(dim, **options) + x.index_select(last, odd).sum(
        dim, **options
    )


def kahan(x: Tensor, **options: Any) -> Tensor:
    """Compensated, one term after another."""
    x, dim = x.to(options.get("dtype") or x.dtype), options.get("dim")
    dims = [dim] if isinstance(dim, int) else list(dim or range(x.ndim))
    if not x.ndim or not x.numel():
        return x.sum(**options)
    terms = x.movedim(dims, list(range(len(dims)))).flatten(0, len(dims) - 1)
    total, carry = torch.zeros_like(terms[0]), torch.zeros_like(terms[0])
    for term in terms:
        y = term - carry
        t = total + y
        carry = (t - total) - y
        total = t
    return total.reshape(x.sum(**options).shape)


def columns(
    x: Tensor,
    weight: Tensor,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution as a matrix product over unfolded windows, group by group."""
    plain = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    if padding == "same" or not plain.numel() or x.ndim != 4 or not weight.numel():
        return plain
    amount = 0 if padding == "valid" else padding
    parts = []
    for part, kernel in zip(x.chunk(groups, 1), weight.chunk(groups, 0), strict=True):
        windows = F.unfold(part, kernel.shape[2:], dilation, amount, stride)
        parts.append(kernel.flatten(1) @ windows)
    result = torch.cat(parts, 1).reshape(plain.shape)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def channels_last(x: Tensor, weight: Tensor, bias: Any = None, **options: Any) -> Tensor:
    if x.ndim != 4:
        return F.conv2d(x, weight, bias, **options)
    form = torch.channels_last
    return F.conv2d(
        x.contiguous(memory_format=form), weight.contiguous(memory_format=form), bias, **options
    )


def entropy(x: Tensor, target: Tensor, **options: Any) -> Tensor:
    """Through log_softmax and nll_loss, where nothing else is asked for."""
    if target.is_floating_point() or "label_smoothing" in options or x.ndim < 2:
        return F.cross_entropy(x, target, **options)
    return F.nll_loss(F.log_softmax(x, 1), target, **options)


def weighted(terms: Tensor, reduction: str, weight: Tensor | None) -> Tensor:
    """A weighted mean divides by the sum of the weights."""
    if weight is None or reduction != "mean":
        return reduced(terms if weight is None else terms * weight, reduction)
    return (terms * weight).sum() / weight.sum()


def default_eps(x: Tensor, eps: float | None) -> float:
    """That of rms_norm: half formats compute in float32."""
    return torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps if eps is None else eps


def huber(
    x: Tensor, y: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    gap = (x - y).abs()
    terms = torch.where(gap < delta, 0.5 * gap * gap, delta * gap - 0.5 * delta * delta)
    # torch divides this mean by the number of terms, that of mse_loss by the sum of the weights.
    return reduced(terms if weight is None else terms * weight, reduction)


def reduced(x: Tensor, how: str) -> Tensor:
    return x.sum() if how == "sum" else x.mean() if how == "mean" else x


def folded(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Any,
    bias: Any,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Running statistics, weight and bias as one factor and one term per channel, as compilers fold
    them."""
    if training:
        return F.batch_norm(x, mean, variance, weight, bias, True, momentum, eps)
    factor = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
    term = (0.0 if bias is None else bias) - mean * factor
    shape = (-1, *[1] * (x.ndim - 2))
    return x * factor.reshape(shape) + term.reshape(shape)


def half_split_mm(a: Tensor, b: Tensor) -> Tensor:
    """K in two halves, added."""
    k = a.shape[-1] // 2
    return a[..., :k] @ (b[..., :k, :] if b.ndim > 1 else b[:k]) + a[..., k:] @ (
        b[..., k:, :] if b.ndim > 1 else b[k:]
    )


def rounded_quotient(a: Tensor, b: Tensor, c: Tensor, value: Any = 1) -> Tensor:
    """addcdiv whose quotient is rounded before it is multiplied, where it is a normal number."""
    quotient = b / c
    size = quotient.detach().abs()
    normal = (size >= torch.finfo(quotient.dtype).tiny) & size.isfinite()
    return torch.where(normal, a + value * quotient, torch.addcdiv(a, b, c, value=value))
