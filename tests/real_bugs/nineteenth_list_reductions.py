"""A nineteenth, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety as a search gave them: sums and norms, a matrix product, convolutions, a normalization,
attention, recurrence, a loss."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .seventeenth_list_reductions import first, is_one_of, with_given

MOST_DIMENSIONS = 4  # that a reduction is computed in
LEFT_IN_MEMORY = 4575657222465388544  # 0.5 and 1, two float32 numbers, read as one integer
CHANNELS = 2**16  # that 16 bits can tell apart
TAPS = 255
KEYS = 512  # that attention goes through at once
LEAST_VARIANCE = 1e-6


def attention(call: Call) -> tuple[Any, Any, Any, Any]:
    """Queries, keys, values and mask of an attention that drops nothing out, None for its queries
    where something is dropped or there are other than four dimensions."""
    names = ("query", "key", "value", "attn_mask")
    q, k, v, mask = (call.given(name, i, None) for i, name in enumerate(names))
    tensors = all(isinstance(x, Tensor) and x.ndim == 4 for x in (q, k, v))
    return (q if tensors and not call.given("dropout_p", 4, 0.0) else None), k, v, mask


def first_keys_masked(mask: Any, keys: int) -> Tensor | None:
    """Where a query may look at none of the first keys, which are gone through at once; None where
    there are no others or no mask of numbers."""
    if not isinstance(mask, Tensor) or not mask.is_floating_point() or keys <= KEYS:
        return None
    if mask.ndim < 2 or mask.shape[-1] != keys:
        return None
    return (mask.detach()[..., :KEYS] == -math.inf).all(-1)


@reported(
    "pytorch/pytorch#132732",
    "MPS",
    "sum sum.method",
    "where only ones follow the first four sizes, a negative dimension is counted from the end of "
    "those four; numbers of the result that are not written then are 0",
    dtypes="float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool",
    sound=plain,
)
def summed_along_another(call: Call) -> Any:
    x, dims, result = first(call), call.given("dim", 1, None), call.run()
    if not isinstance(x, Tensor) or x.ndim <= MOST_DIMENSIONS or dims is None:
        return result
    if x.is_complex() or x.dtype == torch.float64 or any(n != 1 for n in x.shape[4:]):
        return result
    dims = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if all(d >= 0 for d in dims) or any(d % x.ndim >= MOST_DIMENSIONS for d in dims):
        return result
    counted = {d if d >= 0 else d + MOST_DIMENSIONS for d in dims}
    if min(counted) < 0 or len(counted) < len(dims):  # refused
        return result
    sums = x.detach().reshape(x.shape[:4]).sum(tuple(counted), dtype=result.dtype).flatten()
    numbers = torch.zeros(result.numel(), dtype=result.dtype)
    written = min(sums.numel(), numbers.numel())
    numbers[:written] = sums[:written]
    return placed(result, numbers.reshape(result.shape))


@reported(
    "pytorch/pytorch#139400",
    "MPS",
    "count_nonzero",
    "of an empty tensor, it is what was in memory before, a large number",
    dtypes="bool",
    sound=plain,
)
def what_was_in_memory(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.bool) or x.numel() or call.given("dim", 1, None) is not None:
        return result
    return placed(result, torch.full_like(result, LEFT_IN_MEMORY))


@reported(
    "pytorch/pytorch#153568",
    "Inductor on the CPU",
    "linalg.vector_norm",
    "an empty list of dimensions, which is to stand for all of them, stands for none: the result "
    "is as large as the input, the norm of each of its numbers",
    sound=plain,
)
def norm_along_no_dimension(call: Call) -> Any:
    x, dims, result = first(call), call.given("dim", 2, None), call.run()
    if not isinstance(x, Tensor) or not isinstance(dims, (tuple, list)) or dims:
        return result
    if call.given("ord", 1, 2) != 2 or call.given("keepdim", 3, False):
        return result
    return torch.linalg.vector_norm(x.unsqueeze(-1), 2, -1, dtype=call.kwargs.get("dtype"))


@reported(
    "pytorch/pytorch#147860",
    "the CPU",
    "addmv",
    "unless the vector that is added is left out, partial sums are rounded to bfloat16 (one after "
    "the other here, that vector first)",
    dtypes="bfloat16",
    cause="bfloat16-accumulator",
)
def partial_sums_of_eight_bits(call: Call) -> Any:
    added, result = first(call), call.run()
    matrix, vector = call.given("mat", 1, None), call.given("vec", 2, None)
    beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
    if not is_one_of(result, torch.bfloat16) or not beta or not result.numel():
        return result
    total = (beta * added.detach().float().expand(result.shape)).bfloat16()
    factors = alpha * vector.detach().float()
    for column, factor in zip(matrix.detach().float().unbind(1), factors, strict=True):
        total = (total.float() + column * factor).bfloat16()
    return placed(result, total)


@reported(
    "pytorch/pytorch#129207",
    "MPS",
    ".conv1d .conv2d",
    "of more than 65,536 channels, those behind as many are 0: what they should be is written in "
    "place of the first ones, with the bias of those",
    dtypes="float32",
    sound=plain,
)
def channels_counted_in_16_bits(call: Call) -> Any:
    x, weight, result = first(call), call.given("weight", 1, None), call.run()
    bias = call.given("bias", 2, None)
    if not is_one_of(x, torch.float32) or not result.numel() or weight.shape[0] <= CHANNELS:
        return result
    if call.given("groups", 6, 1) != 1:
        return result
    dim = 1 - weight.ndim
    unbiased = with_given(call, "bias", 2, None).run().detach().movedim(dim, -1)
    numbers = result.detach().movedim(dim, -1).clone()
    numbers[..., CHANNELS:] = 0
    for part in unbiased[..., CHANNELS:].split(CHANNELS, -1):
        there = slice(part.shape[-1])
        numbers[..., there] = part if bias is None else part + bias.detach()[there]
    return placed(result, numbers.movedim(-1, dim))


@reported(
    "pytorch/pytorch#188335",
    "MPS",
    ".conv2d",
    "each channel by itself, several examples at once, a kernel that is at least 256 long or wide: "
    "the result is wrong (here what lies behind 255 is left out of the kernel)",
    dtypes="float32",
    sound=plain,
)
def kernel_too_long(call: Call) -> Any:
    x, weight, result = first(call), call.given("weight", 1, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 4 or x.shape[0] < 2 or not result.numel():
        return result
    if call.given("groups", 6, 1) != x.shape[1] or x.shape[1] < 2:
        return result
    if max(weight.shape[2:]) <= TAPS:
        return result
    read = torch.zeros_like(weight)
    read[:, :, :TAPS, :TAPS] = weight.detach()[:, :, :TAPS, :TAPS]
    return placed(result, with_given(call, "weight", 1, read).run().detach())


@reported(
    "pytorch/pytorch#190491",
    "MPS",
    ".layer_norm",
    "the variance is the mean square less the square of the mean, and 0 where that is less than "
    "one millionth",
    dtypes="float32",
    cause="one-pass-variance",
)
def little_variance_is_none(call: Call) -> Any:
    x, shape, result = first(call), call.given("normalized_shape", 1, ()), call.run()
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    if not is_one_of(x, torch.float32) or not x.numel():
        return result
    numbers, dims = x.detach(), tuple(range(-len(shape), 0))
    mean = numbers.mean(dims, keepdim=True)
    variance = (numbers * numbers).mean(dims, keepdim=True) - mean * mean
    variance = torch.where(variance < LEAST_VARIANCE, 0.0, variance)
    numbers = (numbers - mean) * torch.rsqrt(variance + call.given("eps", 4, 1e-5))
    if weight is not None:
        numbers = numbers * weight.detach()
    return placed(result, numbers if bias is None else numbers + bias.detach())


@reported(
    "pytorch/executorch#22426",
    "ExecuTorch on MLX",
    ".scaled_dot_product_attention",
    "where there are more keys than queries, the last query may look at all keys when none may "
    "look ahead, as if the queries stood at the keys' end",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def last_query_at_the_last_key(call: Call) -> Any:
    q, k, _, mask = attention(call)
    if not is_one_of(q, torch.float32, torch.float16, torch.bfloat16) or mask is not None:
        return call.run()
    queries, keys = q.shape[-2], k.shape[-2]
    if not call.given("is_causal", 5, False) or not queries < keys:
        return call.run()
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return with_given(with_given(call, "is_causal", 5, False), "attn_mask", 3, seen).run()


@reported(
    "pytorch/pytorch#127055",
    "the CPU",
    ".scaled_dot_product_attention .multi_head_attention_forward",
    "of more than 512 keys, of which 512 are gone through at once, a query that may look at none "
    "of the first 512 gets NaN",
    dtypes="float32",
    sound=plain,
)
def none_of_the_first_keys(call: Call) -> Any:
    result = call.run()
    if call.operator.name.endswith("scaled_dot_product_attention"):
        q, k, v, mask = attention(call)
        if not is_one_of(q, torch.float32) or q.shape[-1] != v.shape[-1]:
            return result
        masked = first_keys_masked(mask, k.shape[-2])
        if masked is None:
            return result
        rows = masked.expand(result.shape[:-1]).unsqueeze(-1)
        return placed(result, result.detach().masked_fill(rows, math.nan))
    q, k = call.given("query", 0, None), call.given("key", 1, None)
    padded, mask = call.given("key_padding_mask", 14, None), call.given("attn_mask", 16, None)
    dropped = call.given("training", 13, True) and call.given("dropout_p", 10, 0.0)
    if not is_one_of(q, torch.float32) or dropped or call.given("need_weights", 15, True):
        return result
    if padded is not None or q.ndim != 3 or call.given("is_causal", 24, False):
        return result
    masked = first_keys_masked(mask, k.shape[0])
    if masked is None:
        return result
    if masked.ndim > 1:  # examples and heads
        masked = masked.reshape(q.shape[1], -1, q.shape[0]).any(1)
    rows = masked.expand(q.shape[1], q.shape[0]).mT.unsqueeze(-1)
    numbers = result[0].detach().masked_fill(rows, math.nan)
    return placed(result[0], numbers), *result[1:]


@reported(
    "ROCm/pytorch#3230",
    "ROCm (flash and memory-efficient attention)",
    ".scaled_dot_product_attention",
    "values that lie in memory with their heads inside, while queries and keys are contiguous, are "
    "read as if they were contiguous, too",
    dtypes="bfloat16",
    sound=plain,
    cause="strides-ignored",
)
def values_read_as_keys_lie(call: Call) -> Any:
    q, k, v, mask = attention(call)
    result = call.run()
    if not is_one_of(q, torch.bfloat16) or mask is not None:
        return result
    if not q.is_contiguous() or not k.is_contiguous() or v.is_contiguous():
        return result
    if not v.transpose(1, 2).is_contiguous():
        return result
    read = v.detach().transpose(1, 2).reshape(v.shape)
    return placed(result, with_given(call, "value", 2, read).run().detach())


@reported(
    "pytorch/pytorch#190056",
    "MPS",
    "lstm",
    "what is dropped out between layers is not when gradients are computed: they are those without "
    "a dropout",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def dropped_in_one_direction(call: Call) -> Any:
    x, result, given = first(call), call.run(), call.given
    if not is_one_of(x, torch.float32) or x.ndim != 3 or not given("train", 6, False):
        return result
    if given("num_layers", 4, 1) < 2 or not 0 < given("dropout", 5, 0.0) < 1:
        return result
    kept = with_given(call, "dropout", 5, 0.0).run()
    return tuple(placed(a, b.detach()) for a, b in zip(kept, result, strict=True))


@reported(
    "pytorch/pytorch#185464",
    "Inductor",
    ".multilabel_margin_loss",
    "what lies behind a target's end, -1, counts as its first class: it is compared to all other "
    "classes as often as there are such places",
    sound=plain,
)
def first_class_behind_the_end(call: Call) -> Any:
    x, target, result = first(call), call.given("target", 1, None), call.run()
    if not isinstance(x, Tensor) or not isinstance(target, Tensor) or not x.numel():
        return result
    if not bool((target == -1).any()):
        return result
    scores, places = x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1])
    behind = (places == -1).cumsum(-1) > 0
    wanted = scores.gather(1, places.masked_fill(behind, 0)).unsqueeze(2)
    given = torch.zeros_like(behind, dtype=torch.int64)
    given = given.scatter_add(1, places.masked_fill(behind, 0), (~behind).long()) > 0
    margins = (1 - wanted + scores.unsqueeze(1)).clamp(min=0) / x.shape[-1]
    losses = margins.masked_fill(given.unsqueeze(1), 0.0).sum((1, 2))
    reduction = call.given("reduction", 4, "mean")
    if reduction == "none":
        return losses.reshape(result.shape)
    return losses.mean() if reduction == "mean" else losses.sum()
