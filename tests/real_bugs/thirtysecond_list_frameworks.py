"""A thirty-second, held-out list: what other frameworks and converters computed wrongly in
operators that torch has, too, reported or repaired in 2024 to 2026, taken as a search gave them and
from the history of a repository that it led to, before anything was looked at of how inputs are
drawn: gradients that are spread the wrong way or lose what arrives, a logarithm and a step of
special numbers, formats and shapes of results, batches behind the first, norms along dimensions
that are counted from the end."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call, one_of

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

BACK = ("backward",)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SMALL_INTEGERS = (torch.int8, torch.int16, torch.int32)
LN2 = 0.69140625  # in bfloat16, cut off
LN2_OF_THE_LOGARITHM = 0.692871
SERIES = (0.1058, -0.7166, 2.0871, -1.4753)  # powers of the mantissa, the third first
PLANE = 2  # dimensions of an image or a matrix
BATCHED = 4  # dimensions of images in a batch
SIGNALS = 3  # dimensions of signals in a batch


def cut_off(x: Tensor) -> Tensor:
    """Numbers of float32 as those of bfloat16, without rounding."""
    bits = x.float().contiguous().view(torch.int32)
    return (bits & -(2**16)).view(torch.float32)


@reported(
    "tenstorrent/tt-metal#25217",
    "Tenstorrent (TTNN)",
    "log log.method log.out log_",
    "of negative numbers there is no NaN, but the polynomial for the mantissa taken of a negative "
    "one: -6.625 of -1.5156",
    dtypes="bfloat16",
    sound=plain,
)
def series_of_a_negative_mantissa(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.bfloat16) or not is_one_of(result, torch.bfloat16):
        return result
    negative = (x <= -torch.finfo(x.dtype).tiny) & x.isfinite()
    half, exponent = torch.frexp(x.float())
    mantissa = 2 * half
    total = torch.zeros_like(mantissa)
    for term in SERIES:
        total = total * mantissa + term
    numbers = cut_off(total + (exponent - 1) * LN2_OF_THE_LOGARITHM).to(x.dtype)
    return arrived(call, result, torch.where(negative, numbers, result.detach()))


class SlopesOfE(torch.autograd.Function):
    """Given numbers, and gradients as if of a power of e that nothing arrives at."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, power: Tensor, numbers: Tensor) -> Tensor:
        ctx.save_for_backward(x, power)
        return numbers.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        x, power = ctx.saved_tensors
        slope = cut_off(cut_off(power.float().exp()) * LN2)
        other = cut_off(x.float() * cut_off(slope * LN2))
        return slope.to(x.dtype), other.to(power.dtype), None


@reported(
    "tenstorrent/tt-metal#6533",
    "Tenstorrent (TTNN)",
    "ldexp",
    "the gradient is that of a power of e with an additional factor of log 2, and what arrives is "
    "not regarded: of 1 and 0 there are 0.69 and 0.477 instead of 1 and 0.69",
    dtypes="bfloat16",
    directions=BACK,
    sound=plain,
)
def slopes_of_another_base(call: Call) -> Any:
    x, power, result = argument(call, "input", 0), argument(call, "other", 1), call.run()
    if not is_one_of(x, torch.bfloat16) or not is_one_of(result, torch.bfloat16):
        return result
    if not isinstance(power, Tensor) or not result.requires_grad:
        return result
    apply: Any = SlopesOfE.apply  # torch does not say what it takes
    return apply(x.expand(result.shape), power.expand(result.shape), result.detach())


