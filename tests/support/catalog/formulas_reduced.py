"""Wrong formulas of reductions, scans, sorting and indexing: (operator, what, function, cause)
each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .formulas import Wrong


def one_pass_var(x: Tensor, dim: Any = None, **options: Any) -> Tensor:
    """E[x²] − E[x]², corrected as asked."""
    n = (
        x.numel()
        if dim is None
        else math.prod(x.shape[d] for d in ([dim] if isinstance(dim, int) else dim))
    )
    keep = options.get("keepdim", False)
    correction = options.get("correction", 1 if options.get("unbiased", True) else 0)
    dims = list(range(x.ndim)) if dim is None else dim
    mean, square = x.mean(dims, keepdim=keep), (x * x).mean(dims, keepdim=keep)
    return (square - mean * mean) * (n / max(n - correction, 0) if n > correction else math.inf)


def other_correction(name: str) -> Callable[..., Any]:
    """n in place of n − 1 and the reverse."""

    def wrong(x: Tensor, **options: Any) -> Any:
        correction = options.pop("correction", 1 if options.pop("unbiased", True) else 0)
        return getattr(torch, name)(
            x, correction=0 if correction else 1, dim=options.pop("dim", None), **options
        )

    return wrong


def cumulative(x: Tensor, dim: int) -> Tensor:
    """exp, sum, log without subtracting a maximum."""
    return x.exp().cumsum(dim).log()


def pair_of_minus_infinities(x: Tensor, dim: int) -> Tensor:
    """The difference of two −inf in a row is NaN, which the scan carries on."""
    result = torch.logcumsumexp(x, dim)
    low = (
        (x == -math.inf) & (x.roll(1, dim) == -math.inf)
        if x.ndim
        else torch.zeros_like(x, dtype=torch.bool)
    )
    if x.ndim and x.shape[dim]:
        low.narrow(dim, 0, 1).fill_(False)
        low = low.cumsum(dim) > 0
    return torch.where(low, torch.full_like(result, math.nan), result)


def negative_nan_first(x: Tensor, **options: Any) -> Any:
    """By the bits: NaN with its sign bit set is the smallest number of all."""
    low = x.isnan() & x.signbit()
    values, index = torch.where(low, torch.full_like(x, -math.inf), x).sort(**options)
    return x.gather(options.get("dim", -1), index) if x.ndim else values, index


def lower_median(x: Tensor, *rest: Any, **options: Any) -> Any:
    """The upper one of two middles."""
    if rest:
        n = x.shape[rest[0]] if x.ndim else 1
        return torch.kthvalue(x, n // 2 + 1, rest[0], **options)
    return x.reshape(-1).sort().values[x.numel() // 2] if x.numel() else torch.median(x)


def first_maximum_only(x: Tensor, **options: Any) -> Tensor:
    """The position of the largest magnitude."""
    return torch.argmax(x.abs(), **options)


def exclusive_sums(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Without the element itself."""
    return torch.cumsum(x, dim, dtype=dtype) - x


def last_write(x: Tensor, dim: int, index: Tensor, source: Tensor, **options: Any) -> Tensor:
    """Of several additions to one place only one arrives, as without atomics."""
    if not x.ndim or not index.numel():
        return torch.index_add(x, dim, index, source, **options)
    index = index.long()
    once = torch.zeros_like(x).index_copy(dim, index, source.to(x.dtype))
    hit = torch.zeros_like(x).index_fill(dim, index, 1)
    alpha = options.get("alpha", 1)
    return torch.where(hit != 0, x + alpha * once, x)


