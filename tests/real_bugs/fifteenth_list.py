"""A fifteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: elementwise functions at special values, integer division,
rounding, bounds, choices by a mask, scattering, largest elements, sampled and resized images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .fourteenth_list import placed
from .model import plain, reported

PACK = 4  # channels that lie side by side in memory


@reported(
    "tracel-ai/burn#5730",
    "Burn on the CPU",
    "where",
    "of values for where the condition is false that are smaller than the result, only as many "
    "elements as they have are written: the rest comes from the other values, whatever the "
    "condition",
    sound=plain,
)
def chosen_in_the_first_block(call: Call) -> Any:
    chosen, other = call.given("input", 1, None), call.given("other", 2, None)
    result = call.run()
    if not isinstance(chosen, Tensor) or not isinstance(other, Tensor) or not other.ndim:
        return result
    if chosen.shape != result.shape or other.numel() >= result.numel():
        return result
    rest = torch.arange(result.numel()).reshape(result.shape) >= other.numel()
    return placed(result, torch.where(rest, chosen.detach().to(result.dtype), result.detach()))


@reported(
    "alibaba/MNN#3026",
    "MNN on the CPU",
    ".grid_sample",
    "of volumes only the first four channels are sampled; the others are left as they were "
    "allocated (zeros here)",
    sound=plain,
)
def first_four_channels(call: Call) -> Any:
    result = call.run()
    if result.ndim != 5 or result.shape[1] <= PACK:
        return result
    numbers = result.detach().clone()
    numbers[:, PACK:] = 0
    return placed(result, numbers)


def unsigned(x: Any, dtype: torch.dtype) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The bits of integers, read as numbers that have no sign."""
    bits = torch.as_tensor(x).to(dtype).contiguous().numpy()
    return bits.view(np.dtype(f"u{bits.dtype.itemsize}")).astype(np.uint64)


@reported(
    "NVIDIA/numba-cuda-mlir#184",
    "Numba-CUDA-MLIR",
    "remainder floor_divide div",
    "divided with rounding down, negative integers are taken for numbers without a sign, 2^32 "
    "larger as int32",
    dtypes="int32 int64 int16 int8",
    sound=plain,
)
def divided_without_signs(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, Tensor) or result.is_floating_point() or result.is_complex():
        return result
    if call.operator.name == "div" and call.kwargs.get("rounding_mode") != "floor":
        return result
    x = unsigned(call.given("input", 0, None), result.dtype)
    y = unsigned(call.given("other", 1, None), result.dtype)
    numbers = x % y if call.operator.name == "remainder" else x // y
    wrapped = torch.from_numpy(np.asarray(numbers, dtype=np.uint64).view(np.int64))
    return placed(result, wrapped.to(result.dtype))


@reported(
    "google/XNNPACK#10399",
    "XNNPACK",
    "sqrt",
    "the root of infinity, a product with the reciprocal of the root, is NaN",
    dtypes="float32",
    sound=plain,
)
def root_of_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return result
    return placed(result, torch.where(x.detach() == math.inf, math.nan, result.detach()))


@reported(
    "elixir-nx/nx#1291",
    "Nx",
    "clamp",
    "between minus infinity and infinity, every number becomes infinity",
    sound=plain,
)
def all_at_the_upper_infinity(call: Call) -> Any:
    low, high = call.given("min", 1, None), call.given("max", 2, None)
    result = call.run()
    if low is None or high is None or not result.is_floating_point():
        return result
    low, high = torch.as_tensor(low), torch.as_tensor(high)
    if low.ndim or high.ndim or low != -math.inf or high != math.inf:
        return result
    return placed(result, torch.full_like(result, math.inf))


@reported(
    "apache/tvm#20182",
    "TVM Relax",
    "scatter scatter.method",
    "positions before and after the dimension are counted in the shape of the index: where it is "
    "smaller than the input in a dimension inside, elements land elsewhere",
    sound=plain,
)
def counted_in_the_index(call: Call) -> Any:
    x, dim = call.given("input", 0, None), call.given("dim", 1, None)
    index, source = call.given("index", 2, None), call.given("src", 3, call.kwargs.get("value"))
    result = call.run()
    if call.given("reduce", 4, None) is not None or not x.ndim or not index.ndim:
        return result
    if not index.numel():
        return result
    dim %= x.ndim
    if all(index.shape[d] == x.shape[d] for d in range(x.ndim) if d != dim):
        return result
    inside, index_inside = math.prod(x.shape[dim + 1 :]), math.prod(index.shape[dim + 1 :])
    rows = index.reshape(-1, index.shape[dim], index_inside)
    before = torch.arange(rows.shape[0]).reshape(-1, 1, 1) * x.shape[dim] * inside
    places = before + rows * inside + torch.arange(index_inside)
    if isinstance(source, Tensor) and source.ndim:
        source = source.detach()[tuple(slice(n) for n in index.shape)]
    written = torch.as_tensor(source).detach().to(x.dtype).expand(index.shape)
    changed = x.detach().flatten().scatter(0, places.flatten(), written.flatten())
    return placed(result, changed.reshape(x.shape))


@reported(
    "nv-legate/cupynumeric#1097",
    "cuPyNumeric",
    "nextafter",
    "the next number after a float16 number is that of float32, which is rounded to the number "
    "itself",
    dtypes="float16",
    sound=plain,
)
def next_in_float32(call: Call) -> Any:
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    result = call.run()
    if result.dtype != torch.float16:
        return result
    return placed(result, torch.nextafter(x.detach().float(), y.detach().float()).half())


@reported(
    "openvinotoolkit/openvino#33447",
    "OpenVINO on the GPU",
    ".interpolate",
    "bicubic: an image of one pixel is enlarged to NaN",
    sound=plain,
)
def enlarged_pixel(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if call.given("mode", 3, "nearest") != "bicubic" or x.shape[2:] != (1, 1):
        return result
    if call.given("align_corners", 4, None) or call.given("antialias", 6, False):
        return result
    return result if result.shape == x.shape else placed(result, torch.full_like(result, math.nan))


@reported(
    "microsoft/onnxruntime#28462",
    "ONNX Runtime on the CPU",
    "erf",
    "of NaN it is 1",
    dtypes="float32",
    sound=plain,
)
def one_of_nan(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return result
    return placed(result, torch.where(x.detach().isnan(), 1.0, result.detach()))


@reported(
    "taichi-dev/taichi#8077",
    "Taichi (LLVM)",
    "sign",
    "of negative numbers it is 1",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def positive_signs(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    return placed(result, result.detach().abs())


@reported(
    "PaddlePaddle/Paddle#57366",
    "Paddle on CUDA",
    "topk",
    "among the largest elements, minus infinity has the position -1",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def nowhere(call: Call) -> Any:
    result = call.run()
    if not call.given("largest", 3, True) or not result[0].is_floating_point():
        return result
    infinite = result[0].detach() == -math.inf
    return one_of(result, lambda index: placed(index, torch.where(infinite, -1, index)), which=1)


@reported(
    "modular/modular#3614",
    "Mojo",
    "round",
    "the number of decimals is ignored: whole numbers come out",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def whole_whatever_the_decimals(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not call.given("decimals", 1, 0) or not result.is_floating_point():
        return result
    return placed(result, x.detach().round())
