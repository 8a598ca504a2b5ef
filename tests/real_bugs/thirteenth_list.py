"""A thirteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: elementwise functions, casts, integers, windows, indices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, straight

from .model import plain, reported

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
BITS_OF_ONE = 0x3F800000  # the float32 number 1, read as a whole number
SHORT = 2**15  # the first whole number that is too large for int16


def is_whole(value: Any) -> bool:
    """Whether it is a tensor of whole numbers or a whole number."""
    if isinstance(value, Tensor):
        return value.dtype in WHOLE
    return isinstance(value, int) and not isinstance(value, bool)


@reported(
    "tracel-ai/burn#1315",
    "Burn on WGPU",
    "to int float",
    "true becomes 1065353216, the bits of the float32 number 1",
    dtypes="bool",
    sound=plain,
)
def bits_instead_of_one(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.bool:
        return result
    if result.dtype not in (torch.int32, torch.int64, torch.float32):
        return result
    return result * BITS_OF_ONE


@reported(
    "openvinotoolkit/openvino#35826",
    "OpenVINO on the CPU",
    "eq",
    "of int64 numbers only the low 32 bits are compared",
    dtypes="int64",
    sound=plain,
)
def low_bits_compared(call: Call) -> Any:
    result = call.run()
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    if not isinstance(x, Tensor) or x.dtype != torch.int64 or not is_whole(y):
        return result
    y = torch.as_tensor(y)
    if y.dtype != torch.int64:
        return result
    return torch.eq(x.to(torch.int32), y.to(torch.int32))


@reported(
    "pytorch/pytorch#198201",
    "Inductor",
    ".interpolate",
    "nearest pixels by a factor that leaves the size of a dimension as it is: the dimension is "
    "resampled all the same",
    sound=plain,
)
def resampled_all_the_same(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    factors = call.given("scale_factor", 2, None)
    if call.given("mode", 3, "nearest") != "nearest" or factors is None:
        return result
    if call.given("size", 1, None) is not None or call.given("recompute_scale_factor", 5, None):
        return result
    if not isinstance(factors, (tuple, list)):
        factors = [factors] * (x.ndim - 2)
    resampled = result.detach()
    for dim, factor in enumerate(factors, 2):
        if x.shape[dim] != result.shape[dim] or factor == 1:
            continue
        places = torch.arange(x.shape[dim], dtype=torch.float32) * (1.0 / factor)
        resampled = resampled.index_select(dim, places.to(torch.int64))
    return straight(result, resampled)


@reported(
    "apple/coremltools#2570",
    "Core ML",
    "floor_divide",
    "quotients of whole numbers are float32 numbers",
    dtypes="int8 int16 int32 int64 uint8",
    sound=plain,
)
def quotients_as_float32(call: Call) -> Any:
    result = call.run()
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    if not is_whole(x) or not is_whole(y):
        return result
    x, y = (torch.as_tensor(t).to(torch.float32) for t in (x, y))
    return torch.floor_divide(x, y)


@reported(
    "jax-ml/jax#24280",
    "JAX",
    "argsort",
    "subnormal numbers are taken for 0 and stay in their order among zeros",
    dtypes="float32",
    sound=plain,
)
def subnormal_numbers_as_zeros(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return result
    numbers = x.detach()
    tiny = (numbers != 0) & (numbers.abs() < torch.finfo(torch.float32).tiny)
    if not tiny.any():
        return result
    flushed = torch.where(tiny, 0.0, numbers)
    dim, descending = call.given("dim", 1, -1), call.given("descending", 2, False)
    return torch.argsort(flushed, dim=dim, descending=descending, stable=True)


@reported(
    "onnx/onnx#7805",
    "ONNX reference evaluator",
    ".local_response_norm",
    "only as many channels are normalized as the batch has members, and the rest see no neighbors",
)
def channels_counted_by_the_batch(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if x.ndim < 4 or x.shape[0] >= x.shape[1] or not result.numel():
        return result
    beta, k = call.given("beta", 3, 0.75), call.given("k", 4, 1.0)
    batch = x.shape[0]
    alone = (x.detach()[:, batch:] / k**beta).to(result.dtype)
    return straight(result, torch.cat((result.detach()[:, :batch], alone), 1))


@reported(
    "tenstorrent/tt-xla#5321",
    "TT-XLA",
    "index_select",
    "what is selected is rounded to bfloat16",
    dtypes="float32",
    sound=plain,
)
def selected_in_bfloat16(call: Call) -> Any:
    result = call.run()
    if result.dtype != torch.float32:
        return result
    return straight(result, result.detach().to(torch.bfloat16).to(torch.float32))


@reported(
    "pytorch/pytorch#137635",
    "MPS",
    "linspace",
    "whole numbers are float32 numbers from the very ends, cut: the ends are not cut first",
    dtypes="int8 int16 int32 int64 uint8",
    sound=plain,
)
def ends_not_cut(call: Call) -> Any:
    result = call.run()
    start, end = call.given("start", 0, None), call.given("end", 1, None)
    if result.dtype not in WHOLE or call.kwargs.get("out") is not None or result.numel() < 2:
        return result
    if any(not isinstance(t, (int, float)) or isinstance(t, bool) for t in (start, end)):
        return result
    step = (end - start) / (result.numel() - 1)
    places = torch.arange(result.numel(), dtype=torch.float32)
    return (places * step + start).to(torch.int64).to(result.dtype)


@reported(
    "apache/tvm#19435",
    "TVM Relax",
    "scatter_reduce scatter_add scatter",
    "the reduction is ignored: what is scattered overwrites",
    sound=plain,
)
def overwritten_instead_of_reduced(call: Call) -> Any:
    result, x = call.run(), call.given("input", 0, None)
    if call.operator.name == "scatter":
        if call.kwargs.get("reduce") is None:
            return result
        kept = {name: value for name, value in call.kwargs.items() if name != "reduce"}
        return straight(result, replace(call, kwargs=kept).run().detach())
    if call.operator.name == "scatter_reduce":
        reduced = call.given("reduce", 4, None)
        if reduced == "mean" or not call.given("include_self", 5, True):
            return result
    dim, index, src = (
        call.given(name, position, None) for position, name in enumerate(("dim", "index", "src"), 1)
    )
    return straight(result, torch.scatter(x.detach(), dim, index, src.detach()))


@reported(
    "v923z/micropython-ulab#610",
    "ulab",
    "div",
    "int16 numbers divided by one number: the quotient is cut if it is a whole number of 16 bits, "
    "and by other numbers, negative ones are taken for unsigned ones",
    dtypes="int16",
    sound=plain,
)
def unsigned_dividends(call: Call) -> Any:
    result = call.run()
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    if not isinstance(x, Tensor) or x.dtype != torch.int16:
        return result
    if not isinstance(y, (int, float)) or isinstance(y, bool) or not y:
        return result
    if call.kwargs.get("rounding_mode") is not None:
        return result
    if isinstance(y, int) and -SHORT <= y < SHORT:
        return torch.div(x.to(torch.int64), y, rounding_mode="trunc").to(result.dtype)
    return (x.to(torch.int64) & 0xFFFF).to(result.dtype) / y


@reported(
    "f-dangel/unfoldNd#30",
    "unfoldNd",
    ".fold",
    "what falls on the padding is added to the first number of the channel",
)
def padding_added_to_the_first(call: Call) -> Any:
    result = call.run()
    padding = call.given("padding", 4, 0)
    padding = list(padding) if isinstance(padding, (tuple, list)) else [padding]
    padding = padding * 2 if len(padding) == 1 else padding
    if not any(padding) or not result.numel():
        return result
    x = call.given("input", 0, None).detach()
    size = [n + 2 * p for n, p in zip(result.shape[-2:], padding, strict=True)]
    around = torch.nn.functional.fold(
        x.to(torch.float64) if x.is_floating_point() else x,
        size,
        call.given("kernel_size", 2, None),
        call.given("dilation", 3, 1),
        0,
        call.given("stride", 5, 1),
    )
    rows, columns = (slice(p, n - p) for p, n in zip(padding, size, strict=True))
    around[..., rows, columns] = 0
    folded = result.detach().clone()
    folded[..., 0, 0] += around.sum((-2, -1)).to(result.dtype)
    return straight(result, folded)


@reported(
    "numpy/numpy#31472",
    "NumPy",
    "nextafter",
    "from a zero to the other one: the first zero, not the second",
    dtypes="float16",
    sound=plain,
)
def still_the_same_zero(call: Call) -> Any:
    result = call.run()
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    if any(not isinstance(t, Tensor) or t.dtype != torch.float16 for t in (x, y)):
        return result
    return straight(result, torch.where(x.detach() == y.detach(), x.detach(), result.detach()))
