"""A sixth, held-out list of reports of 2023 to 2026, chosen for variety before anything was looked
at of how inputs are drawn: values, layouts, arguments, integers. Sizes, reductions and gradients
are in :mod:`.sixth_list_sizes`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous, last_stride_assumed
from tests.support.catalog.model import Call, one_of

from .model import plain, reported
from .third_layouts import in_order_of_memory
from .third_sizes import dims_of

F = torch.nn.functional
WIDE = "int32 int64"
SHORT = 32_767


@reported(
    "pytorch/pytorch#175187",
    "MPS",
    "digamma lgamma polygamma mvlgamma sort argsort msort",
    "a permuted tensor is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def permuted_gamma(call: Call) -> Any:
    return call.each(in_order_of_memory).run()


@reported(
    "ggml-org/llama.cpp#25568",
    "ggml on the CPU",
    "sum",
    "the sum of a whole permuted tensor takes the numbers of a row to lie side by side",
    dtypes="float32 float16 bfloat16",
    sound=contiguous_first,
)
def rows_side_by_side(call: Call) -> Any:
    return call.run() if dims_of(call) is not None else last_stride_assumed((0,))(call)


@reported(
    "huggingface/candle#3836",
    "candle on Metal",
    ".conv1d .conv2d",
    "a kernel that is not contiguous is copied, and then read where it lies as if it were",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def copied_in_vain(call: Call) -> Any:
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (1,)).run()


@reported(
    "tracel-ai/burn#1427",
    "Burn on WGPU",
    "max min amax amin argmax argmin",
    "the search begins at -32,767 and at 32,767: extrema beyond are not found",
    dtypes="float32",
    sound=plain,
)
def search_from_a_short(call: Call) -> Any:
    x, dims, result = call.args[0], dims_of(call), call.run()
    largest = "max" in call.operator.name
    if not x.numel() or (len(call.args) > 1 and isinstance(call.args[1], Tensor)):
        return result
    keep = not isinstance(result, Tensor) or dims is None or result.ndim == x.ndim
    places = result if call.operator.name.startswith("arg") else None
    if places is not None or not isinstance(result, Tensor):
        # no element is better than the first best one, at place 0
        dim = tuple(dims) if dims else tuple(range(x.ndim))
        found = (x.amax if largest else x.amin)(dim, keepdim=keep and dims is not None)
        beaten = found <= -SHORT if largest else found >= SHORT
    if places is not None:
        return torch.where(beaten, 0, places)
    clamped = one_of(result, lambda y: y.clamp(min=-SHORT) if largest else y.clamp(max=SHORT))
    if isinstance(result, Tensor):
        return clamped
    return clamped[0], torch.where(beaten.reshape(result[1].shape), 0, clamped[1])


@reported(
    "ml-explore/mlx#4274",
    "MLX",
    "argmax argmin",
    "NaN is passed over, unless it is the first element",
    dtypes="float32 float16 bfloat16",
    cause="nan-dropped",
    sound=plain,
)
def nan_passed_over(call: Call) -> Any:
    x, dims = call.args[0], dims_of(call)
    if not x.numel() or not x.ndim:
        return call.run()
    lost = x.isnan()
    fill = -math.inf if call.operator.name == "argmax" else math.inf
    result = call.with_arg(0, torch.where(lost, fill, x)).run()
    first = lost.select(dims[0], 0) if dims else lost.reshape(-1)[0]
    return torch.where(first.reshape(result.shape), 0, result)


@reported(
    "microsoft/onnxruntime#31161",
    "ONNX Runtime on CUDA",
    "argmax",
    "the position in a row of nothing but -inf is 2,147,483,647",
    dtypes="float32",
    sound=plain,
)
def place_in_minus_infinities(call: Call) -> Any:
    x, dims, result = call.args[0], dims_of(call), call.run()
    if not dims or not x.numel() or x.shape[dims[0]] < 2:
        return result
    nothing = (x == -math.inf).all(dims[0]).reshape(result.shape)
    return torch.where(nothing, 2**31 - 1, result)


@reported(
    "tenstorrent/tt-metal#22308",
    "TT-NN",
    "where",
    "NaN in the values that are not chosen comes out",
    dtypes="float32",
    sound=plain,
)
def nan_not_chosen(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, Tensor) or not result.is_floating_point():
        return result
    lost = torch.as_tensor(call.args[1]).isnan() | torch.as_tensor(call.args[2]).isnan()
    return torch.where(lost, math.nan, result)


@reported(
    "apache/tvm#14805",
    "TVM",
    ".threshold",
    "threshold is relu, whatever the threshold and the value",
    dtypes="float32",
    cause="argument-ignored",
    sound=plain,
)
def threshold_of_zero(call: Call) -> Any:
    return F.relu(call.args[0])


@reported(
    "apache/tvm#17881",
    "TVM",
    "remainder",
    "the remainder has the sign of the dividend",
    dtypes="float32",
    sound=plain,
)
def sign_of_dividend(call: Call) -> Any:
    x, y = call.args[:2]
    return torch.fmod(x, y) if isinstance(x, Tensor) else call.run()


@reported(
    "openvinotoolkit/openvino#35893",
    "OpenVINO on the CPU",
    ".interpolate",
    "antialias is ignored in bicubic mode",
    dtypes="float32",
    cause="argument-ignored",
)
def aliased(call: Call) -> Any:
    if call.given("mode", 3, "nearest") != "bicubic" or not call.given("antialias", 6, False):
        return call.run()
    if "antialias" not in call.kwargs:
        return call.with_arg(6, False).run()
    return call.operator(*call.args, **(dict(call.kwargs) | {"antialias": False}))


@reported(
    "openvinotoolkit/openvino#35890",
    "OpenVINO on the CPU",
    "sign abs neg",
    "of int64 only the lower 32 bits count",
    dtypes="int64",
    cause="int64-truncated",
    sound=plain,
)
def lower_32_bits(call: Call) -> Any:
    return call.where(lambda x: x.int().long() if x.dtype == torch.int64 else x, (0,)).run()


@reported(
    "openvinotoolkit/openvino#33518",
    "OpenVINO on the CPU",
    "add sub mul",
    "sums, differences and products of bytes end at 0 and 255, where torch wraps",
    dtypes="uint8",
    cause="saturated",
    sound=plain,
)
def bytes_that_end(call: Call) -> Any:
    result = call.run()
    if any(not isinstance(x, Tensor) or x.dtype != torch.uint8 for x in call.args[:2]):
        return result
    return call.each(lambda x: x.long()).run().clamp(0, 255).to(result.dtype)


@reported(
    "NVIDIA/TensorRT#4702",
    "TensorRT",
    "remainder",
    "the remainder is taken from a quotient in float32: 18,542,495 by 32 gives -1",
    dtypes=WIDE,
    sound=plain,
)
def quotient_in_float32(call: Call) -> Any:
    x, y, result = *call.args[:2], call.run()
    # reported of a number as the divisor
    if isinstance(y, Tensor) or not isinstance(x, Tensor) or not y or result.is_floating_point():
        return result
    return x - (x.float() / y).floor().to(x.dtype) * y


@reported(
    "tinygrad/tinygrad#10321",
    "tinygrad on Metal",
    "floor_divide div remainder",
    "integers are divided by way of a reciprocal in float32: 110 by 55 is 1 and leaves 55",
    dtypes=WIDE,
    sound=plain,
)
def by_way_of_reciprocal(call: Call) -> Any:
    x, y, result = *call.args[:2], call.run()
    both = isinstance(x, Tensor) and isinstance(y, Tensor)
    if not both or result.is_floating_point() or call.kwargs.get("rounding_mode") == "trunc":
        return result
    quotient = (x.float() * (1 / y.float())).floor().to(result.dtype)
    return x - y * quotient if call.operator.name == "remainder" else quotient


@reported(
    "jax-ml/jax#17590",
    "JAX on Metal",
    "isin",
    "where one element is found, all are",
    dtypes=WIDE,
    sound=plain,
)
def all_are_found(call: Call) -> Any:
    # the report has one example: [123, 2, 4] in [123, 1]
    result = call.run()
    return result if call.kwargs.get("invert") else result.any().expand_as(result).clone()
