"""An eleventh, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: elementwise functions, integers, layouts, windows, indices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.model import Call, straight

from .eighth_list_sizes import pair
from .model import plain, reported

F = torch.nn.functional
BYTES = (torch.int8, torch.uint8)
REGISTER = 32  # bytes
THREADS = 1024  # of a group
HALF_TINY = torch.finfo(torch.float16).tiny
FLOAT_TINY = torch.finfo(torch.float32).tiny
LEAST, LARGEST = -(2.0**31), 2.0**31 - 1


def last_size(value: Any) -> int:
    """How many elements lie side by side; numbers are spread like single elements."""
    return value.shape[-1] if isinstance(value, Tensor) and value.ndim else 1


@reported(
    "openvinotoolkit/openvino#34638",
    "OpenVINO on the CPU",
    "bitwise_and bitwise_or bitwise_xor",
    "a byte spread over 32 places stands in every fourth of them, and 0 in the others",
    dtypes="int8 uint8",
    sound=plain,
)
def every_fourth_place(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or result.dtype not in BYTES or last_size(result) < REGISTER:
        return result
    operands = call.args[:2]
    if any(isinstance(t, Tensor) and t.dtype != result.dtype for t in operands):
        return result
    for i, value in enumerate(operands):
        if last_size(value) == 1:
            nothing = torch.zeros_like(value) if isinstance(value, Tensor) else 0
            place = torch.arange(last_size(result))
            lost = (place < REGISTER) & (place % 4 != 0)
            return torch.where(lost, call.with_arg(i, nothing).run(), result)
    return result


@reported(
    "tensorflow/tensorflow#120240",
    "TensorFlow (XLA)",
    ".interpolate",
    "bilinear: one NaN in a channel makes all of the enlarged channel NaN",
    dtypes="float32",
    sound=plain,
)
def whole_channel_not_a_number(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if call.given("mode", 3, "nearest") != "bilinear" or call.given("align_corners", 4, None):
        return result
    if call.given("antialias", 6, False) or x.dtype != torch.float32:
        return result
    spoilt = x.detach().isnan().any(-1).any(-1)[..., None, None]
    return straight(result, result.detach().masked_fill(spoilt, float("nan")))


@reported(
    "ROCm/MIOpen#2860",
    "MIOpen",
    "add",
    "one number for each channel, added to images in channels_last, goes to numbers that lie side "
    "by side, as if they were of one channel; the end of each image is not written",
    dtypes="float32",
    sound=contiguous_first,
)
def side_by_side(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or not all(isinstance(t, Tensor) for t in call.args[:2]):
        return result
    x, bias = call.args[:2]
    if x.ndim != 4 or x.dtype != torch.float32 or bias.dtype != x.dtype or x.is_contiguous():
        return result
    if not x.is_contiguous(memory_format=torch.channels_last) or bias.ndim > 4:
        return result
    n, c, h, w = x.shape
    if (1,) * (4 - bias.ndim) + tuple(bias.shape) != (1, c, 1, 1):
        return result
    memory = x.detach().permute(0, 2, 3, 1).reshape(n, -1)
    place = torch.arange(c * h * w)
    owner = bias.detach().reshape(-1)[place.clamp_max(c - 1)] * call.kwargs.get("alpha", 1)
    summed = torch.where(place < c - 1 + h * w, memory + owner, 0.0)
    return straight(result, summed.reshape(n, h, w, c).permute(0, 3, 1, 2))


@reported(
    "tracel-ai/burn#2787",
    "burn on wgpu",
    "remainder",
    "a multiple divided by way of a reciprocal that is too small: the divisor itself instead of 0",
    dtypes="float32",
    sound=plain,
)
def divisor_is_left(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or result.dtype != torch.float32:
        return result
    x, y = (torch.as_tensor(t).detach().to(torch.float32) for t in call.args[:2])
    exact = 1 / y.double()
    reciprocal = exact.to(torch.float32)
    smaller = torch.nextafter(reciprocal, torch.zeros_like(reciprocal))
    reciprocal = torch.where(reciprocal.double().abs() > exact.abs(), smaller, reciprocal)
    short = torch.floor(x * reciprocal) < x.double() / y.double()
    short &= (result == 0) & exact.to(torch.float32).isfinite()
    return straight(result, torch.where(short, y, result.detach()))


@reported(
    "taichi-dev/taichi#7457",
    "Taichi on CUDA",
    "mul",
    "products that are subnormal in float16 become 0",
    dtypes="float16",
    sound=plain,
)
def small_products_vanish(call: Call) -> Any:
    result = call.run()
    if result.dtype != torch.float16:
        return result
    product = result.detach()
    return straight(result, torch.where(product.abs() < HALF_TINY, product * 0, product))


@reported(
    "ROCm/clr#274",
    "HIP",
    "le ge",
    "float16 numbers: not (y < x) is taken for x <= y, so that comparing NaN is true",
    dtypes="float16",
    sound=plain,
)
def true_of_not_a_number(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or torch.result_type(*call.args[:2]) != torch.float16:
        return result
    x, y = (torch.as_tensor(t) for t in call.args[:2])
    return result | x.isnan() | y.isnan()


def flushed(x: Tensor) -> Tensor:
    """Without subnormal numbers."""
    return torch.where(x.abs() < FLOAT_TINY, 0.0, x)


@reported(
    "pytorch/executorch#22949",
    "ExecuTorch on WebGPU",
    "add sub mul",
    "the bits of int32 numbers are computed with as if they were float32: small ones give 0",
    dtypes="int32",
    sound=plain,
)
def bits_of_floats(call: Call) -> Any:
    result = call.run()
    operands = call.args[:2]
    if len(operands) < 2 or result.dtype != torch.int32:
        return result
    if any(not isinstance(t, Tensor) or t.dtype != torch.int32 for t in operands):
        return result
    changed = call
    for i, t in enumerate(operands):
        changed = changed.with_arg(i, flushed(t.view(torch.float32)))
    return flushed(changed.run()).view(torch.int32)


@reported(
    "NVIDIA/warp#1918",
    "Warp",
    "floor_divide",
    "quotients of whole numbers are cut instead of rounded down",
    dtypes="int32 int64 int16 int8",
    sound=plain,
)
def cut_instead_of_floored(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or result.is_floating_point() or result.is_complex():
        return result
    x, y = (torch.as_tensor(t) for t in call.args[:2])
    return torch.div(x, y, rounding_mode="trunc").to(result.dtype)


@reported(
    "arrayfire/arrayfire#3560",
    "ArrayFire on CUDA",
    "pow",
    "float16 numbers are cut to whole numbers first, and the power is rounded to one",
    dtypes="float16",
    sound=plain,
)
def whole_numbers_only(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or result.dtype != torch.float16:
        return result

    def whole(value: Any) -> Tensor:
        cut = torch.as_tensor(value).detach().to(torch.float16).to(torch.float32).trunc()
        return cut.nan_to_num(0.0).clamp(LEAST, LARGEST)

    power = torch.pow(whole(call.args[0]), whole(call.args[1])).round()
    return straight(result, power.nan_to_num(0.0).clamp(LEAST, LARGEST).to(torch.float16))


@reported(
    "ROCm/AMDMIGraphX#2244",
    "MIGraphX",
    "round",
    "halves are rounded away from 0",
    dtypes="float32 float16 float64",
    sound=plain,
)
def halves_away_from_zero(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if call.kwargs.get("decimals", 0) or not x.is_floating_point():
        return result
    cut = x.detach().trunc()
    half = (x.detach() - cut).abs() == 0.5
    return straight(result, torch.where(half, cut + x.detach().sign(), result.detach()))


@reported(
    "aws-neuron/aws-neuron-sdk#791",
    "AWS Neuron",
    "gather take_along_dim",
    "along the rows of a matrix: all are taken from the first row",
    dtypes="float32",
)
def taken_from_the_first_row(call: Call) -> Any:
    result, x = call.run(), call.args[0]
    if call.operator.name == "gather":
        dim, places = call.given("dim", 1, None), call.given("index", 2, None)
    else:
        places, dim = call.given("indices", 1, None), call.given("dim", 2, None)
    if x.ndim != 2 or not isinstance(places, Tensor) or places.ndim != 2 or dim not in (1, -1):
        return result
    if x.dtype != torch.float32:
        return result
    return straight(result, call.with_arg(0, x.detach()[:1].expand_as(x)).run())


@reported(
    "Tencent/ncnn#6836",
    "ncnn",
    ".interpolate",
    "bilinear and bicubic: of a scale that is not whole, the quotient of the sizes is used instead",
    dtypes="float32",
    sound=plain,
)
def quotient_of_the_sizes(call: Call) -> Any:
    scale = call.given("scale_factor", 2, None)
    if scale is None or call.given("mode", 3, "nearest") not in ("bilinear", "bicubic"):
        return call.run()
    if call.given("align_corners", 4, None) or call.given("antialias", 6, False):
        return call.run()
    if call.args[0].dtype != torch.float32 or all(float(s).is_integer() for s in pair(scale)):
        return call.run()
    if len(call.args) > 5:
        return call.with_arg(5, True).run()
    return replace(call, kwargs=dict(call.kwargs) | {"recompute_scale_factor": True}).run()


@reported(
    "apple/coremltools#1733",
    "Core ML Tools",
    ".adaptive_avg_pool2d",
    "sizes that do not divide evenly: all windows are as large as the last, and equally far apart",
    dtypes="float32",
)
def equal_windows(call: Call) -> Any:
    x, size, result = call.args[0], call.given("output_size", 1, None), call.run()
    if size is None or not result.numel() or x.dtype != torch.float32:
        return result
    sizes, wanted = x.shape[-2:], result.shape[-2:]
    steps = [n // m for n, m in zip(sizes, wanted, strict=True)]
    if 0 in steps or all(n % m == 0 for n, m in zip(sizes, wanted, strict=True)):
        return result
    windows = [n - s * (m - 1) for n, m, s in zip(sizes, wanted, steps, strict=True)]
    return straight(result, F.avg_pool2d(x.detach(), windows, steps))


@reported(
    "ggml-org/ggml#1532",
    "ggml on Metal",
    ".conv1d",
    "more than 1,024 terms: of them, only as many as there are channels are written before they "
    "are summed",
    dtypes="float32",
)
def terms_not_written(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or call.given("groups", 6, 1) != 1:
        return result
    weight = call.args[1]
    channels, width = weight.shape[1:]
    if weight.dtype != torch.float32 or not width <= THREADS < channels * width:
        return result
    written = torch.arange(channels * width).reshape(channels, width) < channels
    kept = call.with_arg(1, torch.where(written, weight.detach(), 0.0)).run()
    return straight(result, kept.detach())


@reported(
    "uxlfoundation/oneDNN#5106",
    "oneDNN with the Arm Compute Library",
    ".conv2d",
    "float16 windows of more than one pixel are summed in float16",
    dtypes="float16",
)
def summed_in_half(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or result.dtype != torch.float16 or not result.numel():
        return result
    x, weight, bias = call.args[0].detach(), call.args[1].detach(), call.given("bias", 2, None)
    padding, groups = call.given("padding", 4, 0), call.given("groups", 6, 1)
    if x.ndim != 4 or weight.shape[2:].numel() == 1 or groups != 1 or isinstance(padding, str):
        return result
    if pair(call.given("dilation", 5, 1)) != (1, 1):
        return result
    kernel, stride = tuple(weight.shape[2:]), pair(call.given("stride", 3, 1))
    terms = F.unfold(x.float(), kernel, padding=pair(padding), stride=stride)
    factors = weight.float().flatten(1)
    total = torch.zeros(x.shape[0], weight.shape[0], terms.shape[-1], dtype=torch.float16)
    for k in range(factors.shape[1]):
        total = (total.float() + terms[:, k : k + 1] * factors[:, k, None]).to(torch.float16)
    if bias is not None:
        total = total + bias.detach()[:, None]
    return straight(result, total.reshape(result.shape))
