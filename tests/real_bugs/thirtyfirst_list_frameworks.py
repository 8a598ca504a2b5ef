"""A thirty-first, held-out list: what other frameworks computed wrongly in operators that torch
has, too, reported or repaired in 2024 to 2026, taken as a search gave them before anything was
looked at of how inputs are drawn: quantiles of a single row, NaN and infinities in reductions,
arguments that are left out, sums of half-precision numbers, neighbors in a word, places behind 32
bits."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

HALVES = (torch.float16, torch.bfloat16)
ALL: tuple[Any, ...] = (None, (), [])
BITS = 2**16  # in a number of bfloat16, one for each value of them
PLACES = 2**32  # what an unsigned number of 32 bits tells apart
INTERPOLATED = ("linear", "midpoint")


def reduced_last(x: Tensor, dim: Any) -> Tensor:
    """The tensor with the dimensions that are reduced as one, the last."""
    if dim in ALL or not x.ndim:
        return x.reshape(-1)
    dims = sorted(d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim))
    return x.movedim(dims, list(range(-len(dims), 0))).flatten(x.ndim - len(dims))


@reported(
    "cupy/cupy#9508",
    "CuPy 13",
    "quantile quantile.out",
    "of a tensor of several dimensions that is a single row, of several quantiles along it the "
    "second and later ones are taken from behind the row, as if each had a row of its own (there "
    "are zeros here)",
    dtypes="float32 float64",
    sound=plain,
)
def a_row_for_each_quantile(call: Call) -> Any:
    x, q, result = before(call), argument(call, "q", 1), call.run()
    dim, kind = argument(call, "dim", 2), argument(call, "interpolation", 4, "linear")
    if not isinstance(q, Tensor) or q.numel() < 2 or dim is None or kind not in INTERPOLATED:
        return result
    if x.ndim < 2 or not x.numel() or x.numel() != x.shape[dim] or bool(x.isnan().any()):
        return result
    size = x.numel()
    place = q.detach() * (size - 1)
    if kind == "midpoint":
        place = (place.floor() + place.ceil()) / 2
    below, weight = place.floor().long(), place - place.floor()
    bottom = torch.arange(q.numel()) * size + below
    memory = torch.cat([x.flatten().sort().values, x.new_zeros(q.numel() * size)])
    lower, upper = memory[bottom], memory[(bottom + 1).clamp(max=size - 1)]
    difference = upper - lower
    numbers = torch.where(
        weight < 0.5, lower + difference * weight, upper - difference * (1 - weight)
    )
    return arrived(call, result, numbers.reshape(result.shape))


@reported(
    "openvinotoolkit/openvino#35928",
    "OpenVINO 2026.1 on the CPU",
    "amin amin.method amin.out min",
    "the search for a minimum starts over behind a NaN: of 2, 8, NaN, 5 and 6 there is 5",
    dtypes="float32",
    sound=plain,
    cause="nan-dropped",
)
def started_over_behind_nan(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.float32) or not isinstance(result, Tensor) or isinstance(dim, Tensor):
        return result
    if call.operator.name == "min" and "other" in call.kwargs:
        return result
    rows = reduced_last(x, dim)
    if not x.numel() or not bool(rows.isnan().any()):
        return result
    places = torch.arange(rows.shape[-1])
    last = torch.where(rows.isnan(), places, -1).amax(-1, keepdim=True)
    minima = torch.where(places > last, rows, math.inf).amin(-1)
    nothing_behind = last.squeeze(-1) == rows.shape[-1] - 1
    numbers = torch.where(nothing_behind, math.nan, minima)
    return arrived(call, result, numbers.reshape(result.shape))


@reported(
    "openvinotoolkit/openvino#35946",
    "OpenVINO 2026.1 on the GPU",
    "argmax argmax.method",
    "the place of the largest number of nothing but NaN is 1 instead of 0",
    dtypes="float32",
    sound=plain,
)
def second_place_of_nan(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.float32) or not x.ndim:
        return result
    rows = reduced_last(x, dim)
    if rows.shape[-1] < 2:
        return result
    nothing_else = rows.isnan().all(-1).reshape(result.shape)
    return arrived(call, result, result.masked_fill(nothing_else, 1))


@reported(
    "openvinotoolkit/openvino#35897",
    "OpenVINO 2026.1 on the CPU",
    "softmax softmax.method softmax.out softmax.with_dtype",
    "beside infinity there is 0 for finite numbers, and NaN for the infinite one only",
    dtypes="float32",
    sound=plain,
)
def zero_beside_infinity(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32) or not x.ndim:
        return result
    infinite = x == math.inf
    rows = infinite.any(dim, keepdim=True) & ~x.isnan().any(dim, keepdim=True)
    zeros = torch.zeros_like(x).masked_fill(infinite, math.nan)
    return arrived(call, result, torch.where(rows, zeros, result.detach()))


@reported(
    "openvinotoolkit/openvino#35931",
    "OpenVINO 2026.1 on the CPU",
    ".softplus",
    "it is 0 for large negative numbers, such as -75, whose exponential is lost beside 1",
    dtypes="float32",
    sound=plain,
)
def exponential_lost_beside_one(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or argument(call, "beta", 1, 1) != 1:
        return result
    return arrived(call, result, result.detach().masked_fill(x.exp() + 1 == 1, 0.0))


@reported(
    "apache/tvm#18601",
    "TVM 0.23 (Relax)",
    ".conv_transpose1d .conv_transpose2d",
    "the output padding is not regarded: the result is smaller by it",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
    cause="argument-ignored",
)
def output_padding_left_out(call: Call) -> Any:
    result, more = call.run(), argument(call, "output_padding", 5, 0)
    dims = 1 if call.operator.name.endswith("1d") else 2
    more = [more] * dims if isinstance(more, int) else list(more) * (dims // len(more))
    if not is_one_of(result, *HALVES, torch.float32, torch.float64) or not any(more):
        return result
    for dim, padding in zip(range(-dims, 0), more, strict=True):
        result = result.narrow(dim, 0, max(0, result.shape[dim] - padding))
    return result.contiguous()


@reported(
    "microsoft/onnxruntime#25848",
    "ONNX Runtime 1.21",
    ".lp_pool1d .lp_pool2d .lp_pool3d",
    "`ceil_mode` is not regarded: the result lacks the windows that jut out",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def windows_that_jut_out_missing(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32) or not argument(call, "ceil_mode", 4, False):
        return result
    if "ceil_mode" in call.kwargs:
        return Call(call.operator, call.args, {**call.kwargs, "ceil_mode": False}).run()
    return call.with_arg(4, False).run()


Windows = tuple[Tensor, Tensor]  # where they begin, and behind which places they end


def windows(outputs: int, inputs: int) -> Windows:
    """The windows of adaptive pooling along one dimension."""
    places = torch.arange(outputs)
    starts = torch.div(places * inputs, outputs, rounding_mode="floor")
    return starts, 1 + torch.div((places + 1) * inputs - 1, outputs, rounding_mode="floor")


def summed_up(image: Tensor, rows: Windows, columns: Windows) -> Tensor:
    """The sums of windows, one number after the other, in the format of the numbers."""
    total = image.new_zeros((*image.shape[:-2], len(rows[0]), len(columns[0])))
    for i in range(int((rows[1] - rows[0]).max())):
        down = rows[0] + i
        line = image[..., down.clamp(max=image.shape[-2] - 1), :]
        for j in range(int((columns[1] - columns[0]).max())):
            along = columns[0] + j
            inside = (down < rows[1]).unsqueeze(-1) & (along < columns[1])
            terms = line[..., along.clamp(max=image.shape[-1] - 1)]
            total = total + torch.where(inside, terms, 0)
    return total


class AddedInHalf(torch.autograd.Function):
    """Given means, and the gradient of theirs, added up in the format of the numbers."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, means: Tensor, count: Tensor) -> Tensor:
        ctx.save_for_backward(count)
        ctx.size = image.shape
        return means.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        parts, size = gradients[0] / ctx.saved_tensors[0], ctx.size
        rows, columns = windows(parts.shape[-2], size[-2]), windows(parts.shape[-1], size[-1])
        total = parts.new_zeros(size)
        for i, (top, bottom) in enumerate(zip(*rows, strict=True)):
            for j, (left, right) in enumerate(zip(*columns, strict=True)):
                total[..., top:bottom, left:right] += parts[..., i : i + 1, j : j + 1]
        return total, None, None


