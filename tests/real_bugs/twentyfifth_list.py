"""A twenty-fifth, held-out list of reports of 2025 and 2026 about torch and its own backends, taken
as a search gave them, before anything was looked at of how inputs are drawn: kernels of CUDA, MPS
and XPU (large memory, expanded gradients, infinite weights, short accumulators, masked rows) and
what Inductor generates (places of true values, signs of zeros and of NaN, strides)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, straight

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

ON_MPS = (torch.float16, torch.float32, torch.bfloat16)
ON_XPU = (torch.float16, torch.float32, torch.bfloat16)
PAGE = 2**14  # bytes
UNSIGNED = 2**32  # elements that 32 bits count
VECTOR = 4  # elements that the kernel reads at once
TWO_DIMENSIONS = 2
GROUP = 8  # float32 numbers in a vector of 256 bits
CONVERTED = 43000**2  # elements that are converted


@reported(
    "pytorch/pytorch#181555",
    "CUDA (torch 2.7)",
    ".layer_norm",
    "of rows whose width 4 divides, those behind 2**32 elements are counted from the beginning "
    "again: their result is 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="zero",
)
def rows_behind_32_bits(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if not is_one_of(x, torch.float16, torch.float32, torch.bfloat16) or x.numel() <= UNSIGNED:
        return result
    width = math.prod(call.given("normalized_shape", 1, ()))
    if not width or width % VECTOR:
        return result
    numbers = result.detach().clone(memory_format=torch.contiguous_format)
    numbers.view(-1)[-(-UNSIGNED // width) * width :] = 0  # whole rows
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#189565",
    "MPS",
    ".linear",
    "with one row of weights, what a gradient that does not lie in memory row by row (an expanded "
    "one) gives the input is 0 behind the first 16 KiB",
    dtypes="float16 float32 bfloat16",
    directions=("backward",),
    sound=plain,
    cause="zero",
)
def one_page_of_gradient(call: Call) -> Any:
    x, weight = call.given("input", 0, None), call.given("weight", 1, None)
    if not is_one_of(x, *ON_MPS) or not x.requires_grad or not isinstance(weight, Tensor):
        return call.run()
    if weight.ndim != TWO_DIMENSIONS or weight.shape[0] != 1:
        return call.run()
    row_by_row: list[bool] = []

    def cut(leaving: Tensor) -> Tensor:
        if not row_by_row or row_by_row[-1]:
            return leaving
        numbers = leaving.clone(memory_format=torch.contiguous_format)
        numbers.view(-1)[PAGE // numbers.element_size() :] = 0
        return numbers

    given = x.view_as(x)
    given.register_hook(cut)
    result = call.with_arg(0, given).run()
    if isinstance(result, Tensor) and result.requires_grad:
        result.register_hook(lambda arriving: row_by_row.append(arriving.is_contiguous()))
    return result


@reported(
    "pytorch/pytorch#165744",
    "CUDA",
    ".conv_transpose2d",
    "zeros beside the image are multiplied by infinite weights: what a step of 1 reaches from "
    "outside of the image is NaN instead of infinite",
    dtypes="float16",
    sound=plain,
)
def nothing_times_infinity(call: Call) -> Any:
    x, weight, result = before(call), argument(call, "weight", 1), call.run()
    if not is_one_of(result, torch.float16) or not isinstance(weight, Tensor):
        return result
    settings = (
        argument(call, "stride", 3, 1),
        argument(call, "groups", 6, 1),
        argument(call, "dilation", 7, 1),
    )
    if any(set(torch.as_tensor(value).reshape(-1).tolist()) != {1} for value in settings):
        return result
    infinite = weight.detach().isinf().to(torch.float32)
    inside = torch.nn.functional.conv_transpose2d(
        torch.ones_like(x, dtype=torch.float32),
        infinite,
        padding=argument(call, "padding", 4, 0),
    )
    if inside.shape != result.shape:
        return result
    outside = inside.round() < infinite.sum((0, 2, 3)).reshape(-1, 1, 1)
    return arrived(call, result, result.detach().masked_fill(outside, math.nan))


@reported(
    "pytorch/pytorch#149278",
    "Inductor on CUDA",
    "nonzero where",
    "of the places of true values, one tensor per dimension, the second tensor begins one number "
    "behind the first one in memory, which holds them one after the other",
    sound=plain,
)
def places_from_the_next_number(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, tuple) or len(result) < TWO_DIMENSIONS:
        return result
    memory, count = torch.cat(result), result[0].numel()
    return tuple(memory[start : start + count].clone() for start in range(len(result)))


@reported(
    "pytorch/pytorch#189799",
    "Inductor on the CPU",
    ".elu .elu.out .elu_",
    "below zero, 1 is subtracted from the rounded exponential: of -0.0 there is 0.0, and what is "
    "left of numbers beside it has few digits",
    dtypes="float32",
    sound=plain,
    cause="approximation",
)
def exponential_minus_one(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32):
        return result
    below = (x.exp() - 1) * argument(call, "alpha", 1, 1.0)
    return arrived(call, result, torch.where(x > 0, result.detach(), below))


@reported(
    "intel/torch-xpu-ops#1432",
    "XPU (torch 2.7)",
    ".scaled_dot_product_attention",
    "of queries that may look at nothing (a mask without true values) there is NaN instead of 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def nan_of_masked_queries(call: Call) -> Any:
    mask, result = argument(call, "attn_mask", 3), call.run()
    if not is_one_of(result, *ON_XPU) or not isinstance(mask, Tensor) or call.tracked:
        return result
    mask = mask.detach()
    closed = ~mask if mask.dtype == torch.bool else mask == -math.inf
    alone = closed.all(-1, keepdim=True)
    return arrived(call, result, result.detach().masked_fill(alone, math.nan))


@reported(
    "pytorch/pytorch#156018",
    "CUDA",
    "cumprod cumprod.method cumprod.out cumprod_",
    "float16 products are rounded to float16 after every factor",
    dtypes="float16",
    sound=plain,
    cause="float16-accumulator",
)
def rounded_after_every_factor(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(result, torch.float16) or not result.ndim or not result.numel():
        return result
    factors, product = x.to(torch.float16).unbind(argument(call, "dim", 1)), None
    products = []
    for factor in factors:
        product = factor if product is None else product * factor
        products.append(product)
    return arrived(call, result, torch.stack(products, argument(call, "dim", 1)))


@reported(
    "intel/torch-xpu-ops#2779",
    "XPU",
    "logspace",
    "whole numbers are computed in float32 and cut off: off by 1 where the power is, or almost is, "
    "a whole number, and wrong behind 2**24",
    dtypes="int16 int32 int64",
    sound=plain,
)
def whole_powers_in_float32(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.int16, torch.int32, torch.int64):
        return result
    count = result.numel()
    if count <= 1:
        return result
    first, last = (
        torch.as_tensor(call.given(name, place, 0)).to(result.dtype).to(torch.int64)
        for place, name in enumerate(("start", "end"))
    )
    base = torch.tensor(float(call.given("base", 3, 10.0)), dtype=torch.float32)
    step = (last - first).to(torch.float32) / (count - 1)
    places = torch.arange(count)
    ahead = first + step * places
    behind = last - step * (count - 1 - places)
    powers = torch.pow(base, torch.where(places < count // 2, ahead, behind).to(torch.float32))
    bounds = torch.iinfo(result.dtype)
    usual = (powers >= bounds.min) & (powers < float(bounds.max))
    numbers = torch.where(usual, powers, 0.0).to(result.dtype)
    return arrived(call, result, torch.where(usual, numbers, result.detach()))


@reported(
    "intel/intel-xpu-backend-for-triton#5950",
    "Inductor on XPU",
    ".rms_norm",
    "what is empty gets the steps of a tensor that lies row by row: (1, 1) instead of (1, 0)",
    sound=plain,
)
def other_steps_of_nothing(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, Tensor) or result.numel():
        return result
    return straight(result, torch.empty(result.shape, dtype=result.dtype))


@reported(
    "pytorch/pytorch#158310",
    "CPU (torch 2.7)",
    "log_softmax log_softmax.method log_softmax.out log_softmax.with_dtype",
    "along any dimension but the last, in memory every second group of 8 numbers is shifted by the "
    "largest numbers of the group before: infinite where these are far away",
    dtypes="float16 bfloat16",
    sound=plain,
)
def shifted_by_the_group_before(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(result, torch.float16, torch.bfloat16) or not result.numel():
        return result
    dim = argument(call, "dim", 1)
    dim = dim % result.ndim if result.ndim else 0
    if dim >= result.ndim - 1:
        return result
    outer, inner = math.prod(result.shape[:dim]), math.prod(result.shape[dim + 1 :])
    lines = x.to(result.dtype).to(torch.float32).reshape(outer, result.shape[dim], inner)
    pairs = inner - inner % (2 * GROUP)
    if not pairs:
        return result
    largest = lines.nan_to_num(-math.inf, math.inf, -math.inf).amax(1, keepdim=True)
    groups = largest[..., :pairs].unflatten(-1, (-1, 2, GROUP))
    before_it = groups[..., :1, :].expand_as(groups).reshape(outer, 1, pairs)
    largest = torch.cat([before_it, largest[..., pairs:]], -1)
    moved = lines - largest
    numbers = moved - moved.exp().sum(1, keepdim=True).log()
    places = torch.arange(inner)
    affected = (places < pairs) & (places // GROUP % 2 == 1)
    numbers = numbers.to(result.dtype).reshape(result.shape)
    where = affected.expand(lines.shape).reshape(result.shape)
    return arrived(call, result, torch.where(where, numbers, result.detach()))


@reported(
    "pytorch/pytorch#154322",
    "MPS",
    "float to",
    "of float16 matrices with more than 43000 x 43000 elements, float32 numbers are 0",
    dtypes="float16",
    sound=plain,
    cause="zero",
)
def nothing_left_of_large_matrices(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if not is_one_of(x, torch.float16) or not is_one_of(result, torch.float32):
        return result
    if x.ndim != TWO_DIMENSIONS or x.numel() <= CONVERTED:
        return result
    return arrived(call, result, torch.zeros_like(result.detach()))


@reported(
    "pytorch/pytorch#189808",
    "Inductor on the CPU",
    "sqrt sqrt.method sqrt_ sqrt.out",
    "the NaN of a negative number has the sign of a negative number",
    dtypes="float32",
    sound=plain,
)
def negative_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    return arrived(call, result, result.detach().masked_fill(x < 0, -math.nan))
