"""Reports of compilers and other frameworks, measured before anything was changed for them:
convolutions, pooling, normalizations, sampled images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call
from tests.support.catalog.precision import to_bits

from .held_out import pair
from .model import plain, reported

F = torch.nn.functional


def sizes(value: Any) -> tuple[int, int]:
    """The two sizes of a window, a stride, a padding."""
    return pair(value, False, 1)


@reported(
    "apple/coremltools#2515",
    "Core ML",
    ".conv2d",
    "the last pixel is wrong where kernels that are not square move by more than one pixel",
    dtypes="float32",
    sound=plain,
)
def last_pixel(call: Call) -> Any:
    weight, padding = call.args[1], call.given("padding", 4, 0)
    moves = max(sizes(call.given("stride", 3, 1))) > 1
    padded = not isinstance(padding, str) and max(sizes(padding)) > 0
    result = call.run()
    if weight.shape[-1] == weight.shape[-2] or weight.shape[1] < 2 or not (moves and padded):
        return result
    last = torch.zeros(result.shape[-2:], dtype=torch.bool)
    last[-1, -1] = True
    return torch.where(last, result * 0.5, result)


@reported(
    "microsoft/onnxruntime#26215",
    "ONNX Runtime CUDA 1.22",
    ".conv2d",
    "kernels of even size with padding='same' are padded at the beginning, not at the end",
    dtypes="float32",
    sound=plain,
)
def padded_before(call: Call) -> Any:
    x, weight = call.args[:2]
    if call.given("padding", 4, 0) != "same":
        return call.run()
    dilation = sizes(call.given("dilation", 5, 1))
    pads: list[int] = []
    for size, step in zip(reversed(weight.shape[-2:]), reversed(dilation), strict=True):
        total = (size - 1) * step
        pads += [total - total // 2, total // 2]
    kwargs = {**call.kwargs, "padding": 0}
    return call.operator(F.pad(x, pads), *call.args[1:], **kwargs)


@reported(
    "PaddlePaddle/Paddle#62429",
    "Paddle on Ampere",
    ".conv2d",
    "convolutions read their factors in TF32",
    dtypes="float32",
    cause="tf32-inputs",
    sound=plain,
)
def factors_in_tf32(call: Call) -> Any:
    return call.where(lambda x: to_bits(x, 11), (0, 1)).run()


@reported(
    "microsoft/onnxruntime#14208",
    "ONNX Runtime CPU",
    ".conv_transpose2d",
    "with dilation the output padding is put before the result",
    dtypes="float32",
    sound=plain,
)
def output_padding_before(call: Call) -> Any:
    more = sizes(call.given("output_padding", 5, 0))
    dilation = sizes(call.given("dilation", 7, 1))
    result = call.run()
    if max(dilation) < 2 or not max(more):
        return result
    return result.roll(more, (-2, -1))


@reported(
    "openvinotoolkit/openvino#21044",
    "OpenVINO on the CPU",
    ".lp_pool2d .lp_pool1d",
    "powers of negative numbers are 0 instead of NaN",
    dtypes="float32",
    cause="nan-dropped",
    sound=plain,
)
def powers_of_negative_numbers(call: Call) -> Any:
    result = call.run()
    return torch.where(result.isnan(), torch.zeros_like(result), result)


@reported(
    "microsoft/onnxruntime#16350",
    "ONNX Runtime CPU",
    ".max_pool2d",
    "with ceil_mode the windows beyond the border see memory behind the image",
    dtypes="float32",
    sound=plain,
)
def beyond_the_border(call: Call) -> Any:
    result = call.run()
    value = result if isinstance(result, Tensor) else result[0]
    if not call.given("ceil_mode", 5, False):
        return result
    whole = call.operator(*call.args, **{**call.kwargs, "ceil_mode": False})
    kept = (whole if isinstance(whole, Tensor) else whole[0]).shape[-2:]
    seen = torch.full_like(value, 1e30)
    seen[..., : kept[0], : kept[1]] = value[..., : kept[0], : kept[1]]
    return seen if isinstance(result, Tensor) else (seen, *result[1:])


@reported(
    "apache/tvm#15280",
    "TVM",
    ".batch_norm",
    "training=True is ignored: the running statistics are used",
    dtypes="float32",
    cause="argument-ignored",
    sound=plain,
)
def always_inference(call: Call) -> Any:
    if call.args[1] is None:
        return call.run()
    return call.operator(*call.args, **{**call.kwargs, "training": False})


@reported(
    "pytorch/pytorch#142839",
    "Inductor on the CPU",
    ".instance_norm",
    "mean and variance of large images are updated one after another in float32",
    dtypes="float32",
    sound=plain,
)
def one_after_another(call: Call) -> Any:
    x = call.args[0]
    if not call.given("use_input_stats", 5, True) or x.ndim < 3 or not x.numel():
        return call.run()
    call.run()  # updates the running statistics, rightly
    weight, bias = call.given("weight", 3, None), call.given("bias", 4, None)
    flat = x.reshape(*x.shape[:2], -1)
    count, eps = flat.shape[-1], call.given("eps", 7, 1e-5)
    mean = flat.cumsum(-1)[..., -1:] / count
    variance = ((flat - mean) ** 2).cumsum(-1)[..., -1:] / count
    result = ((flat - mean) / (variance + eps).sqrt()).reshape(x.shape)
    per_channel = (-1, *(1,) * (x.ndim - 2))
    if weight is not None:
        result = result * weight.reshape(per_channel)
    return result if bias is None else result + bias.reshape(per_channel)


@reported(
    "PaddlePaddle/Paddle#58907",
    "Paddle",
    ".grid_sample",
    "the nearest pixel: halves are rounded up, not to the even one",
    dtypes="float32",
    sound=plain,
)
def halves_rounded_up(call: Call) -> Any:
    image, grid = call.args[:2]
    border = call.kwargs.get("padding_mode") == "border" and call.kwargs.get("align_corners")
    if call.kwargs.get("mode") != "nearest" or not border or image.ndim != 4:
        return call.run()
    height, width = image.shape[-2:]
    columns = ((grid[..., 0] + 1) / 2 * (width - 1)).clamp(0, width - 1)
    rows = ((grid[..., 1] + 1) / 2 * (height - 1)).clamp(0, height - 1)
    half = ((columns % 1) == 0.5) | ((rows % 1) == 0.5)
    if not bool(half.any()):
        return call.run()
    at = (rows + 0.5).floor().long() * width + (columns + 0.5).floor().long()
    at = at.flatten(1).unsqueeze(1).expand(-1, image.shape[1], -1)
    up = image.flatten(2).gather(2, at).reshape(*image.shape[:2], *grid.shape[1:3])
    return torch.where(half.unsqueeze(1), up, call.run())
