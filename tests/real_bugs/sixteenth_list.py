"""A sixteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: elementwise functions, bounds, casts, sorting, gathering,
diagonals, pooled and sampled images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import BOTH, Call

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported

LARGEST_EXPONENT = math.log(torch.finfo(torch.float32).max)  # of e, in float32
BITS = 0xFFFF  # of a number of 16 bits


def is_float32(x: Any) -> bool:
    """Whether it is a tensor of float32 numbers."""
    return isinstance(x, Tensor) and x.dtype == torch.float32


def in_memory(x: Tensor, shape: Sequence[int], strides: Sequence[int], first: int) -> Tensor:
    """What lies in memory at these places from ``first`` on; zeros behind its end."""
    count = x.untyped_storage().nbytes() // x.element_size()
    everything = x.detach().as_strided((count,), (1,), 0)
    places = torch.full(tuple(shape), first)
    for dim, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = torch.arange(size) * stride
        places = places + steps.reshape([-1 if d == dim else 1 for d in range(len(shape))])
    found = everything[places.clamp(0, max(count - 1, 0))]
    return torch.where(places < count, found, torch.zeros_like(found))


@reported(
    "jax-ml/jax#37752",
    "JAX",
    "floor_divide div",
    "divided by 0 and rounded down, finite numbers other than 0 become NaN, not infinite",
    dtypes="float32 float64",
    sound=plain,
)
def not_a_number_by_zero(call: Call) -> Any:
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    result = call.run()
    if not isinstance(result, Tensor) or result.dtype not in (torch.float32, torch.float64):
        return result
    if call.operator.name == "div" and call.kwargs.get("rounding_mode") != "floor":
        return result
    x, y = torch.as_tensor(x).detach(), torch.as_tensor(y).detach()
    hit = x.isfinite() & (x != 0) & (y == 0)
    return placed(result, torch.where(hit, math.nan, result.detach()))


@reported(
    "praeclarum/webgpu-torch#11",
    "webgpu-torch",
    "pow",
    "powers of negative numbers are NaN, those with a whole number, too",
    dtypes="float32",
    sound=plain,
)
def no_powers_of_negatives(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_float32(x) or not is_float32(result):
        return result
    return placed(result, torch.where(x.detach() < 0, math.nan, result.detach()))


class OtherMask(torch.autograd.Function):
    """A result whose gradient goes back to one input where a mask says so."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, result: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(x, mask)
        return result.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, mask = ctx.saved_tensors
        back = torch.where(mask, gradients[0], 0).sum_to_size(x.shape)
        return back.to(x.dtype), gradients[0], None


@reported(
    "tenstorrent/tt-metal#48201",
    "TT-NN",
    "clamp clamp.method",
    "between two bounds that are tensors, the gradient goes to numbers not above the lower and not "
    "below the upper one: to none at all",
    dtypes="float32 float64 float16 bfloat16",
    directions=BACK,
    sound=plain,
)
def out_of_bounds_on_both_sides(call: Call) -> Any:
    x = call.given("input", 0, None)
    low, high = call.given("min", 1, None), call.given("max", 2, None)
    if not all(isinstance(value, Tensor) for value in (x, low, high)) or not x.requires_grad:
        return call.run()
    if "input" in call.kwargs:
        constant = replace(call, kwargs={**call.kwargs, "input": x.detach()})
    else:
        constant = call.with_arg(0, x.detach())
    mask = (x.detach() <= low.detach()) & (x.detach() >= high.detach())
    return OtherMask.apply(x, constant.run(), mask)


