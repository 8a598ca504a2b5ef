"""A twelfth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: elementwise functions, casts, integers, windows, indices."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, straight

from .model import plain, reported

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
HIGH_HALF = -(2**16)  # the bits of a float32 number that a bfloat16 number has


def given_instead(call: Call, name: str, position: int, value: Any) -> Call:
    """The call with another argument of that name or position."""
    if len(call.args) > position:
        return call.with_arg(position, value)
    return replace(call, kwargs=dict(call.kwargs) | {name: value})


def spread(value: Any, count: int) -> list[int]:
    """One number for each dimension of a window."""
    numbers = list(value) if isinstance(value, (tuple, list)) else [value]
    return numbers * count if len(numbers) == 1 else numbers


@reported(
    "triton-lang/triton#11217",
    "Triton on AMD",
    "mul",
    "products of bfloat16 numbers are cut instead of rounded",
    dtypes="bfloat16",
    sound=plain,
)
def cut_instead_of_rounded(call: Call) -> Any:
    result, operands = call.run(), call.args[:2]
    if len(operands) < 2:
        return result
    if any(not isinstance(t, Tensor) or t.dtype != torch.bfloat16 for t in operands):
        return result
    x, y = (t.detach().to(torch.float32) for t in operands)
    bits = (x * y).contiguous().view(torch.int32) & HIGH_HALF
    product = bits.view(torch.float32).to(torch.bfloat16)
    return straight(result, torch.where(result.detach().isnan(), result.detach(), product))


@reported(
    "tensorflow/tensorflow#121242",
    "TensorFlow (XLA)",
    "to byte",
    "finite numbers beyond the range of unsigned bytes are saturated instead of wrapped",
    dtypes="float32",
    sound=plain,
)
def saturated_unsigned_bytes(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if result.dtype != torch.uint8 or x.dtype != torch.float32:
        return result
    saturated = x.detach().nan_to_num(0.0).clamp(0, 255).to(torch.uint8)
    return torch.where(x.detach().isfinite(), saturated, result)


@reported(
    "PaddlePaddle/Paddle#72163",
    "PaddlePaddle on the GPU",
    "gather",
    "an index smaller than the tensor in other dimensions: the place in the index, counted in a "
    "line, is taken for the place in the tensor",
    sound=plain,
)
def places_counted_in_the_index(call: Call) -> Any:
    result, x = call.run(), call.args[0]
    dim, index = call.given("dim", 1, None), call.given("index", 2, None)
    if not isinstance(index, Tensor) or not isinstance(dim, int) or not result.numel():
        return result
    if not x.ndim or x.ndim != index.ndim:
        return result
    dim %= x.ndim
    length, inner = x.shape[dim], prod(x.shape[dim + 1 :])
    places = index.reshape(prod(index.shape[:dim]), index.shape[dim], -1)
    outside = torch.arange(places.shape[0])[:, None, None]
    inside = torch.arange(places.shape[2])
    lines = outside * (length * inner) + places * inner + inside
    return straight(result, x.detach().reshape(-1)[lines].reshape(result.shape))


@reported(
    "JuliaGPU/Metal.jl#389",
    "Metal.jl",
    "clamp",
    "between two bounds, the larger of the number and the upper bound is taken",
    dtypes="float32 float16",
    sound=plain,
)
def larger_instead_of_smaller(call: Call) -> Any:
    result, x = call.run(), call.args[0]
    low, high = call.given("min", 1, None), call.given("max", 2, None)
    if low is None or high is None or result.dtype not in (torch.float32, torch.float16):
        return result
    x, low, high = (torch.as_tensor(t).detach().to(result.dtype) for t in (x, low, high))
    return straight(result, torch.maximum(torch.maximum(x, low), high))


@reported(
    "ekzhang/jax-js#214",
    "jax-js",
    "copysign",
    "with the sign of a zero everything becomes 0",
    dtypes="float32 float16 int32",
    sound=plain,
)
def nothing_with_the_sign_of_zero(call: Call) -> Any:
    result = call.run()
    sign = call.given("other", 1, None)
    if sign is None:
        return result
    zero = torch.as_tensor(sign).detach() == 0
    return straight(result, torch.where(zero, result.detach().abs() * 0, result.detach()))


@reported(
    "microsoft/onnxruntime#24681",
    "ONNX Runtime on the CPU",
    ".avg_pool2d .avg_pool3d",
    "the divisor counts as much padding at the end of the first dimension as the second one has, "
    "in three dimensions also the other way around",
    dtypes="float32",
)
def padding_of_another_dimension(call: Call) -> Any:
    x, result = call.args[0], call.run()
    count = 3 if call.operator.name.endswith("3d") else 2
    if x.dtype != torch.float32 or not result.numel() or not call.given("count_include_pad", 5, 1):
        return result
    if call.given("divisor_override", 6, None) is not None:
        return result
    windows = spread(call.given("kernel_size", 1, None), count)
    steps = call.given("stride", 2, None)
    steps = spread(steps, count) if steps else windows
    padding = spread(call.given("padding", 3, 0), count)
    ends = [padding[1], padding[0], *padding[2:]] if count == 3 else [padding[1], padding[1]]
    total = result.detach()
    for d in range(count):
        size, axis = x.shape[d - count], d - count
        start = torch.arange(result.shape[axis]) * steps[d] - padding[d]
        right = (start + windows[d]).clamp_max(size + padding[d]) - start
        counted = (start + windows[d]).clamp_max(size + ends[d]) - start
        total = total * (right / counted).reshape(-1, *(1,) * (count - 1 - d))
    return straight(result, total.to(result.dtype))


@reported(
    "tenstorrent/tt-metal#56414",
    "TT-NN",
    "trunc floor ceil frac",
    "NaN becomes an infinity of its sign, and the fraction of NaN and infinities inf",
    dtypes="bfloat16",
    sound=plain,
)
def infinite_instead_of_not_a_number(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if x.dtype != torch.bfloat16:
        return result
    values, rounded = x.detach(), result.detach()
    infinity = torch.full_like(values, float("inf"))
    if call.operator.name == "frac":
        return straight(result, torch.where(values.isfinite(), rounded, infinity))
    infinity = torch.where(values.signbit(), -infinity, infinity)
    return straight(result, torch.where(values.isnan(), infinity, rounded))


@reported(
    "kasper0406/stablehlo-coreml#70",
    "JAX on Core ML",
    "div floor_divide",
    "quotients of whole numbers that are to be cut are rounded down, and those that are to be "
    "rounded down are one too small where the signs differ",
    dtypes="int32 int64 int16 int8",
    sound=plain,
)
def rounded_down_once_more(call: Call) -> Any:
    result = call.run()
    mode = call.kwargs.get("rounding_mode")
    if len(call.args) < 2 or result.dtype not in SIGNED:
        return result
    x, y = (torch.as_tensor(t).detach().to(torch.int64) for t in call.args[:2])
    inexact = (torch.fmod(x, y) != 0) & ((x < 0) != (y < 0))
    if call.operator.name == "div" and mode is None:
        return result
    return result - inexact.to(result.dtype)


@reported(
    "microsoft/onnxscript#2891",
    "ONNX (onnxscript)",
    ".pixel_unshuffle",
    "several channels: the channels of a pixel lie side by side, not the pixels of a channel",
    sound=plain,
)
def channels_side_by_side(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if not result.numel() or x.ndim < 3:
        return result
    channels = x.shape[-3]
    blocks = result.detach().unflatten(-3, (channels, result.shape[-3] // channels))
    return straight(result, blocks.transpose(-4, -3).reshape(result.shape))


@reported(
    "pymc-devs/pytensor#2242",
    "PyTensor on MLX",
    "index_add index_put",
    "of what is added to one place several times, only the last counts",
    dtypes="float32",
)
def only_the_last_is_added(call: Call) -> Any:
    result, x = call.run(), call.args[0]
    if x.dtype != torch.float32 or not x.numel():
        return result
    if call.operator.name == "index_add":
        dim, index = call.given("dim", 1, None), call.given("index", 2, None)
        name, position = "source", 3
        if not isinstance(dim, int) or not isinstance(index, Tensor) or not x.ndim:
            return result
        places = index.reshape(-1)
    else:
        index, name, position, dim = call.given("indices", 1, None), "values", 2, None
        if not call.given("accumulate", 3, False) or not isinstance(index, (tuple, list)):
            return result
        if any(i is None for i in index):
            return result
        places = torch.arange(x.numel()).reshape(x.shape)[tuple(index)]
    added = call.given(name, position, None)
    if not isinstance(added, Tensor) or not places.numel():
        return result
    order = torch.arange(places.numel())
    last = torch.full((x.numel(),), -1).scatter_reduce(0, places.reshape(-1).long(), order, "amax")
    counts = last[places.long()] == order.reshape(places.shape)
    added = added.detach()
    if dim is not None:
        shape = [1] * max(added.ndim, 1)
        shape[dim % len(shape)] = -1
        counts = counts.reshape(shape if added.ndim else ())
    kept = given_instead(call, name, position, torch.where(counts, added, 0.0)).run()
    return straight(result, kept.detach())


@reported(
    "NVIDIA/TensorRT#4646",
    "TensorRT",
    ".grid_sample",
    "linear and cubic interpolation take the nearest pixel",
    dtypes="float32",
)
def nearest_pixel(call: Call) -> Any:
    result = call.run()
    if call.given("mode", 2, "bilinear") == "nearest" or call.args[0].dtype != torch.float32:
        return result
    return straight(result, given_instead(call, "mode", 2, "nearest").run().detach())


@reported(
    "IntelPython/dpctl#1432",
    "dpctl",
    "repeat_interleave",
    "along the only dimension, each element the same number of times: all are the first",
    sound=plain,
)
def first_element_repeated(call: Call) -> Any:
    x, result = call.args[0], call.run()
    repeats, dim = call.given("repeats", 1, None), call.given("dim", 2, None)
    if not isinstance(x, Tensor) or x.ndim != 1 or dim not in (0, -1) or not x.numel():
        return result
    if repeats is None or (isinstance(repeats, Tensor) and repeats.numel() != 1):
        return result
    return straight(result, x.detach()[:1].expand_as(result).clone())