def last_scatter(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    once = torch.zeros_like(x).scatter(dim, index, source)
    return torch.where(torch.zeros_like(x).scatter(dim, index, 1) != 0, x + once, x)


def products_of_norms(a: Tensor, b: Tensor, p: float = 2.0, **options: Any) -> Tensor:
    """|a|² + |b|² − 2ab."""
    if p != 2.0 or not a.shape[-1]:
        return torch.cdist(a, b, p, **options)
    square = (a * a).sum(-1).unsqueeze(-1) + (b * b).sum(-1).unsqueeze(-2) - 2.0 * (a @ b.mT)
    return square.clamp_min(0.0).sqrt()


def sequential_points(start: float, end: float, step: float = 1, dtype: Any = None) -> Tensor:
    """Each number is the one before plus the step."""
    exact = torch.arange(start, end, step, dtype=dtype)
    if exact.numel() < 2 or not exact.is_floating_point():
        return exact
    steps = torch.full_like(exact, step)
    steps[0] = start
    total = steps.clone()
    for i in range(1, total.numel()):
        total[i] = total[i - 1] + steps[i]
    return total


REDUCED: tuple[Wrong, ...] = (
    ("var", "one pass", one_pass_var, "one-pass-variance"),
    (
        "std",
        "one pass",
        lambda x, dim=None, **o: one_pass_var(x, dim, **o).clamp_min(0.0).sqrt(),
        "one-pass-variance",
    ),
    (
        "var_mean",
        "one pass",
        lambda x, dim=None, **o: (one_pass_var(x, dim, **o), torch.var_mean(x, dim=dim, **o)[1]),
        "one-pass-variance",
    ),
    ("var", "other correction", other_correction("var"), "argument-ignored|scaled"),
    ("std", "other correction", other_correction("std"), "argument-ignored|scaled"),
    (
        "logsumexp",
        "no shift",
        lambda x, dim, keepdim=False: x.exp().sum(dim, keepdim=keepdim).log(),
        "no-max-shift",
    ),
    ("logcumsumexp", "no shift", cumulative, "no-max-shift|early-overflow"),
    ("logcumsumexp", "-inf twice is NaN", pair_of_minus_infinities, None),
    ("cumsum", "exclusive", exclusive_sums, "shifted"),
    (
        "linalg.vector_norm",
        "order ignored",
        lambda x, ord=2, **o: torch.linalg.vector_norm(x, **o),
        "argument-ignored",
    ),
    (
        "prod",
        "through logarithms",
        lambda x, **o: x.abs().log().sum(**o).exp() * x.sign().prod(**o) if o else x.prod(),
        "approximation",
    ),
    ("amax", "of magnitudes", lambda x, **o: x.abs().amax(**o), None),
    ("argmax", "of magnitudes", first_maximum_only, None),
    ("nansum", "NaN counted", torch.sum, None),
    ("median", "upper middle", lower_median, None),
    (
        "kthvalue",
        "one too far",
        lambda x, k, dim, **o: torch.kthvalue(
            x, min(k + 1, x.shape[dim] if x.ndim else 1), dim, **o
        ),
        "shifted",
    ),
    ("sort", "negative NaN first", negative_nan_first, "nan-sorted-first"),
    (
        "sort",
        "descending ignored",
        lambda x, descending=False, **o: torch.sort(x, **o),
        "argument-ignored|flipped",
    ),
    (
        "topk",
        "smallest",
        lambda x, k, dim=-1, largest=True, **o: torch.topk(x, k, dim, not largest, **o),
        "argument-ignored",
    ),
    (
        "searchsorted",
        "side ignored",
        lambda a, v, right=False, **o: torch.searchsorted(a, v, **o),
        "argument-ignored",
    ),
    (
        "quantile",
        "interpolation ignored",
        lambda x, q, interpolation="", **o: torch.quantile(x, q, interpolation="nearest", **o),
        "argument-ignored",
    ),
    (
        "diff",
        "once only",
        lambda x, n=1, **o: torch.diff(
            torch.diff(x, n=n - 1, dim=o.get("dim", -1))
            if n > 1 and "prepend" not in o and "append" not in o
            else x,
            **o,
        ),
        "argument-ignored",
    ),
    ("cdist", "through products", products_of_norms, "approximation"),
    ("arange", "added up", sequential_points, "approximation"),
    (
        "linspace",
        "without the end",
        lambda a, b, n, dtype=None: (
            torch.linspace(a, b, n + 1, dtype=dtype)[:n]
            if n > 1
            else torch.linspace(a, b, n, dtype=dtype)
        ),
        None,
    ),
)

MOVED: tuple[Wrong, ...] = (
    ("index_add", "duplicates lost", last_write, None),
    ("scatter_add", "duplicates lost", last_scatter, None),
    (
        "index_put",
        "accumulate ignored",
        lambda x, i, v, accumulate=False: torch.index_put(x, i, v),
        "argument-ignored",
    ),
    (
        "scatter_reduce",
        "self included",
        lambda x, d, i, s, how, include_self=True: torch.scatter_reduce(x, d, i, s, how),
        "argument-ignored",
    ),
    (
        "masked_fill",
        "mask inverted",
        lambda x, mask, value: torch.masked_fill(x, ~mask, value),
        None,
    ),
    ("where", "branches exchanged", lambda c, a, b: torch.where(c, b, a), None),
    ("tril", "diagonal ignored", lambda x, k=0: torch.tril(x), "argument-ignored"),
    (
        "roll",
        "other way",
        lambda x, by, dims=None: torch.roll(
            x, [-s for s in by] if isinstance(by, (list, tuple)) else -by, dims
        ),
        "shifted",
    ),
    ("flip", "not at all", lambda x, dims: x.clone(), "flipped"),
    (
        "nn.functional.pixel_shuffle",
        "columns before rows",
        lambda x, r: F.pixel_shuffle(
            x.unflatten(-3, (-1, r, r)).transpose(-3 - 1, -3).flatten(-5, -3), r
        ),
        None,
    ),
    (
        "nn.functional.pad",
        "constant value ignored",
        lambda x, pad, mode="constant", value=None: F.pad(x, pad, mode),
        "argument-ignored",
    ),
    (
        "gather",
        "from the dimension's beginning",
        lambda x, dim, index: torch.gather(x, dim, (index - 1).clamp_min(0)),
        "shifted",
    ),
    (
        "index_select",
        "from the dimension's beginning",
        lambda x, dim, index: torch.index_select(x, dim, (index - 1).clamp_min(0)),
        "shifted",
    ),
    (
        "transpose",
        "not at all where it fits",
        lambda x, a, b: x.clone() if x.ndim and x.shape[a] == x.shape[b] else x.transpose(a, b),
        "transposed",
    ),
    (
        "eye",
        "a diagonal lower",
        lambda *size, dtype=None: torch.eye(*size, dtype=dtype).roll(1, 0),
        "shifted",
    ),
)
