"""A nineteenth, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety before anything was looked at of how inputs are drawn: signs of zero, a neighbour,
the larger of two numbers, a copy with a cast, selected elements, places of the largest, searching
in boundaries, a creation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported

FLOATING = (torch.float32, torch.float16, torch.bfloat16)


def read_as_float32(x: Tensor) -> Tensor:
    """The bytes of a contiguous tensor of 16-bit numbers as 32-bit ones, as many as there are of
    the shorter ones; 0 behind the last byte."""
    halves = torch.zeros(2 * x.numel(), dtype=x.dtype)
    halves[: x.numel()] = x.detach().reshape(-1)
    return halves.view(torch.float32).reshape(x.shape)


@reported(
    "pytorch/pytorch#160744",
    "MPS",
    "copy_",
    "a negative number of float32 without dimensions, copied to more than one uint8, is 0 instead "
    "of what is left of it modulo 256",
    dtypes="uint8",
    sound=plain,
)
def negative_number_saturated(call: Call) -> Any:
    x, source, result = call.given("input", 0, None), call.given("src", 1, None), call.run()
    if not is_one_of(x, torch.uint8) or not is_one_of(source, torch.float32):
        return result
    if source.ndim or x.numel() < 2 or not source.detach() < 0:
        return result
    return result.fill_(0)


@reported(
    "pytorch/pytorch#183606",
    "Inductor",
    "frac",
    "of a zero with a negative sign, it is that zero, not one with a positive sign",
    dtypes="float32",
    sound=plain,
)
def sign_of_zero_kept(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32):
        return result
    return placed(result, torch.where(x.detach() == 0, x.detach(), result.detach()))


@reported(
    "pytorch/pytorch#187935",
    "Inductor on CUDA",
    "signbit",
    "a zero with a negative sign has none: whether the number is below 0 is computed",
    dtypes="float64",
    sound=plain,
)
def sign_of_zero_not_seen(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float64):
        return result
    return placed(result, x.detach() < 0)


@reported(
    "pytorch/pytorch#197434",
    "Inductor",
    ".adaptive_max_pool2d",
    "of images whose rows lie closer in memory than their columns, in windows of equal size, the "
    "returned place within a window is counted down its columns and read as if along its rows",
    sound=plain,
)
def place_counted_down_columns(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not isinstance(result, (tuple, list)) or not x.numel():
        return result
    (rows, columns), (down, along) = x.shape[-2:], result[0].shape[-2:]
    if x.stride(-2) >= x.stride(-1) or not down or not along or rows % down or columns % along:
        return result
    high, wide = rows // down, columns // along

    def misread(places: Tensor) -> Tensor:
        row, column = places // columns, places % columns
        counted = column % wide * high + row % high
        row = row // high * high + counted // wide
        return placed(places, row * columns + column // wide * wide + counted % wide)

    return one_of(result, misread, which=1)


@reported(
    "pytorch/pytorch#190476",
    "MPS",
    "nextafter nextafter.method",
    "of bfloat16, the step is one of float32, which rounding to bfloat16 takes back: the result "
    "is the input",
    dtypes="bfloat16",
    sound=plain,
)
def step_rounded_away(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, torch.bfloat16) or not is_one_of(other, torch.bfloat16):
        return result
    return placed(result, torch.nextafter(x.detach().float(), other.detach().float()))


@reported(
    "pytorch/pytorch#149951",
    "MPS",
    "fmax fmin",
    "of a tensor of float32 and one of float16, the bytes of the latter are read as if they were "
    "float32, too",
    dtypes="float32 float16",
    sound=plain,
)
def halves_read_as_floats(call: Call) -> Any:
    pair, result = [call.given("input", 0, None), call.given("other", 1, None)], call.run()
    if not all(is_one_of(x, torch.float32, torch.float16) for x in pair):
        return result
    if pair[0].dtype == pair[1].dtype or pair[0].shape != pair[1].shape:
        return result
    if not all(x.is_contiguous() for x in pair):
        return result
    x, other = (x.detach() if x.dtype == torch.float32 else read_as_float32(x) for x in pair)
    larger = call.operator.name.startswith("fmax")
    return placed(result, torch.fmax(x, other) if larger else torch.fmin(x, other))


@reported(
    "pytorch/pytorch#189630",
    "MPS",
    "linspace",
    "integers are interpolated in float32: large neighbours are all the same number",
    dtypes="int64 int32",
    cause="float32-integers",
    sound=plain,
)
def interpolated_in_float32(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.int64, torch.int32) or result.numel() < 2:
        return result
    ends = [int(call.given("start", 0, 0)), int(call.given("end", 1, 0))]
    first, last = torch.tensor(ends, dtype=torch.float32)
    steps = result.numel()
    step, number = (last - first) / (steps - 1), torch.arange(steps, dtype=torch.float32)
    from_start, from_end = first + step * number, last - step * (steps - 1 - number)
    numbers = torch.where(number < steps // 2, from_start, from_end).double()
    known = numbers.abs() < torch.iinfo(result.dtype).max
    return placed(result, torch.where(known, numbers.to(torch.int64), result))


def beside_a_number(call: Call) -> Any:
    """As torch computes, but a number beside bytes is compared as it is (docs/findings.md)."""
    number, boundaries = call.given("input", 0, None), call.given("boundaries", 1, None)
    if isinstance(number, Tensor) or not is_one_of(boundaries, torch.uint8):
        return call.run()
    return torch.bucketize(torch.tensor(number), boundaries.long(), **call.kwargs)


@reported(
    "pytorch/pytorch#145929",
    "Inductor on CUDA",
    "bucketize",
    "of uint8 between boundaries of int8, negative boundaries are read as uint8, that is as large "
    "numbers",
    dtypes="uint8",
    sound=beside_a_number,
)
def boundaries_without_a_sign(call: Call) -> Any:
    x, boundaries = call.given("input", 0, None), call.given("boundaries", 1, None)
    result = call.run()
    if not is_one_of(x, torch.uint8) or not is_one_of(boundaries, torch.int8):
        return result
    right = bool(call.kwargs.get("right", False))
    return placed(result, torch.bucketize(x, boundaries.contiguous().view(x.dtype), right=right))


@reported(
    "pytorch/pytorch#160964",
    "Inductor on CUDA",
    "bucketize",
    "of boundaries that are a slice of a longer tensor, as many are read from that tensor's "
    "beginning on",
    cause="offset-ignored",
    sound=plain,
)
def boundaries_from_the_beginning(call: Call) -> Any:
    x, boundaries = call.given("input", 0, None), call.given("boundaries", 1, None)
    result = call.run()
    if not isinstance(x, Tensor) or not isinstance(boundaries, Tensor):
        return result
    if not boundaries.storage_offset() or not boundaries.is_contiguous():
        return result
    right = bool(call.kwargs.get("right", False))
    read = boundaries.detach().as_strided(boundaries.shape, boundaries.stride(), 0)
    return placed(result, torch.bucketize(x.detach(), read, right=right))


@reported(
    "pytorch/pytorch#152582",
    "MPS",
    "copysign",
    "the sign of a negative Python number is not seen: the result is positive",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def sign_of_a_number_not_seen(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, *FLOATING) or not isinstance(other, (int, float)):
        return result
    return placed(result, result.detach().abs())


@reported(
    "pytorch/pytorch#125100",
    "MPS",
    "masked_select masked_select.method __getitem__",
    "of two dimensions and a mask that leaves elements out between those selected, the first one "
    "returned is the first one left out",
    sound=plain,
)
def first_one_left_out(call: Call) -> Any:
    x, mask, result = call.given("input", 0, None), call.given("mask", 1, None), call.run()
    if call.operator.name == "__getitem__" and isinstance(mask, (tuple, list)):
        mask = mask[0] if len(mask) == 1 else None
    if not isinstance(x, Tensor) or not is_one_of(mask, torch.bool):
        return result
    if x.ndim != 2 or mask.shape != x.shape or not result.numel():
        return result
    selected = mask.reshape(-1)
    left_out = (~selected).nonzero().reshape(-1)
    if not left_out.numel() or left_out[0] > selected.nonzero()[-1, 0]:
        return result
    numbers = result.detach().clone()
    numbers[0] = x.detach().reshape(-1)[left_out[0]]
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#138385",
    "the CPU and CUDA",
    ".softshrink",
    "of NaN, it is 0",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def not_a_number_shrunk(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    return placed(result, result.detach().masked_fill(x.detach().isnan(), 0))
