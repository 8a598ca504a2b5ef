"""Definitions that the reference follows where torch does not: results at NaN, at the ends of the
line and of a format, in float64. Elsewhere they are torch's own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..core.dtypes import TORCH, WIDE_UNSIGNED

Function = Callable[..., Any]
UNORDERED = frozenset(TORCH[name] for name in WIDE_UNSIGNED)


def nan_kept(function: Function, arguments: int | None = None) -> Function:
    """``function``, whose result is NaN where a floating-point argument is: NaN is no number, so
    nothing is known of what is computed from it (IEEE 754, 6.2). Only the first ``arguments``
    count, if given."""

    @functools.wraps(function)
    def kept(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, Tensor) or not result.is_floating_point():
            return result
        for arg in args[:arguments]:
            if isinstance(arg, Tensor) and arg.is_floating_point():
                result = torch.where(arg.isnan(), math.nan, result)
            elif isinstance(arg, float) and math.isnan(arg):
                result = torch.full_like(result, math.nan)
        return result

    return kept


def ordered(x: Any) -> Tensor:
    """A number or tensor as a tensor that torch can order: unsigned integers of more than 8 bits
    as float64."""
    tensor = torch.as_tensor(x)
    return tensor.double() if tensor.dtype in UNORDERED else tensor


@nan_kept
def zeta(x: Any, q: Any) -> Any:
    """Hurwitz's zeta: every term of its sum is 0 at q = inf, for x > 1."""
    result = torch.special.zeta(x, q)
    far = ordered(q) == math.inf
    return torch.where(far & (ordered(x) > 1), 0.0, result)


def with_limits(function: Callable[[Tensor], Tensor], right: float, left: float) -> Function:
    """``function``, with its limits at infinity and at minus infinity."""

    @functools.wraps(function)
    def limited(x: Tensor) -> Tensor:
        result = function(x)
        if not x.is_floating_point():
            return result
        return torch.where(x == math.inf, right, torch.where(x == -math.inf, left, result))

    return limited


def polygamma(n: int, x: Tensor) -> Tensor:
    """The derivatives of the digamma function: 0 at infinity (from below for even n), and infinite
    at a pole if the limits of both sides agree, as for odd n."""
    result = torch.polygamma(n, x)
    if n < 1 or not result.is_floating_point():
        return result
    x = x if x.is_floating_point() else x.double()
    result = torch.where(x == math.inf, 0.0 if n % 2 else -0.0, result)
    pole = (x <= 0) & (x == x.floor()) & x.isfinite()
    return torch.where(pole, math.inf, result) if n % 2 else result


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    """x·sigmoid(x), which goes to 0 from below at -inf."""
    low = x == -math.inf
    return torch.where(low, -0.0, torch.nn.functional.silu(torch.where(low, 0.0, x)))


def attention(query: Tensor, key: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Attention, NaN where a query holds NaN: beside few keys torch's CPU gives 0 where there is
    no mask of numbers. Gradients are torch's own."""
    result = torch.nn.functional.scaled_dot_product_attention(query, key, *args, **kwargs)
    if kwargs.get("attn_mask", args[1] if len(args) > 1 else None) is not None:
        return result
    unknown = query.isnan().any(-1, keepdim=True)
    return result + torch.where(unknown, math.nan, 0.0).to(result.dtype).detach()


def searchsorted(boundaries: Tensor, values: Any, **kwargs: Any) -> Tensor:
    """Places in the order of torch.sort, in which NaN is equal to NaN and behind infinity."""
    if not boundaries.is_floating_point():
        return torch.searchsorted(boundaries, values, **kwargs)
    values = torch.as_tensor(values, dtype=boundaries.dtype)
    numbers = torch.where(boundaries.isnan(), math.inf, boundaries)
    places = torch.searchsorted(numbers, torch.where(values.isnan(), 0.0, values), **kwargs)
    count = (~boundaries.isnan()).sum(-1, keepdim=boundaries.ndim > 1).to(places.dtype)
    right = kwargs.get("right") or kwargs.get("side") == "right"
    behind = torch.full_like(count, boundaries.shape[-1]) if right else count
    return torch.where(values.isnan(), behind, torch.minimum(places, count))


def bucketize(values: Any, boundaries: Tensor, **kwargs: Any) -> Tensor:
    """As :func:`searchsorted`."""
    return searchsorted(boundaries, values, **kwargs)


def std_mean(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean; the mean of numbers with an infinity is this infinity."""
    return _with_mean(torch.std_mean(x, *args, **kwargs), x, *args, **kwargs)


def var_mean(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """As :func:`std_mean`."""
    return _with_mean(torch.var_mean(x, *args, **kwargs), x, *args, **kwargs)


def _with_mean(
    moments: tuple[Tensor, Tensor], x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any
) -> tuple[Tensor, Tensor]:
    spread, mean = moments
    plain = x.mean(dim=dim, keepdim=keepdim) if dim is not None else x.mean()
    return spread, torch.where(plain.isinf(), plain, mean) if plain.shape == mean.shape else mean


def embedding_bag(
    indices: Tensor, weight: Tensor, offsets: Tensor | None = None, **kwargs: Any
) -> Tensor:
    """The bags alone: the last offset is where the last bag ends (torch divides its mean by the
    indices behind, too), and each row's gradient is divided by how often that row comes (torch
    takes how often another one does)."""
    if kwargs.get("include_last_offset") and offsets is not None:
        end = int(offsets[-1])
        indices = indices[:end]
        if kwargs.get("per_sample_weights") is not None:
            kwargs = kwargs | {"per_sample_weights": kwargs["per_sample_weights"][:end]}
    if kwargs.get("scale_grad_by_freq") and kwargs.get("max_norm") is None:
        return _bags_of_frequent_rows(indices, weight, offsets, kwargs)
    return torch.nn.functional.embedding_bag(indices, weight, offsets, **kwargs)


def _bags_of_frequent_rows(
    indices: Tensor, weight: Tensor, offsets: Tensor | None, kwargs: dict[str, Any]
) -> Tensor:
    """Bags of looked-up rows: the look-up divides the gradients, the bags do not."""
    functional = torch.nn.functional
    rows = functional.embedding(indices.reshape(-1), weight, scale_grad_by_freq=True)
    places = torch.arange(indices.numel()).reshape(indices.shape)
    kwargs = kwargs | {"scale_grad_by_freq": False}
    padding = kwargs.get("padding_idx")
    if padding is not None:
        # Every padding row is the one behind the others, which the bags skip.
        places = torch.where(indices == padding % weight.shape[0], indices.numel(), places)
        rows = torch.cat((rows, rows.new_zeros((1, rows.shape[1]))))
        kwargs["padding_idx"] = indices.numel()
    return functional.embedding_bag(places, rows, offsets, **kwargs)