@reported(
    "apache/tvm#19579",
    "TVM Relax on the CPU",
    "maximum minimum maximum.method minimum.method .relu",
    "where the first number is NaN, the second one is returned, 0 by relu",
    dtypes="float32",
    sound=plain,
)
def second_for_nan(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    other = 0.0 if call.operator.name.endswith("relu") else call.given("other", 1, None)
    if not is_float32(x) or not is_float32(result):
        return result
    numbers = torch.as_tensor(other).detach().to(torch.float32)
    return placed(result, torch.where(x.detach().isnan(), numbers, result.detach()))


@reported(
    "tracel-ai/burn#5373",
    "Burn",
    ".softplus",
    "the exponential overflows: above 88.7 / beta, the result is infinite, and its gradient NaN",
    dtypes="float32",
    directions=BOTH,
    sound=plain,
)
def exponential_before_logarithm(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_float32(x):
        return result
    beta = call.given("beta", 1, 1.0)
    overflown = (x.detach() * beta).exp() == math.inf
    if not overflown.any():
        return result
    large = torch.where(overflown, x, 0.0)
    formula = ((large * beta).exp() + 1).log() / beta
    return torch.where(overflown, formula, result)


@reported(
    "tracel-ai/burn#5663",
    "Burn Flex",
    ".grid_sample",
    "nearest pixels of images: halfway between two of them, the one farther from 0 is selected, "
    "not the even one",
    sound=plain,
)
def ties_away_from_zero(call: Call) -> Any:
    x, grid, result = call.given("input", 0, None), call.given("grid", 1, None), call.run()
    if call.given("mode", 2, "bilinear") != "nearest" or x.ndim != 4 or not result.numel():
        return result
    padding = call.given("padding_mode", 3, "zeros")
    places, inside, ties = [], [], []
    for last, size in ((0, x.shape[3]), (1, x.shape[2])):
        place = grid.detach()[..., last].double() + 1
        if call.given("align_corners", 4, None):
            place = place / 2 * (size - 1)
            start, span = 0.0, float(size - 1)
        else:
            place = (place * size - 1) / 2
            start, span = -0.5, float(size)
        if padding == "reflection":
            if span:
                distance = (place - start).abs()
                rest, turns = torch.fmod(distance, span), torch.floor(distance / span)
                place = torch.where(turns % 2 == 0, rest, span - rest) + start
            else:
                place = torch.zeros_like(place)
        if padding != "zeros":
            place = place.clamp(0, size - 1)
        nearest = place.sign() * torch.floor(place.abs() + 0.5)
        ties.append((place - place.trunc()).abs() == 0.5)
        inside.append((nearest >= 0) & (nearest <= size - 1))
        places.append(nearest.nan_to_num(0, 0, 0).clamp(0, size - 1).long())
    batch = torch.arange(x.shape[0]).reshape(-1, 1, 1)
    sampled = x.detach()[batch, :, places[1], places[0]].movedim(-1, 1)
    sampled = torch.where((inside[0] & inside[1]).unsqueeze(1), sampled, 0)
    tie = (ties[0] | ties[1]).unsqueeze(1)
    return placed(result, torch.where(tie, sampled, result.detach()))


@reported(
    "huggingface/candle#3711",
    "Candle on Metal",
    "gather gather.method",
    "a source that is not contiguous is read as if it were (zeros here behind the end of its "
    "memory)",
    sound=plain,
)
def read_as_if_contiguous(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    dim, index = call.given("dim", 1, None), call.given("index", 2, None)
    if x.is_contiguous() or not index.is_contiguous() or not result.numel():
        return result
    strides = torch.empty(x.shape, device="meta").stride()
    numbers = in_memory(x, x.shape, strides, x.storage_offset())
    return placed(result, torch.gather(numbers, dim, index))


@reported(
    "flagos-ai/FlagGems#4915",
    "FlagGems",
    ".adaptive_avg_pool2d",
    "where sizes are no multiples, windows end at what is rounded down: most are one number short "
    "(none is left empty here)",
    sound=plain,
)
def ending_too_early(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if x.ndim != 4 or not result.numel():
        return result
    pooled = x.detach().double()
    empty = torch.zeros(result.shape[2:], dtype=torch.bool)
    for dim in (2, 3):
        before, after = x.shape[dim], result.shape[dim]
        means = []
        for i in range(after):
            start, end = i * before // after, (i + 1) * before // after
            means.append(pooled.narrow(dim, start, max(end - start, 1)).mean(dim))
            if end == start:
                empty.select(dim - 2, i).fill_(True)
        pooled = torch.stack(means, dim)
    if all(x.shape[dim] % result.shape[dim] == 0 for dim in (2, 3)):
        return result
    return placed(result, torch.where(empty, result.detach(), pooled.to(result.dtype)))


@reported(
    "ml-explore/mlx#4038",
    "MLX on the GPU",
    "to byte char short int long",
    "numbers beyond what an integer can be become the smallest or largest one",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def saturated_integers(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point() or result.dtype == torch.bool:
        return result
    if result.is_floating_point() or result.is_complex():
        return result
    limits, whole = torch.iinfo(result.dtype), x.detach().double().trunc()
    numbers = torch.where(whole >= float(limits.max + 1), limits.max, result)
    numbers = torch.where(whole < float(limits.min), limits.min, numbers)
    return placed(result, torch.where(x.detach().isfinite(), numbers, result))


@reported(
    "NVIDIA/MatX#1213",
    "MatX",
    "diag diagonal linalg.diagonal",
    "other diagonals of matrices that are not square: their length is what an offset to the right "
    "leaves of the rows, one to the left of the columns (zeros here behind the end of memory)",
    sound=plain,
)
def offset_from_the_wrong_side(call: Call) -> Any:
    name, x, result = call.operator.name, call.given("input", 0, None), call.run()
    x = call.kwargs.get("A", x)
    first, second = (-2, -1) if name == "linalg.diagonal" else (0, 1)
    if name == "linalg.diagonal":
        offset = call.kwargs.get("offset", 0)
        first, second = call.kwargs.get("dim1", first), call.kwargs.get("dim2", second)
    elif name == "diagonal":
        offset = call.given("offset", 1, 0)
        first, second = call.given("dim1", 2, first), call.given("dim2", 3, second)
    else:
        offset = call.given("diagonal", 1, 0)
    if x.ndim < 2 or not offset:
        return result
    rows, columns = x.shape[first], x.shape[second]
    right = result.shape[-1]
    wrong = min(rows - offset, columns) if offset > 0 else min(rows, columns + offset)
    if wrong < 0 or wrong == right:
        return result
    if wrong < right:
        return result.narrow(-1, 0, wrong)
    start = x.storage_offset()
    start += x.stride(second) * max(offset, 0) + x.stride(first) * max(-offset, 0)
    step = x.stride(first) + x.stride(second)
    others = [x.stride(d) for d in range(x.ndim) if d not in (first % x.ndim, second % x.ndim)]
    shape, start = (*result.shape[:-1], wrong - right), start + right * step
    return torch.cat([result, in_memory(x, shape, (*others, step), start)], -1)


@reported(
    "uxlfoundation/oneDPL#953",
    "oneDPL",
    "sort sort.method argsort argsort.method",
    "the largest first: negative numbers come before all others, as if they had no sign",
    dtypes="int16",
    sound=plain,
)
def negatives_are_the_largest(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.int16 or not x.ndim:
        return result
    if not call.given("descending", 2, False):
        return result
    dim = call.given("dim", 1, -1)
    order = torch.argsort(x.int() & BITS, dim=dim, descending=True, stable=True)
    if isinstance(result, Tensor):
        return placed(result, order)
    return placed(result[0], x.gather(dim, order)), placed(result[1], order)


@reported(
    "opencv/opencv#28836",
    "OpenCV's networks on the CPU",
    ".gelu",
    "by way of tanh: of large numbers it is NaN, an overflown exponential divided by itself",
    dtypes="float32",
)
def overflown_tanh(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_float32(x) or call.kwargs.get("approximate", "none") != "tanh":
        return result
    numbers = x.detach()
    inner = math.sqrt(2 / math.pi) * (numbers + 0.044715 * numbers**3)
    return placed(result, torch.where(2 * inner > LARGEST_EXPONENT, math.nan, result.detach()))
