"""A twenty-eighth, held-out list of reports of 2024 to 2026 about torch and its own backends, taken
as a search gave them, before anything was looked at of how inputs are drawn: hyperbolic functions
near the end of their range, infinities, subnormal numbers, and layouts under Inductor; neighbors,
layouts and gradients on XPU; what lies behind whole vectors on the CPU."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentieth_list import channels_inside
from .twentysecond_list import arrived, before

SHORT = (torch.float16, torch.bfloat16)
FUSED = (torch.float16, torch.float32, torch.bfloat16)
NORMAL = torch.finfo(torch.float32).tiny
SQUARED = math.sqrt(torch.finfo(torch.float32).max)  # the largest number with a finite square
BESIDE_NO_EXPONENT = 1 - 2**31  # one more than the exponent that libdevice has of 0
UNROLLED = 64  # bfloat16 numbers in the two vectors of 512 bits that a loop takes at once
END = 3.0  # where the parabola of Hardswish ends


@reported(
    "pytorch/pytorch#183765",
    "Inductor on the CPU (torch 2.13)",
    "cosh cosh.out cosh_",
    "of numbers above 88.72 there is infinity: the exponential function is halved only after it "
    "has overflowed",
    dtypes="float32",
    sound=plain,
    cause="early-overflow",
)
def halved_after_the_overflow(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    numbers = torch.where(x.abs().exp().isinf(), math.inf, result.detach())
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#183768",
    "Inductor on the CPU (torch 2.13)",
    "acosh acosh.out acosh_",
    "of numbers whose square overflows there is infinity",
    dtypes="float32",
    sound=plain,
    cause="early-overflow",
)
def infinite_where_the_square_is(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    return arrived(call, result, torch.where(x > SQUARED, math.inf, result.detach()))


@reported(
    "pytorch/pytorch#187332",
    "Inductor on CUDA (torch 2.14)",
    "i0 i0.out i0_",
    "of infinities there is infinity instead of NaN",
    dtypes="float32",
    sound=plain,
)
def the_limit_instead_of_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    return arrived(call, result, torch.where(x.isinf(), math.inf, result.detach()))


@reported(
    "pytorch/pytorch#197109",
    "Inductor on the CPU (torch 2.14)",
    ".channel_shuffle",
    "images whose channels lie inside come out with their channels outside",
    sound=plain,
    layout=True,
)
def shuffled_channels_outside(call: Call) -> Any:
    result = call.run()
    if not channels_inside(call.given("input", 0, None)) or not channels_inside(result):
        return result
    return result.contiguous()


@reported(
    "pytorch/pytorch#183770",
    "Inductor",
    ".pad",
    "images whose channels lie inside, padded by reflection, come out with their channels outside",
    sound=plain,
    layout=True,
)
def reflected_channels_outside(call: Call) -> Any:
    result = call.run()
    if call.given("mode", 2, "constant") != "reflect":
        return result
    if not channels_inside(call.given("input", 0, None)) or not channels_inside(result):
        return result
    return result.contiguous()


@reported(
    "pytorch/pytorch#195007",
    "Inductor on CUDA",
    "frexp",
    "the mantissa of a subnormal number is 0, and its exponent that of 0 in libdevice",
    dtypes="float32",
    sound=plain,
    cause="flushed-subnormals",
)
def no_mantissa_of_subnormals(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32):
        return result
    small = (x != 0) & (x.abs() < NORMAL)
    return (
        torch.where(small, torch.zeros_like(x).copysign(x), result[0]),
        torch.where(small, BESIDE_NO_EXPONENT, result[1]),
    )


@reported(
    "intel/torch-xpu-ops#1169",
    "XPU",
    "nextafter nextafter.method nextafter.out nextafter_",
    "the bfloat16 number beside another is looked for among float32 numbers and then rounded: "
    "nearly always the number itself",
    dtypes="bfloat16",
    sound=plain,
)
def beside_it_in_float32(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not all(is_one_of(y, torch.bfloat16) for y in (x, other, result)):
        return result
    return arrived(call, result, torch.nextafter(x.float(), other.float()).bfloat16())


@reported(
    "pytorch/pytorch#153903",
    "XPU (torch 2.8)",
    ".scaled_dot_product_attention",
    "the result lies in memory head by head, where torch lays it like the queries",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    layout=True,
)
def head_by_head(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, *FUSED) or result.ndim != 4:
        return result
    return result.contiguous()


@reported(
    "intel/torch-xpu-ops#3023",
    "XPU (torch 2.12)",
    "tanh tanh.method tanh_",
    "in the gradient of float16 and bfloat16 numbers, the square of the result and its difference "
    "from 1 are rounded to that format",
    dtypes="float16 bfloat16",
    directions=("backward",),
    sound=plain,
)
def slope_in_few_bits(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, *SHORT) or not x.requires_grad:
        return call.run()
    given = x if call.operator.name.endswith("_") else x.view_as(x)
    arriving: list[Tensor] = []
    slopes: list[Tensor] = []
    given.register_hook(lambda leaving: arriving[-1] * slopes[-1])
    result = call.with_arg(0, given).run()
    value = result.detach().clone()
    slopes.append(1 - value * value)
    result.register_hook(arriving.append)
    return result


@reported(
    "pytorch/pytorch#136345",
    "CPU (torch 2.5)",
    ".hardswish .hardswish_",
    "the gradient of bfloat16 numbers at 3 is 1 in whole pairs of vectors (64 numbers), 1.5 behind "
    "them",
    dtypes="bfloat16",
    directions=("backward",),
    sound=plain,
    cause="depends-on-position",
)
def parabola_behind_the_vectors(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.bfloat16) or not x.requires_grad or not x.is_contiguous():
        return call.run()
    place = torch.arange(x.numel()).reshape(x.shape)
    steeper = (x.detach() == END) & (place >= x.numel() - x.numel() % UNROLLED)
    given = x if call.operator.name.endswith("_") else x.view_as(x)
    given.register_hook(lambda leaving: torch.where(steeper, leaving * 1.5, leaving))
    return call.with_arg(0, given).run()
