"""A thirty-third, held-out list of reports, most of 2022 to 2026, about torch's own CUDA, ROCm, CPU
and Inductor, about DirectML and about torch_xla, taken as a search by families of operators gave
them, before anything was looked at of how inputs are drawn: positions in half precision, quotients
of whole numbers and of infinities, remainders of large quotients, the slope of a loss without a
threshold, tests of everything, functions of complex infinities, a variance in one pass."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .twentysecond_list import argument, arrived, before

IMAGES = 4  # dimensions of images in two dimensions
LOW_WORD = 2**32 - 1
EXACT = 2**24  # behind which not every whole number is a float32
AT_ONCE = 8  # complex64 numbers in two vectors of AVX2


@reported(
    "pytorch/pytorch#96429",
    "CUDA (torch 2.0)",
    ".grid_sample",
    "of float16 images, where corners are not aligned, a position counted in pixels is rounded to "
    "float16 before the pixels beside it are weighed",
    dtypes="float16",
    sound=plain,
)
def positions_rounded_to_half(call: Call) -> Any:
    x, grid, result = call.given("input", 0, None), call.given("grid", 1, None), call.run()
    if not is_one_of(x, torch.float16) or not is_one_of(grid, torch.float16) or x.ndim != IMAGES:
        return result
    if call.given("mode", 2, "bilinear") != "bilinear" or call.given("align_corners", 4, None):
        return result
    sizes = torch.tensor([x.shape[3], x.shape[2]])
    places = (((grid.detach().float() + 1) * sizes - 1) / 2).half()
    seen = (2 * places.double() + 1) / sizes - 1
    padding = call.given("padding_mode", 3, "zeros")
    numbers = functional.grid_sample(x.detach().double(), seen, "bilinear", padding, False)
    finite = places.isfinite().all(-1).unsqueeze(1)
    return placed(result, torch.where(finite, numbers.half(), result.detach()))


@reported(
    "microsoft/DirectML#347",
    "torch-directml (0.1.13)",
    "div div.method div.out true_divide true_divide.out",
    "whole numbers divided by a number of Python that is whole: the quotient is cut to a whole "
    "number, in int64 that of the low 32 bits, read without a sign",
    dtypes="int32 int64",
    sound=plain,
)
def quotient_of_low_words(call: Call) -> Any:
    x, other, result = before(call), argument(call, "other", 1), call.run()
    if not is_one_of(x, torch.int32, torch.int64) or not isinstance(other, int):
        return result
    if isinstance(other, bool) or not 0 < other <= torch.iinfo(torch.int32).max:
        return result
    if call.kwargs.get("rounding_mode") is not None or not result.is_floating_point():
        return result
    dividend = x & LOW_WORD if x.dtype == torch.int64 else x
    quotient = torch.div(dividend, other, rounding_mode="trunc")
    return arrived(call, result, quotient.to(result.dtype))


@reported(
    "pytorch/pytorch#188048",
    "Inductor on CUDA",
    "div div.method div_ div.out floor_divide floor_divide_ floor_divide.out",
    "rounded down, an infinity divided by a finite number is infinite, not NaN",
    dtypes="float64",
    sound=plain,
)
def infinity_rounded_down(call: Call) -> Any:
    x, other = before(call), before(call, "other", 1)
    mode, result = call.kwargs.get("rounding_mode"), call.run()
    if not is_one_of(result, torch.float64):
        return result
    if call.operator.name.startswith("div") and mode != "floor":
        return result
    a, b = (torch.as_tensor(n).to(torch.float64) for n in (x, other))
    infinite = a.isinf() & b.isfinite()
    return arrived(call, result, torch.where(infinite, torch.floor(a / b), result.detach()))


@reported(
    "pytorch/pytorch#194345",
    "Inductor on CUDA",
    "remainder remainder.method remainder_ remainder.out fmod fmod.method fmod_ fmod.out",
    "of large quotients, it is the dividend less the product of the divisor and the quotient, cut "
    "after it was rounded to float32: of 1e10 by 1e-20 the remainder is 167, of 3.4e38 by the "
    "smallest number minus infinity",
    dtypes="float32 bfloat16",
    sound=plain,
)
def less_the_rounded_quotient(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, torch.float32, torch.bfloat16):
        return result
    a, b = (torch.as_tensor(n).to(torch.float32) for n in (x, other))
    quotient = a / b
    large = a.isfinite() & b.isfinite() & (b != 0) & (quotient.abs() > EXACT)
    numbers = (a.double() - quotient.trunc().double() * b.double()).float()
    if call.operator.name.startswith("remainder"):
        other_sign = (numbers != 0) & (numbers.signbit() != b.signbit())
        numbers = torch.where(other_sign, numbers + b, numbers)
    return arrived(call, result, torch.where(large, numbers.to(result.dtype), result.detach()))


def not_a_number_back(x: Any, places: Tensor) -> Any:
    """A tensor as it is, whose gradient is NaN in some places."""
    passed = x.view_as(x)
    passed.register_hook(lambda gradient: gradient.masked_fill(places, math.nan))
    return passed


@reported(
    "pytorch/pytorch#96813",
    "CUDA (torch 1.13)",
    ".smooth_l1_loss",
    "with a threshold of 0, the gradient is NaN where input and target are the same",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def zero_by_a_threshold_of_zero(call: Call) -> Any:
    x, target = call.given("input", 0, None), call.given("target", 1, None)
    if not is_one_of(x, torch.float32) or not is_one_of(target, torch.float32):
        return call.run()
    if call.given("beta", 5, 1.0) != 0:
        return call.run()
    same, changed = x.detach() == target.detach(), call
    for position, (name, item) in enumerate((("input", x), ("target", target))):
        if item.requires_grad:
            places = same.float().sum_to_size(item.shape) > 0
            changed = with_given(changed, name, position, not_a_number_back(item, places))
    return changed.run()


@reported(
    "pytorch/pytorch#99721",
    "ROCm (torch 2.0) on consumer GPUs",
    "all all.method all.out any any.method any.out",
    "of booleans, over all dimensions, it is true whatever they are",
    dtypes="bool",
    sound=plain,
)
def true_whatever_they_are(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if not is_one_of(x, torch.bool) or argument(call, "dim", 1) is not None or not x.numel():
        return result
    return arrived(call, result, torch.ones_like(result))


@reported(
    "pytorch/pytorch#121588",
    "CPU (AVX2, torch 2.1)",
    "sigmoid sigmoid.method sigmoid_ sigmoid.out",
    "of complex numbers, in whole groups of eight, it is NaN where the real part is minus infinity",
    dtypes="complex64",
    sound=plain,
)
def not_a_number_in_groups_of_eight(call: Call) -> Any:
    direct = argument(call, "input", 0)
    x, result = before(call), call.run()
    if not is_one_of(direct, torch.complex64) or not is_one_of(result, torch.complex64):
        return result
    if not direct.is_contiguous() or not result.is_contiguous():
        return result
    place = torch.arange(x.numel()).reshape(x.shape)
    grouped = place < x.numel() - x.numel() % AT_ONCE
    nothing = torch.tensor(complex(math.nan, math.nan), dtype=x.dtype)
    hit = grouped & (x.real == -math.inf)
    return arrived(call, result, torch.where(hit, nothing, result.detach()))


@reported(
    "pytorch/xla#3658",
    "torch_xla on CUDA",
    ".layer_norm",
    "of float16 numbers, the variance is the mean of the squares less the square of the mean, each "
    "rounded to float16: of 10 to 19 it is 8.125, of 20 to 29 8.5, instead of 8.25",
    dtypes="float16",
    sound=plain,
    cause="one-pass-variance",
)
def variance_of_rounded_squares(call: Call) -> Any:
    x, shape, result = (
        call.given("input", 0, None),
        call.given("normalized_shape", 1, ()),
        call.run(),
    )
    if not is_one_of(x, torch.float16) or not x.numel():
        return result
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    dims = tuple(range(-len(shape), 0))
    numbers, count = x.detach(), math.prod(shape)
    mean = numbers.float().sum(dims, keepdim=True).half() / count
    squares = numbers.square().float().sum(dims, keepdim=True).half() / count
    variance = squares - mean.square()
    normal = (numbers - mean) * torch.rsqrt(variance + call.given("eps", 4, 1e-5))
    normal = normal if weight is None else normal * weight.detach()
    return placed(result, normal if bias is None else normal + bias.detach())


@reported(
    "pytorch/pytorch#41244",
    "CUDA",
    "tan tan_ tan.out",
    "of a complex number whose real part is infinite and whose imaginary part is 0, the imaginary "
    "part is NaN instead of 0",
    dtypes="complex64",
    sound=plain,
)
def imaginary_part_of_nothing(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex64) or not is_one_of(result, torch.complex64):
        return result
    nothing = torch.tensor(complex(math.nan, math.nan), dtype=x.dtype)
    hit = x.real.isinf() & (x.imag == 0)
    return arrived(call, result, torch.where(hit, nothing, result.detach()))