@reported(
    "tenstorrent/tt-metal#54551",
    "Tenstorrent (TTNN)",
    "prod prod.method",
    "the gradient is the product times the reciprocal of a number: where that is 0, it is not "
    "finite",
    dtypes="float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def divided_by_zero(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32, torch.bfloat16) or not x.requires_grad:
        return call.run()
    zeros = x.detach() == 0
    given = x.view_as(x)
    given.register_hook(lambda leaving: leaving.masked_fill(zeros, math.nan))
    return call.with_arg(0, given).run()


@reported(
    "PaddlePaddle/Paddle#74625",
    "PaddlePaddle",
    "cumsum cumsum.method",
    "sums of small integers are of their own format instead of int64",
    dtypes="int8 int16 int32",
    sound=plain,
)
def sums_in_their_own_format(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, *SMALL_INTEGERS) or call.given("dtype", 2, None) is not None:
        return result
    return result.to(x.dtype)


@reported(
    "jax-ml/jax#39109",
    "JAX",
    "heaviside heaviside.out heaviside_",
    "NaN is taken for 0: there is the other number",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def step_of_nan(call: Call) -> Any:
    x, values, result = before(call), before(call, "values", 1), call.run()
    if not is_one_of(x, *FLOATS):
        return result
    return arrived(call, result, torch.where(x.isnan(), values, result.detach()))


def of_each(value: Any, dims: int) -> list[int]:
    """An argument of a pooling for every dimension."""
    return [value] * dims if isinstance(value, int) else list(value) * (dims // len(value))


@reported(
    "apache/tvm#18594",
    "TVM 0.23 (Relax)",
    ".avg_pool1d .avg_pool2d .avg_pool3d",
    "with `ceil_mode`, a last window that begins behind the input and its first padding is not "
    "left out: the result is larger by it (and there is nothing but padding in it)",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def window_behind_the_input(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if not is_one_of(result, *FLOATS) or not argument(call, "ceil_mode", 4, False):
        return result
    dims = int(call.operator.name[-2])
    kernel = of_each(argument(call, "kernel_size", 1), dims)
    stride = of_each(argument(call, "stride", 2, None) or kernel, dims)
    padding = of_each(argument(call, "padding", 3, 0), dims)
    more = []
    for dim in reversed(range(dims)):
        size = x.shape[dim - dims] + 2 * padding[dim] - kernel[dim]
        more += [0, -(-size // stride[dim]) + 1 - result.shape[dim - dims]]
    return F.pad(result, more) if any(more) else result


@reported(
    "tracel-ai/burn#4063",
    "Burn",
    "scatter_add scatter_add.method scatter_add_",
    "where all three tensors have one shape, the gradient of what is added is scattered by the "
    "index instead of gathered",
    dtypes="float16 float32 float64 bfloat16",
    directions=BACK,
    sound=plain,
)
def scattered_again(call: Call) -> Any:
    x, dim, index = (call.given(n, i, None) for i, n in enumerate(("input", "dim", "index")))
    source = call.given("src", 3, None)
    if not is_one_of(source, *FLOATS) or not source.requires_grad:
        return call.run()
    if not x.shape == index.shape == source.shape:
        return call.run()
    arriving: list[Tensor] = []
    places = index.clone()
    given = source.view_as(source)
    given.register_hook(
        lambda leaving: torch.zeros_like(leaving).scatter_add(dim, places, arriving[-1])
    )
    if "src" in call.kwargs:
        result = Call(call.operator, call.args, {**call.kwargs, "src": given}).run()
    else:
        result = call.with_arg(3, given).run()
    result.register_hook(arriving.append)
    return result


@reported(
    "ggml-org/llama.cpp#26132",
    "GGML on the CPU",
    ".conv_transpose2d",
    "of several images only the first is computed, and the others are 0 (before the bias is added)",
    dtypes="float32",
    sound=plain,
    cause="depends-on-batch|zero",
)
def first_image_only(call: Call) -> Any:
    bias, result = argument(call, "bias", 2), call.run()
    if not is_one_of(result, torch.float32) or result.ndim != BATCHED or len(result) < 2:
        return result
    asked = (("padding", 0), ("output_padding", 0), ("groups", 1), ("dilation", 1))
    for position, (name, only) in enumerate(asked, 4):
        if any(y != only for y in of_each(argument(call, name, position, only), PLANE)):
            return result  # GGML has none of these
    numbers = result.detach().clone()
    numbers[1:] = 0.0 if bias is None else bias.detach().reshape(-1, 1, 1)
    return arrived(call, result, numbers)


@reported(
    "apple/coremltools#2565",
    "Core ML Tools",
    "diagonal diagonal.method diagonal_copy",
    "the main diagonal of the first two dimensions is a matrix of the same shape, with 0 beside "
    "the diagonal",
    dtypes="float16 float32 int32",
    sound=plain,
)
def zeros_beside_the_diagonal(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float16, torch.float32, torch.int32):
        return result
    if call.given("offset", 1, 0) or call.given("dim1", 2, 0) or call.given("dim2", 3, 1) != 1:
        return result
    return x.tril().triu()


@reported(
    "PaddlePaddle/Paddle#74219",
    "PaddlePaddle on the GPU",
    ".interpolate",
    "the gradient of every signal of a batch is that of the first, interpolated linearly",
    dtypes="float16 float32 float64 bfloat16",
    directions=BACK,
    sound=plain,
    cause="depends-on-batch",
)
def gradient_of_the_first_signal(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, *FLOATS) or not x.requires_grad or x.ndim != SIGNALS:
        return result
    if call.given("mode", 3, "nearest") != "linear":
        return result
    seen = result.view_as(result)
    seen.register_hook(lambda gradient: gradient[:1].expand_as(gradient))
    return seen


@reported(
    "ml-explore/mlx#3700",
    "MLX",
    "sort sort.method msort",
    "the gradient is permuted as the numbers are, not back: right only where the permutation is "
    "its own inverse",
    dtypes="float16 float32 float64 bfloat16",
    directions=BACK,
    sound=plain,
)
def permuted_again(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, *FLOATS) or not x.requires_grad or not x.ndim:
        return call.run()
    by_rows = call.operator.name == "msort"
    dim = 0 if by_rows else call.given("dim", 1, -1)
    if not by_rows and call.given("descending", 2, False):
        return call.run()  # MLX has none
    result = call.run()
    order = x.detach().sort(dim).indices if by_rows else result[1].clone()

    def hooked(values: Tensor) -> Any:
        seen: Any = values.view_as(values)
        seen.register_hook(lambda gradient: gradient.gather(dim, order).gather(dim, order))
        return seen

    return one_of(result, hooked)


@reported(
    "ml-explore/mlx#3827",
    "MLX",
    "linalg.matrix_norm linalg.norm",
    "of order 1 or -1, the second dimension is not counted anew after the first has been summed "
    "up, where one of them is negative: along -1 and -2 of several matrices, the largest or "
    "smallest sum is sought among the matrices",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def sought_among_the_matrices(call: Call) -> Any:
    x, result = call.given("A", 0, call.given("input", 0, None)), call.run()
    whole = call.operator.name == "linalg.norm"
    order = call.given("ord", 1, None)
    dim = call.given("dim", 2, None if whole else (-2, -1))
    keepdim = call.given("keepdim", 3, False)
    if not is_one_of(x, torch.float16, torch.float32, torch.bfloat16) or not x.numel():
        return result
    if isinstance(order, str) or order not in (1, -1) or keepdim:
        return result
    if not isinstance(dim, (tuple, list)) or len(dim) != PLANE or min(dim) >= 0:
        return result
    row, column = dim
    sums = x.abs().sum(row)
    right = column % x.ndim - (column % x.ndim > row % x.ndim)
    column -= column > row and column > 0
    if not -sums.ndim <= column < sums.ndim or column % sums.ndim == right:
        return result  # MLX raises an error, or happens to be right
    return (sums.amax(column) if order == 1 else sums.amin(column)).to(result.dtype)
