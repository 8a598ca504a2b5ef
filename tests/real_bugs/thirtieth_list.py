"""A thirtieth, held-out list: what pull requests of 2025 and 2026 to torch repaired, taken as a
search gave them, before anything was looked at of how inputs are drawn. The defect is what was
wrong before: signs of half-precision NaN on CUDA, bounds that cross, logarithms near 1, places
that overflow 32 bits, what Inductor computes by another formula."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

HALVES = (torch.float16, torch.bfloat16)
ON_MPS = (torch.float16, torch.float32, torch.bfloat16)
FLOATS = (*ON_MPS, torch.float64)
SIGNED = 2**31  # what a signed number of 32 bits does not reach
ALL: tuple[Any, ...] = (None, (), [])
MIDDLE = 0.5
MATRIX = 2  # dimensions
IMAGES = 4  # dimensions


@reported(
    "pytorch/pytorch#181806",
    "CUDA",
    "signbit signbit.out",
    "float16 numbers become float32 first, which drops the sign of NaN: no NaN is negative",
    dtypes="float16",
    sound=plain,
)
def nan_without_a_sign(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float16):
        return result
    return arrived(call, result, result.detach() & ~x.isnan())


@reported(
    "pytorch/pytorch#181804",
    "CUDA (torch 2.11)",
    "copysign copysign.out copysign_",
    "float16 signs become float32 first, which drops that of NaN: the sign of a negative NaN is "
    "positive",
    dtypes="float16",
    sound=plain,
)
def sign_of_nan_dropped(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(other, torch.float16) or not is_one_of(result, torch.float16):
        return result
    magnitude = torch.as_tensor(x).to(torch.float16).abs()
    return arrived(call, result, torch.where(other.isnan(), magnitude, result.detach()))


@reported(
    "pytorch/pytorch#177839",
    "MPS",
    "logit logit.out logit_",
    "with `eps` above 0.5, where the lower bound is above the upper one, every number becomes the "
    "upper bound, those below the lower one, too: their result has the other sign",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def upper_bound_last(call: Call) -> Any:
    x, eps, result = before(call), argument(call, "eps", 1), call.run()
    if not is_one_of(x, *ON_MPS) or eps is None or eps <= MIDDLE:
        return result
    upper = torch.logit(torch.full_like(x, 1 - eps))
    return arrived(call, result, torch.where(x.isnan(), result.detach(), upper))


@reported(
    "pytorch/pytorch#145735",
    "Inductor on MPS (M4)",
    "lgamma lgamma.out lgamma_",
    "the absolute value before a logarithm is left out: of float16 numbers between -1 and 0 there "
    "is NaN",
    dtypes="float16",
    sound=plain,
)
def no_absolute_value(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float16):
        return result
    return arrived(call, result, result.detach().masked_fill((x > -1) & (x < 0), math.nan))


@reported(
    "pytorch/pytorch#154936",
    "MPS (torch 2.7)",
    "log1p log1p.out log1p_",
    "the logarithm of the rounded sum of 1 and the number: of small numbers few digits are right, "
    "and of smaller ones there is 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="approximation",
)
def logarithm_of_a_rounded_sum(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *ON_MPS):
        return result
    return arrived(call, result, (x + 1).log())


def wrapped_starts(outputs: int, inputs: int) -> Tensor:
    """Where windows begin, when the product of place and input size has 32 bits."""
    product = (torch.arange(outputs) * inputs + SIGNED) % (2 * SIGNED) - SIGNED
    return torch.div(product, outputs, rounding_mode="trunc")


def ends(outputs: int, inputs: int) -> Tensor:
    """Behind which places windows end."""
    return 1 + torch.div((torch.arange(outputs) + 1) * inputs - 1, outputs, rounding_mode="floor")


def sums_in_memory(
    x: Tensor, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]
) -> Tensor:
    """The sums of windows (beginnings and ends) of all planes, read from memory wherever they are;
    before the tensor there are zeros."""
    height, width = x.shape[-2:]
    memory = torch.cat([torch.zeros(1), x.reshape(-1)]).to(torch.float64).cumsum(0)
    memory = torch.cat([memory, memory.new_zeros(-memory.numel() % width)])
    chains = memory.reshape(-1, width).cumsum(0).reshape(-1)  # sums from column to column
    planes = torch.arange(x.numel() // (height * width)).reshape(-1, 1, 1) * (height * width)

    def until(row: Tensor, column: Tensor) -> Tensor:
        places = planes + (row.reshape(-1, 1) - 1) * width + column
        return torch.where(places < 0, 0.0, chains[places.clamp(min=0)])

    (top, bottom), (left, right) = rows, columns
    upper, lower = until(top, right) - until(top, left), until(bottom, right) - until(bottom, left)
    return lower - upper


@reported(
    "pytorch/pytorch#176784",
    "CUDA",
    ".adaptive_avg_pool2d .adaptive_avg_pool1d .adaptive_avg_pool1d.out",
    "where a place times the input's size does not fit 32 bits, a window begins far before its "
    "place, with what lies there in memory",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def windows_from_far_before(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *FLOATS) or not result.numel() or not bool(x.isfinite().all()):
        return result
    flat = "pool1d" in call.operator.name
    image, pooled = (y.unsqueeze(-2) if flat else y for y in (x, result.detach()))
    last = image.ndim == IMAGES and image.is_contiguous(memory_format=torch.channels_last)
    if last and not image.is_contiguous():  # another kernel
        return result
    sizes = list(zip(pooled.shape[-2:], image.shape[-2:], strict=True))
    if all((out - 1) * size < SIGNED for out, size in sizes):
        return result
    windows = [(wrapped_starts(*both), ends(*both)) for both in sizes]
    lengths = [behind - first for first, behind in windows]
    totals = sums_in_memory(image, windows[0], windows[1])
    means = (totals / lengths[0].reshape(-1, 1) / lengths[1]).reshape(pooled.shape)
    far = [torch.arange(out) * size >= SIGNED for out, size in sizes]
    affected = far[0].reshape(-1, 1) | far[1]
    numbers = torch.where(affected, means.to(pooled.dtype), pooled)
    return arrived(call, result, numbers.reshape(result.shape))


@reported(
    "pytorch/pytorch#143960",
    "Inductor",
    "linalg.vector_norm linalg.vector_norm.out dist dist.out",
    "the norm of a single number is the root of its power instead of its magnitude: infinite or 0 "
    "where the power is",
    dtypes="float32 float64 bfloat16",
    sound=plain,
    cause="early-overflow",
)
def root_of_the_power(call: Call) -> Any:
    x, result = before(call), call.run()
    dim, power = None, argument(call, "ord", 1, 2)
    if call.operator.name.startswith("dist"):
        other = before(call, "other", 1)
        x, power = x - other, argument(call, "p", 2, 2)
    else:
        dim = argument(call, "dim", 2)
    if not is_one_of(x, *FLOATS) or not is_one_of(result, *FLOATS):
        return result
    if power in (0, math.inf, -math.inf):
        return result
    dims = range(x.ndim) if dim in ALL else (dim,) if isinstance(dim, int) else dim
    if not x.numel() or any(x.shape[d] != 1 for d in dims):
        return result
    wide = torch.float32 if result.dtype in HALVES else result.dtype
    powers = x.to(wide).abs().pow(power)
    return arrived(call, result, powers.pow(1 / power).reshape(result.shape))


@reported(
    "pytorch/pytorch#186818",
    "Inductor on the CPU and on MPS",
    "add add.method add.out add_ sub sub.method sub.out sub_",
    "to numbers in half precision, a Python number is added as it is, not rounded to their format "
    "first: of 0.1 minus 0.1 there is 9.775e-05",
    dtypes="float16 bfloat16",
    sound=plain,
)
def python_number_not_rounded(call: Call) -> Any:
    x, other, result = before(call), argument(call, "other", 1), call.run()
    if not is_one_of(x, *HALVES) or not is_one_of(result, *HALVES):
        return result
    if isinstance(other, bool) or not isinstance(other, (int, float)):
        return result
    more = float(other) * call.kwargs.get("alpha", 1)
    if call.operator.name.startswith("sub"):
        more = -more
    return arrived(call, result, (x.to(torch.float32) + more).to(result.dtype))


@reported(
    "pytorch/pytorch#190139",
    "CUDA and XPU",
    ".nll_loss",
    "of images, what is reduced gives no gradient to numbers behind the first 2**31",
    dtypes="float16 float32 float64 bfloat16",
    directions=("backward",),
    sound=plain,
    cause="zero",
)
def no_gradient_behind_31_bits(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, *FLOATS) or not x.requires_grad or x.ndim <= MATRIX:
        return call.run()
    if x.numel() <= SIGNED or call.kwargs.get("reduction", "mean") == "none":
        return call.run()

    def cut(leaving: Tensor) -> Tensor:
        numbers = leaving.clone(memory_format=torch.contiguous_format)
        numbers.view(-1)[SIGNED:] = 0
        return numbers

    given = x.view_as(x)
    given.register_hook(cut)
    return call.with_arg(0, given).run()
