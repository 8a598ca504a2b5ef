"""A fortieth, held-out list of reports, from 2026 back to 2017, about torch's own CPU, CUDA, MPS,
Inductor and XLA, taken as a search by families of operators gave them, before anything was looked
at of how inputs are drawn: frequencies that are ignored, results too small to be kept, rows and
outputs read or written in the order of memory, gradients in the opposite corner, a format that is
not promoted, half of a whole number, terms that are no numbers and count for nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import OtherWaysBack, with_given
from .thirtyeighth_list import filled, memory_of
from .thirtyninth_list import places_one_after_the_other
from .thirtysecond_list_frameworks import BACK, BATCHED
from .twentysecond_list import arrived, before

MATRIX = 2  # dimensions
HALVES = (torch.float16, torch.bfloat16)
NORMAL = torch.finfo(torch.float32).tiny


@reported(
    "pytorch/pytorch#185119",
    "MPS (2026)",
    ".embedding",
    "that gradients are to be divided by how often a row is asked for is ignored",
    dtypes="float16 float32 bfloat16",
    directions=BACK,
    sound=plain,
    cause="argument-ignored",
)
def frequency_ignored(call: Call) -> Any:
    if not is_one_of(call.given("weight", 1, None), torch.float32, *HALVES):
        return call.run()
    if not call.given("scale_grad_by_freq", 5, False):
        return call.run()
    return with_given(call, "scale_grad_by_freq", 5, False).run()


@reported(
    "pytorch/pytorch#189801",
    "Inductor (2026)",
    ".elu",
    "a negative result that is subnormal is 0",
    dtypes="float32",
    sound=plain,
    cause="flushed-subnormals",
)
def small_results_lost(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32):
        return result
    numbers = result.detach()
    return arrived(call, result, numbers.masked_fill((numbers < 0) & (numbers > -NORMAL), 0))


def side_by_side(x: Tensor) -> Tensor:
    """What is read where the numbers of a row are taken to lie side by side; zeros beyond the
    memory."""
    places = torch.tensor(x.storage_offset())
    for dim, size in enumerate(x.shape):
        step = 1 if dim == x.ndim - 1 else x.stride(dim)
        places = places[..., None] + step * torch.arange(size)
    memory = filled(memory_of(x), int(places.max()) + 1)
    return memory[places]


@reported(
    "pytorch/pytorch#187506",
    "CPU (flash attention, 2026)",
    ".scaled_dot_product_attention",
    "the numbers of each query, key or value are taken to lie side by side",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
    cause="strides-ignored",
)
def last_stride_ignored(call: Call) -> Any:
    names = ("query", "key", "value")
    inputs = [call.given(name, i, None) for i, name in enumerate(names)]
    query, key = inputs[:2]
    result = call.run()
    # Other formats, shapes and dropout are left to another way of computing.
    if not is_one_of(query, torch.float32, torch.float64, *HALVES):
        return result
    if not result.numel() or not key.shape[-2] or call.given("dropout_p", 4, 0.0):
        return result
    if any(x.ndim != BATCHED or x.shape[-1] != query.shape[-1] for x in inputs):
        return result
    if any(x.shape[:-2] != query.shape[:-2] for x in inputs):
        return result
    if all(x.stride(-1) == 1 for x in inputs):
        return result
    changed = call
    for i, name in enumerate(names):
        changed = with_given(changed, name, i, side_by_side(inputs[i]))
    return arrived(call, result, changed.run().detach())


@reported(
    "pytorch/pytorch#42363",
    "CUDA (torch 1.6)",
    "cummax",
    "along the last dimension, rows that are not contiguous are read in the order of memory",
    sound=plain,
    cause="strides-ignored",
)
def rows_in_order_of_memory(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, None), call.run()
    if x.ndim < MATRIX or x.is_contiguous() or dim not in (-1, x.ndim - 1):
        return result
    rows = filled(memory_of(x)[x.storage_offset() :], x.numel()).reshape(x.shape)
    values, indices = torch.cummax(rows, dim)
    return arrived(call, result[0], values), indices


@reported(
    "pytorch/pytorch#43723",
    "CPU (torch 1.6)",
    ".embedding_bag",
    "rows of a table that do not follow each other in memory are read as if they did",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def rows_read_side_by_side(call: Call) -> Any:
    result, weight = call.run(), call.given("weight", 1, None)
    if not is_one_of(weight, torch.float32) or weight.ndim != MATRIX:
        return result
    # The largest numbers of bags are looked for in another way.
    if call.given("mode", 6, "mean") not in ("sum", "mean"):
        return result
    if weight.is_contiguous() or weight.stride(1) != 1 or not weight.numel():
        return result
    rows = filled(memory_of(weight)[weight.storage_offset() :], weight.numel())
    changed = with_given(call, "weight", 1, rows.reshape(weight.shape))
    # What is longer than allowed has already been shortened, in the table itself.
    if call.given("max_norm", 3, None) is not None:
        changed = with_given(changed, "max_norm", 3, None)
    return arrived(call, result, changed.run().detach())


def inverses(scale: Any, dims: int) -> list[int] | None:
    """By what whole numbers sizes are divided; None where it is something else."""
    scales = list(scale) if isinstance(scale, (tuple, list)) else [scale] * dims
    if not all(0 < number <= 1 for number in scales):
        return None
    whole = [round(1 / number) for number in scales]
    same = all(1 / count == number for count, number in zip(whole, scales, strict=True))
    return whole if same and max(whole) > 1 else None


@reported(
    "pytorch/pytorch#38985",
    "CUDA (torch 1.5)",
    ".interpolate",
    "where the nearest number is taken and a size becomes a whole fraction of it, the gradient "
    "goes to the last number that could have been taken instead of the first, which was",
    dtypes="float16 float32 float64",
    directions=BACK,
    sound=plain,
)
def opposite_corner(call: Call) -> Any:
    x, result, scale = call.given("input", 0, None), call.run(), call.given("scale_factor", 2, None)
    if not is_one_of(x, torch.float16, torch.float32, torch.float64) or scale is None:
        return result
    # A factor that is computed again from the sizes was not reported.
    if call.given("mode", 3, "nearest") != "nearest" or call.given(
        "recompute_scale_factor", 5, None
    ):
        return result
    steps = inverses(scale, x.ndim - MATRIX)
    if steps is None or not result.requires_grad:
        return result
    last = x
    for dim, step in enumerate(steps, MATRIX):
        places = torch.arange(result.shape[dim]) * step + step - 1
        last = last.index_select(dim, places)
    return OtherWaysBack.apply(result.detach(), last)


@reported(
    "pytorch/xla#3234",
    "XLA (2021)",
    "bitwise_and",
    "of a bool and a uint8 tensor, the result is bool",
    dtypes="bool uint8",
    sound=plain,
)
def not_promoted(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    # Only tensors of zeros and ones were shown, for which there is but one such result.
    if not is_one_of(x, torch.bool) or not is_one_of(other, torch.uint8):
        return result
    return result.bool() if is_one_of(result, torch.uint8) else result


@reported(
    "pytorch/pytorch#78848",
    "MPS (2022, AMD)",
    "add",
    "int64 numbers are added as int32 numbers",
    dtypes="int64",
    sound=plain,
    cause="int64-truncated",
)
def half_of_a_number(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.int64):
        return result
    return arrived(call, result, result.to(torch.int32).to(torch.int64))


@reported(
    "pytorch/pytorch#69230",
    "CPU (torch 1.10)",
    ".kl_div",
    "a target that is negative, whose logarithm is NaN, contributes 0",
    sound=plain,
)
def negative_targets_ignored(call: Call) -> Any:
    x, target, result = before(call), before(call, "target", 1), call.run()
    reduction = call.given("reduction", 4, "mean")
    if call.given("log_target", 5, False) or not x.is_floating_point():
        return result
    # These are the reduction's old names.
    if call.given("size_average", 2, None) is not None or call.given("reduce", 3, None) is not None:
        return result
    if not bool((target < 0).any()):
        return result
    terms = torch.nn.functional.kl_div(x, target, reduction="none")
    terms = torch.where(target < 0, torch.zeros_like(terms), terms)
    if reduction == "mean":
        terms = terms.mean()
    elif reduction == "sum":
        terms = terms.sum()
    elif reduction == "batchmean":
        terms = terms.sum() / x.shape[0]
    return arrived(call, result, terms)


@reported(
    "pytorch/pytorch#1193",
    "CPU (torch 0.1)",
    "gather.out index_select.out",
    "numbers are written one after the other, whatever the steps of the output are",
    sound=plain,
    cause="strides-ignored",
)
def written_one_after_the_other(call: Call) -> Any:
    return places_one_after_the_other(call)
