"""Softmax, and fused attention: (query, key, value, …) and a mask; it also returns the logarithm of
the sum of exponentials."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from ....operators.attention import ATTENTION, of_keys, weighing
from ....operators.declare import accumulated
from ....operators.hooks import Args, Kwargs, Tensors
from ....operators.magnitudes import largest
from .declaration import KernelDeclaration, with_arguments


def _attention(
    base: str, mask_at: int | str | None, causal_at: int, output_count: int = 1
) -> KernelDeclaration:
    read = functools.partial(_read_attention, mask_at=mask_at, causal_at=causal_at)

    def size(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Any]:
        arguments = read(args, kwargs)
        values: Any = ATTENTION.magnitude
        sizes = [values(args[:3], arguments, outputs[:1])]
        if len(outputs) > 1:
            query, key = args[0], args[1]
            heads = query.shape[1] // key.shape[1] if query.ndim == 4 else 1
            key = key.repeat_interleave(heads, 1) if heads > 1 else key
            _, errors = weighing(
                query,
                key,
                arguments["attn_mask"],
                arguments["is_causal"],
                arguments["scale"] or query.shape[-1] ** -0.5,
            )
            sizes.append(largest(errors) + largest(outputs[1]))
        return sizes

    error, rules = accumulated(size, of_keys), "nn.functional.scaled_dot_product_attention"
    if base == "for_cpu":
        return KernelDeclaration(
            error,
            rules,
            output_count,
            substitute=functools.partial(attention_and_logarithm, read),
        )
    return KernelDeclaration(
        error, rules, output_count, reference=functools.partial(fused_attention, read)
    )


def _read_attention(
    args: Args, kwargs: Kwargs, mask_at: int | str | None, causal_at: int
) -> Kwargs:
    """The equivalent keyword arguments of ``scaled_dot_product_attention``."""
    mask = (
        kwargs.get(mask_at)
        if isinstance(mask_at, str)
        else args[mask_at]
        if mask_at is not None
        else None
    )
    causal = (
        bool(args[causal_at]) if len(args) > causal_at else bool(kwargs.get("is_causal", False))
    )
    return {"attn_mask": mask, "is_causal": causal, "scale": kwargs.get("scale")}


def fused_attention(read: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.Tensor]:
    """A fused attention kernel's result; ``read`` gives the mask, whether it is causal, and the
    scale, of its arguments."""
    return (F.scaled_dot_product_attention(*args[:3], **read(args, kwargs)),)


def attention_and_logarithm(
    read: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the CPU's fused attention returns, on another device: the result by its own kernel, and
    the logarithm of the sum of exponentials, which the CPU gives in float32 at least."""
    query, key, value = args[:3]
    arguments = read(args, kwargs)
    result = F.scaled_dot_product_attention(query, key, value, **arguments)
    heads = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(heads, 1) if heads > 1 else key
    scores = (query @ key.mT) * (arguments["scale"] or query.shape[-1] ** -0.5)
    mask = arguments["attn_mask"]
    if arguments["is_causal"]:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        )
    total = torch.logsumexp(scores, -1)
    return result, total if total.dtype == torch.float64 else total.float()


def _magnitude_of_softmax_gradient(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """(g − Σ g·y)·y for what was returned, y."""
    gradient, y, dim = args[:3]
    size: torch.Tensor = y.abs() * (gradient.abs() + (gradient * y).abs().sum(dim, keepdim=True))
    return size


def _magnitude_of_log_softmax_gradient(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
    """g − exp(y)·Σ g; an exponential is as precise as |y| + 1."""
    gradient, y, dim = args[:3]
    share = torch.nan_to_num(y.exp() * (1.0 + y.abs()), nan=0.0)
    return gradient.abs() + share * gradient.abs().sum(dim, keepdim=True)


def _along(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[0].shape[args[2]]) if args[0].ndim else 1.0


def _one_dimension(args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """Of a reduction whose dimension comes in a list."""
    if len(args[1]) != 1:
        raise TypeError("the declaration reduces one dimension")
    return (args[0], args[1][0], *args[2:]), kwargs


@functools.cache
def kernels() -> dict[str, KernelDeclaration]:
    result = {
        name: with_arguments(public, lambda args, kwargs: (args[:2], {}))
        for name, public in (
            ("_softmax", "softmax"), ("_safe_softmax", "softmax"), ("_log_softmax", "log_softmax"),
        )
    }  # fmt: skip
    result["logsumexp"] = with_arguments("logsumexp", _one_dimension)
    result["_softmax_backward_data"] = KernelDeclaration(
        accumulated(_magnitude_of_softmax_gradient, _along, wide_accumulation=False), "softmax"
    )
    result["_log_softmax_backward_data"] = KernelDeclaration(
        accumulated(_magnitude_of_log_softmax_gradient, _along, wide_accumulation=False),
        "log_softmax",
    )
    result["_scaled_dot_product_flash_attention_for_cpu"] = _attention("for_cpu", "attn_mask", 4, 2)
    result["_scaled_dot_product_flash_attention"] = _attention("flash", None, 4)
    result["_scaled_dot_product_efficient_attention"] = _attention("efficient", 3, 6)
    result["_scaled_dot_product_cudnn_attention"] = _attention("cudnn", 3, 6)
    return result