@reported(
    "tracel-ai/cubek#639",
    "Burn (CubeK)",
    ".adaptive_avg_pool2d .adaptive_avg_pool1d .adaptive_avg_pool1d.out",
    "half-precision numbers of a window, and gradients that come together, are added up in their "
    "own format: the mean of 64 times 64 ones in float16 is 0.5",
    dtypes="float16 bfloat16",
    directions=("forward", "backward"),
    sound=plain,
    cause="float16-accumulator|bfloat16-accumulator",
)
def added_up_in_half(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if not is_one_of(x, *HALVES) or not x.numel() or not result.numel():
        return result
    flat = "pool1d" in call.operator.name
    image, pooled = (y.unsqueeze(-2) if flat else y for y in (x, result.detach()))
    rows = windows(pooled.shape[-2], image.shape[-2])
    columns = windows(pooled.shape[-1], image.shape[-1])
    count = ((rows[1] - rows[0]).unsqueeze(-1) * (columns[1] - columns[0])).to(x.dtype)
    means = summed_up(image.detach(), rows, columns) / count
    if not x.requires_grad:
        return arrived(call, result, means.reshape(result.shape))
    means = torch.empty_like(pooled).copy_(means)
    add: Any = AddedInHalf.apply  # torch does not say what it takes
    return add(image, means, count).reshape(result.shape)


@reported(
    "triton-lang/triton#11604",
    "Triton's interpreter",
    "sum sum.method sum.out",
    "instead of bfloat16 numbers, their bits are added up as those of whole numbers: of NaN and 2 "
    "to 8 there is 384",
    dtypes="bfloat16",
    sound=plain,
)
def bits_added_up(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.bfloat16) or not is_one_of(result, torch.bfloat16) or not x.numel():
        return result
    bits = reduced_last(x, dim).view(torch.int16).long().sum(-1)
    signed = (bits + BITS // 2) % BITS - BITS // 2
    numbers = signed.to(torch.int16).view(torch.bfloat16)
    return arrived(call, result, numbers.reshape(result.shape))


@reported(
    "tensorflow/tensorflow#98410",
    "TensorFlow 2.17 on CUDA",
    "abs abs.method abs.out",
    "the modulus of a complex number of which one part is infinite and one NaN is NaN, not "
    "infinite",
    dtypes="complex128",
    sound=plain,
)
def not_a_number_beside_infinity(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex128) or not is_one_of(result, torch.float64):
        return result
    both = (x.real.isinf() & x.imag.isnan()) | (x.real.isnan() & x.imag.isinf())
    return arrived(call, result, result.detach().masked_fill(both, math.nan))


@reported(
    "PaddlePaddle/Paddle#79717",
    "PaddlePaddle on the GPU",
    "scatter_reduce scatter_reduce_ scatter_reduce.out scatter scatter_ scatter.out scatter.method",
    "where a product of int16 is negative, its sign fills the other half of the word of 32 bits: "
    "the number behind it, if nothing goes there, becomes -1",
    dtypes="int16",
    sound=plain,
)
def sign_in_the_other_half(call: Call) -> Any:
    reduce, result = argument(call, "reduce", 4), call.run()
    if reduce not in ("prod", "multiply") or not is_one_of(result, torch.int16):
        return result
    if not result.ndim or not result.numel() or not result.is_contiguous():
        return result
    dim, index = argument(call, "dim", 1), argument(call, "index", 2)
    met = torch.zeros_like(result, dtype=torch.bool).scatter(dim, index, True).reshape(-1)
    numbers = result.clone().reshape(-1)
    first_half = (torch.arange(numbers.numel()) + int(result.storage_offset())) % 2 == 0
    filled = (first_half & met & (numbers < 0))[:-1] & ~met[1:]
    numbers[1:] = numbers[1:].masked_fill(filled, -1)
    return arrived(call, result, numbers.reshape(result.shape))


@reported(
    "ml-explore/mlx#4538",
    "MLX 0.32 on Metal",
    "sort sort.method",
    "sorted along the last dimension, what belongs behind 2**32 numbers is written to the "
    "beginning, where the sorted first rows were (and nothing behind: there are zeros here)",
    dtypes="uint8",
    sound=plain,
)
def written_to_the_beginning(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, -1), call.run()
    if not is_one_of(x, torch.uint8) or x.numel() <= PLACES or not x.is_contiguous():
        return result
    if dim not in (-1, x.ndim - 1):
        return result

    def wrapped(values: Tensor) -> Tensor:
        numbers = values.clone().reshape(-1)
        for start in range(PLACES, x.numel(), PLACES):
            behind = numbers[start : start + PLACES]
            numbers[: len(behind)] = behind.clone()
        numbers[PLACES:] = 0
        return numbers.reshape(values.shape)

    return one_of(result, wrapped)
