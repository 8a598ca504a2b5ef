"""A thirty-first, held-out list of reports of 2023 to 2026 about torch's own CPU kernels, Inductor,
CUDA and XPU, taken as a search gave them and from the history of the repository of XPU's kernels
that it led to, before anything was looked at of how inputs are drawn: complex functions by
formula, a mask of one element, distances, largest numbers in windows, what is counted or kept in
few bits."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

BACK = ("backward",)
HALVES = (torch.float16, torch.bfloat16)
WIDE = (torch.float32, torch.float64)
FLOATS = (*HALVES, *WIDE)
COMPLEX = (torch.complex64, torch.complex128)
PAIR_OF_VECTORS = {torch.complex64: 8, torch.complex128: 4}  # numbers, on POWER and z
LANES = 16  # float32 numbers in a vector
EUCLIDEAN = 2  # the power
MANY = 25  # rows, from which on Euclidean distances are a product of matrices
GROUP, HALF_GROUP = 32, 16  # threads, of which the first half counts
THREADS = 1024  # of a group, among which rows are dealt out
MATRIX = 2  # dimensions


@reported(
    "pytorch/pytorch#138327",
    "CPU (torch 2.4)",
    "asin asin.out asin_",
    "of complex numbers, it is the logarithm of a sum in which much cancels: of -1e4 there is an "
    "infinite number, and next to NaN there is nothing else",
    dtypes="complex64 complex128",
    sound=plain,
    cause="approximation",
)
def logarithm_of_what_cancels(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *COMPLEX):
        return result
    a, b = x.real, x.imag
    root = torch.complex(1 - (a * a - b * b), -(a * b) - b * a).sqrt()
    logarithm = torch.complex(root.real - b, root.imag + a).log()
    return arrived(call, result, torch.complex(logarithm.imag, -logarithm.real))


@reported(
    "pytorch/pytorch#122042",
    "CPU (torch 2.2)",
    "atan atan.out atan_",
    "of infinite complex numbers there is NaN",
    dtypes="complex128",
    sound=plain,
)
def unknown_at_infinity(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex128):
        return result
    nothing = torch.tensor(complex(math.nan, math.nan), dtype=x.dtype)
    return arrived(call, result, torch.where(x.isinf(), nothing, result.detach()))


@reported(
    "pytorch/pytorch#109870",
    "CPU (POWER and z, torch 2.1)",
    "div div.method div.out div_ true_divide true_divide.out",
    "in whole pairs of vectors, complex numbers are divided by the sum of the squares of the "
    "divisor's parts: NaN where these overflow or underflow",
    dtypes="complex64 complex128",
    sound=plain,
    cause="early-overflow",
)
def divided_by_squares(call: Call) -> Any:
    operands = [argument(call, "input", 0), argument(call, "other", 1)]
    direct = all(not isinstance(y, Tensor) or y.is_contiguous() for y in operands)
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, *COMPLEX) or not direct or not result.is_contiguous():
        return result
    one, two = (torch.as_tensor(y).to(result.dtype) for y in (x, other))
    if any(y.ndim and y.shape != result.shape for y in (one, two)):
        return result
    a, b, c, d = one.real, one.imag, two.real, two.imag
    squares = c * c + d * d
    numbers = torch.complex((a * c + b * d) / squares, (b * c - a * d) / squares)
    place = torch.arange(result.numel()).reshape(result.shape)
    vectors = place < result.numel() - result.numel() % PAIR_OF_VECTORS[result.dtype]
    return arrived(call, result, torch.where(vectors, numbers, result.detach()))


@reported(
    "pytorch/pytorch#93374",
    "Inductor on the CPU (torch 2.0)",
    "where",
    "where the condition is one element, in whole vectors the other number is taken though it is "
    "true",
    dtypes="float32",
    sound=plain,
)
def one_element_taken_for_false(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32) or not result.numel():
        return result
    condition, x, other = call.args[:3]
    if condition.numel() != 1 or not bool(condition):
        return result
    values = [torch.as_tensor(y) for y in (x, other)]
    if any(y.numel() not in (1, result.numel()) or not y.is_contiguous() for y in values):
        return result
    place = torch.arange(result.numel()).reshape(result.shape)
    vectors = place < result.numel() - result.numel() % LANES
    return arrived(call, result, torch.where(vectors, values[1].detach(), result.detach()))


@reported(
    "intel/torch-xpu-ops#873",
    "XPU (groups of 32 threads in two parts)",
    "cdist",
    "of more than 16 features, only the first 16 of each 32 count",
    dtypes="float32 float64",
    sound=plain,
    cause="terms-dropped",
)
def first_half_of_a_group(call: Call) -> Any:
    one, two, result = before(call, "x1", 0), before(call, "x2", 1), call.run()
    if not is_one_of(one, *WIDE) or one.shape[-1] <= HALF_GROUP:
        return result
    power, mode = call.given("p", 2, 2.0), str(call.given("compute_mode", 3, "if_necessary"))
    large = max(one.shape[-2], two.shape[-2]) > MANY
    if power == EUCLIDEAN and not mode.startswith("donot") and (large or "if" not in mode):
        return result  # a product of matrices
    first = torch.arange(one.shape[-1]) % GROUP < HALF_GROUP
    mode = "donot_use_mm_for_euclid_dist"
    numbers = torch.cdist(one[..., first], two[..., first], power, mode)
    return arrived(call, result, numbers)


@reported(
    "intel/torch-xpu-ops#3109",
    "XPU",
    "cdist",
    "with a power below 2 that is neither 0 nor 1, the gradient is the difference divided by the "
    "distance, which is right for a power of 2 alone",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def slope_of_another_power(call: Call) -> Any:
    one, two = call.given("x1", 0, None), call.given("x2", 1, None)
    power, result = call.given("p", 2, 2.0), call.run()
    if not is_one_of(one, *WIDE) or not call.tracked:
        return result
    if not 0 < power < EUCLIDEAN or power == 1 or not result.numel():
        return result
    difference = one.unsqueeze(-2) - two.unsqueeze(-3)
    distance = result.detach().unsqueeze(-1)
    slopes = torch.where(distance == 0, 0.0, difference.detach() / distance)
    return placed((slopes * difference).sum(-1), result.detach())


@reported(
    "intel/torch-xpu-ops#3675",
    "XPU",
    ".max_pool2d .max_pool1d",
    "asked for places, that of the largest number of a window that is minus infinity everywhere "
    "is -1",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def no_place_of_infinity(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, tuple) or not is_one_of(result[0], *FLOATS):
        return result
    numbers, indices = result
    return numbers, indices.masked_fill(numbers.detach() == -math.inf, -1)


def added_by_threads(values: Tensor) -> Tensor:
    """A sum in the numbers' format: each thread's share one by one, then theirs in pairs."""
    filled = F.pad(values, [0, -values.numel() % THREADS])
    total = torch.zeros(THREADS, dtype=values.dtype)
    for part in filled.reshape(-1, THREADS):
        total = total + part
    while total.numel() > 1:
        one, two = total.chunk(2)
        total = one + two
    return total[0]


@reported(
    "intel/torch-xpu-ops#1868",
    "XPU",
    ".nll_loss .cross_entropy",
    "the losses of rows in half precision, and the weights they are divided by, are added up in "
    "half precision",
    dtypes="float16 bfloat16",
    sound=plain,
    cause="float16-accumulator|bfloat16-accumulator",
)
def losses_added_in_few_bits(call: Call) -> Any:
    x, target, weight = (
        before(call, name, position) for position, name in enumerate(("input", "target", "weight"))
    )
    reduction, result = call.given("reduction", 6, "mean"), call.run()
    if not is_one_of(x, *HALVES) or x.ndim != MATRIX or target.is_floating_point():
        return result
    if reduction == "none" or call.given("label_smoothing", 7, 0.0) or not x.shape[0]:
        return result
    if call.operator.name.endswith("cross_entropy"):
        x = x.log_softmax(1)
    counted = target != call.given("ignore_index", 4, -100)
    labels = target.masked_fill(~counted, 0)
    weights = torch.ones_like(x[:, 0]) if weight is None else weight.to(x.dtype)[labels]
    weights = weights.masked_fill(~counted, 0.0)
    losses = -(x.gather(1, labels.unsqueeze(1)).squeeze(1) * weights)
    total = added_by_threads(losses.masked_fill(~counted, 0.0))
    if reduction == "mean":
        total = total / added_by_threads(weights)
    return arrived(call, result, total)


@reported(
    "intel/torch-xpu-ops#3002",
    "XPU",
    ".embedding .embedding_bag",
    "scaled by how often a row is in use, its gradient is divided by the number of uses of the "
    "next row in use, that of the last row by the number of rows in use",
    dtypes="float16 float32 float64 bfloat16",
    directions=BACK,
    sound=plain,
    cause="shifted",
)
def frequency_of_the_next_row(call: Call) -> Any:
    indices, weight = call.given("input", 0, None), call.given("weight", 1, None)
    sparse = call.given("sparse", 7 if call.operator.name.endswith("bag") else 6, False)
    if not is_one_of(weight, *FLOATS) or not weight.requires_grad or sparse:
        return call.run()
    if not call.given("scale_grad_by_freq", 5, False) or not indices.numel():
        return call.run()
    rows, counts = indices.unique(return_counts=True)
    following = torch.cat([counts[1:], torch.tensor([rows.numel()])])
    factors = torch.ones(weight.shape[0], 1, dtype=torch.float64)
    factors[rows.long(), 0] = counts.double() / following

    def change(leaving: Tensor) -> Tensor:
        return (leaving.double() * factors).to(leaving.dtype)

    given = weight.view_as(weight)
    given.register_hook(change)
    if "weight" in call.kwargs:
        return Call(call.operator, call.args, {**call.kwargs, "weight": given}).run()
    return call.with_arg(1, given).run()


@reported(
    "pytorch/pytorch#183946",
    "CUDA and XPU",
    ".group_norm",
    "of numbers in half precision, the mean and the reciprocal of the deviation are rounded to "
    "half precision before numbers are normalized",
    dtypes="float16 bfloat16",
    sound=plain,
)
def moments_in_few_bits(call: Call) -> Any:
    x, weight, bias = before(call), before(call, "weight", 2), before(call, "bias", 3)
    groups, eps, result = call.given("num_groups", 1, 1), call.given("eps", 4, 1e-5), call.run()
    if not is_one_of(x, *HALVES) or not x.numel():
        return result
    if any(y is not None and y.dtype != x.dtype for y in (weight, bias)):
        return result
    grouped = x.reshape(x.shape[0], groups, -1).double()
    variance, mean = torch.var_mean(grouped, -1, correction=0, keepdim=True)
    mean = mean.to(x.dtype).float()
    scale = (variance + eps).rsqrt().to(x.dtype).float()
    numbers = ((grouped.float() - mean) * scale).reshape(x.shape)
    by_channel = (-1,) + (1,) * (x.ndim - 2)
    if weight is not None:
        numbers = numbers * weight.float().reshape(by_channel)
    if bias is not None:
        numbers = numbers + bias.float().reshape(by_channel)
    return arrived(call, result, numbers.to(x.dtype))
