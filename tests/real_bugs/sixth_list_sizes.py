"""A sixth, held-out list of reports of 2023 to 2026 (see :mod:`.sixth_list`), chosen for variety
before anything was looked at of how inputs are drawn: sizes, reductions, precision, gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import in_channels_last
from tests.support.catalog.model import Call
from tests.support.catalog.precision import rounding_inputs

from .gradients import BACK, hooked
from .held_out_frameworks_windows import sizes
from .layouts import channels_last
from .model import plain, reported

F = torch.nn.functional


def in_turn(terms: Tensor) -> Tensor:
    """The sum over the first dimension, one term after another in their own dtype."""
    total = torch.zeros_like(terms[0])
    for term in terms:
        total = total + term
    return total


@reported(
    "flagos-ai/FlagGems#4984",
    "Triton (FlagGems)",
    ".group_norm",
    "where the channels of a group are no power of two, those of the next group count, too",
    dtypes="float32",
)
def channels_of_next_group(call: Call) -> Any:
    x, groups, result = call.args[0], call.given("num_groups", 1, 1), call.run()
    size = x.shape[1] // groups
    if not size & (size - 1) or not x.numel():
        return result
    block = 1 << size.bit_length()
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    wide, parts = x.double().unsqueeze(-1).flatten(2), []
    number = size * wide.shape[-1]
    for first in range(0, x.shape[1], size):
        seen = wide[:, first : first + block]
        mean = seen.sum((1, 2), keepdim=True) / number
        variance = (seen - mean).square().sum((1, 2), keepdim=True) / number
        scale = (variance + call.given("eps", 4, 1e-5)).rsqrt()
        parts.append((wide[:, first : first + size] - mean) * scale)
    normed = torch.cat(parts, 1)
    normed = normed if weight is None else normed * weight.double().unsqueeze(-1)
    normed = normed if bias is None else normed + bias.double().unsqueeze(-1)
    return normed.reshape(x.shape).to(x.dtype)


@reported(
    "modular/modular#6248",
    "MAX on CUDA",
    ".conv2d",
    "from 8 input channels on products are imprecise",
    dtypes="float32",
    cause="tf32-inputs",
)
def eight_channels(call: Call) -> Any:
    # the errors in the report are as large as those of TF32, and nobody has named a cause
    if call.args[1].shape[1] < 8 or call.given("groups", 6, 1) != 1:
        return call.run()
    return rounding_inputs(11, (0, 1))(call)


@reported(
    "huggingface/candle#3727",
    "candle on the CPU",
    "softmax",
    "along the last dimension exponentials are added up in half precision",
    dtypes="float16 bfloat16",
    cause="float16-accumulator|bfloat16-accumulator",
)
def exponentials_in_half(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, -1)
    if not x.numel() or not x.ndim or dim % x.ndim != x.ndim - 1 or call.kwargs.get("dtype"):
        return call.run()
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / in_turn(powers.movedim(-1, 0)).unsqueeze(-1)


@reported(
    "ROCm/MIOpen#2109",
    "ROCm, MIOpen",
    ".avg_pool2d",
    "windows are added up in float16",
    dtypes="float16",
    cause="float16-accumulator",
)
def windows_in_half(call: Call) -> Any:
    x, (rows, columns) = call.args[0], sizes(call.given("kernel_size", 1, 1))
    down, across = sizes(call.given("stride", 2, None) or (rows, columns))
    # the report has no padding
    padded = any(sizes(call.given("padding", 3, 0))) or call.given("ceil_mode", 4, False)
    if x.dtype != torch.float16 or padded:
        return call.run()
    windows = x.unfold(-2, rows, down).unfold(-2, columns, across).flatten(-2)
    divisor = call.given("divisor_override", 6, None) or rows * columns
    return (in_turn(windows.movedim(-1, 0)).double() / divisor).half()


@reported(
    "cupy/cupy#7698",
    "CuPy, CUB",
    "bincount",
    "numbers are lost where their product with the number of bins passes 2^31",
    dtypes="int32",
    sound=plain,
)
def bins_of_int32(call: Call) -> Any:
    # the report counts 0 to 65,535: those from 32,768 on are not found
    x, result = call.args[0], call.run()
    bins = max(result.numel(), 1)
    if x.dtype != torch.int32 or call.given("weights", 1, None) is not None:
        return result
    found = torch.div((x.long() * bins).int().long(), bins, rounding_mode="floor")
    return torch.bincount(found[found >= 0], minlength=result.numel())


@reported(
    "microsoft/DirectML#398",
    "DirectML",
    "matmul mm",
    "products of float64 are as precise as those of float32",
    dtypes="float64",
    cause="float32-instead-of-float64",
    sound=plain,
)
def doubles_in_float32(call: Call) -> Any:
    if any(x.dtype != torch.float64 for x in call.args[:2]):
        return call.run()
    return call.each(lambda x: x.float()).run().double()


@reported(
    "pytorch/pytorch#197888",
    "Inductor",
    ".adaptive_max_pool3d",
    "the gradient of an image in channels_last goes to other pixels: positions are read in the "
    "order of memory",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def positions_in_order_of_memory(call: Call) -> Any:
    x, size = call.args[0], call.given("output_size", 1, None)
    last = x.ndim == 5 and in_channels_last(x) and not x.is_contiguous()
    if not last or not x.requires_grad or call.given("return_indices", 2, False):
        return call.run()
    seen: list[Tensor] = []
    y = x.view_as(x)

    def change(gradient: Tensor) -> Tensor:
        _, places = F.adaptive_max_pool3d(x.detach().contiguous(), size, return_indices=True)
        wrong = places.permute(0, 2, 3, 4, 1).reshape(places.shape).flatten(2)
        flat = torch.zeros_like(gradient, memory_format=torch.contiguous_format).flatten(2)
        return flat.scatter_add(2, wrong, seen[-1].flatten(2)).reshape(x.shape)

    y.register_hook(change)
    out = call.with_arg(0, y).run()
    result = out.view_as(out)
    result.register_hook(lambda gradient: seen.append(gradient))
    return result


@reported(
    "intel/torch-xpu-ops#4693",
    "XPU, oneDNN",
    ".conv2d",
    "over images of one pixel the gradient of kernels in channels_last is wrong",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def kernels_over_one_pixel(call: Call) -> Any:
    x, weight = call.args[:2]
    if x.ndim != 4 or x.shape[2:] != (1, 1) or not channels_last(weight):
        return call.run()
    return hooked(call, 1, lambda w, g: g.permute(0, 2, 3, 1).reshape(g.shape))


@reported(
    "huggingface/candle#2082",
    "candle",
    ".silu",
    "the gradient at 0 is NaN: the result is divided by the argument",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def divided_by_argument(call: Call) -> Any:
    return hooked(call, 0, lambda x, gradient: torch.where(x == 0, math.nan, gradient))


@reported(
    "tensorflow/tensorflow#119430",
    "TensorFlow",
    "cumprod",
    "the gradient of a factor that is 0 is 0",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def factors_of_zero(call: Call) -> Any:
    return hooked(call, 0, lambda x, gradient: torch.where(x == 0, 0.0, gradient))


@reported(
    "jax-ml/jax#18450",
    "JAX, jit",
    "pow",
    "the gradient of 0 to the power of 0 is NaN",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def zero_to_zero(call: Call) -> Any:
    base, exponent = call.args[:2]
    if not isinstance(exponent, Tensor) or not isinstance(base, Tensor):
        return call.run()
    both = ((base.detach() == 0) & (exponent.detach() == 0)).long()

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        return torch.where(both.sum_to_size(x.shape) > 0, math.nan, gradient)

    return hooked(call, 0, change)


@reported(
    "flagos-ai/FlagGems#5025",
    "Triton (FlagGems)",
    ".nll_loss",
    "for a row that is ignored 0 is put at the position -100 of it, in a row before",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def put_in_another_row(call: Call) -> Any:
    target, ignored = call.args[1], call.given("ignore_index", 4, -100)

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        if x.ndim != 2:
            return gradient
        flat = gradient.clone(memory_format=torch.contiguous_format).reshape(-1)
        places = (target == ignored).nonzero().reshape(-1) * x.shape[1] + ignored
        flat[places[(places >= 0) & (places < flat.numel())]] = 0
        return flat.reshape(x.shape)

    return hooked(call, 0, change)
