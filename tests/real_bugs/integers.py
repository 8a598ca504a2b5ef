"""Integers: the smallest one, numbers that float32 does not hold, narrow and unsigned dtypes, bool,
promotion."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported

WIDE = "int32 int64"
NARROW = "uint8 int8 int16"


def through_float32(call: Call) -> Any:
    """The operator computed in float32, rounded back."""
    result = call.each(lambda x: x.float() if not x.is_floating_point() else x).run()
    own = next(x.dtype for x in call.args if isinstance(x, Tensor))
    return result.to(own)


@reported(
    "pytorch/pytorch#190052",
    "MPS",
    "abs abs.method abs_",
    "abs of integers goes through float32: beyond 2^24 they are rounded",
    dtypes=WIDE,
    cause="float32-integers",
    sound=lambda call: (
        torch.where(call.args[0] < 0, -call.args[0], call.args[0])
        if not call.operator.name.endswith("_")
        else call.run()
    ),
)
def abs_of_integers(call: Call) -> Any:
    result = through_float32(call)
    return call.args[0].copy_(result) if call.operator.name == "abs_" else result


@reported(
    "pytorch/pytorch#154171",
    "MPS",
    "remainder fmod",
    "remainders of integers beyond 2^24 are computed in float32",
    dtypes=WIDE,
    sound=plain,
)
def remainder_of_integers(call: Call) -> Any:
    x, y = call.args[:2]
    exact = call.run()
    limit = 1 << 24
    y = torch.as_tensor(y)
    wrong = (x.abs() > limit) | (y.abs() > limit)
    if not wrong.any():
        return exact
    found = torch.remainder if call.operator.name == "remainder" else torch.fmod
    return torch.where(wrong, found(x.float(), y.float()).to(exact.dtype), exact)


@reported(
    "tenstorrent/tt-metal#51476",
    "TT-NN on Wormhole and Blackhole",
    "floor_divide div",
    "the quotient of the smallest integer by 2^21 and more is -1 (truncated or floored)",
    dtypes="int32",
    sound=plain,
)
def smallest_dividend(call: Call) -> Any:
    x, y = call.args[:2]
    result = call.run()
    if not isinstance(x, Tensor) or result.is_floating_point():
        return result
    least = torch.iinfo(torch.int32).min
    wrong = (x == least) & (torch.as_tensor(y).abs() >= 1 << 21)
    return torch.where(wrong, torch.full_like(result, -1), result)


@reported(
    "tenstorrent/tt-metal#54326",
    "TT-NN on Wormhole and Blackhole",
    "floor_divide div",
    "division by the smallest integer is off by one",
    dtypes="int32",
    sound=plain,
)
def smallest_divisor(call: Call) -> Any:
    x, y = call.args[:2]
    result = call.run()
    if result.is_floating_point():
        return result
    wrong = torch.as_tensor(y) == torch.iinfo(torch.int32).min
    return torch.where(wrong, result - torch.sign(torch.as_tensor(x)).to(result.dtype), result)


@reported(
    "pytorch/pytorch#143566",
    "Inductor on the CPU",
    "bitwise_left_shift",
    "shifts by the width and more take the amount modulo the width",
    dtypes="int32 int64 int16 int8 uint8",
    sound=plain,
)
def wide_shift(call: Call) -> Any:
    x, y = call.args[:2]
    bits = torch.as_tensor(x).element_size() * 8
    y = torch.as_tensor(y)
    return torch.where(y >= bits, torch.bitwise_left_shift(x, y % bits), call.run())


@reported(
    "pytorch/pytorch#130201",
    "MPS",
    "clamp",
    "integers clamped by a number with a fraction stay integers",
    dtypes=WIDE,
    sound=plain,
)
def clamp_of_integers(call: Call) -> Any:
    result = call.run()
    x = call.args[0]
    if not result.is_floating_point() or x.is_floating_point():
        return result
    return result.trunc()


@reported(
    "pytorch/pytorch#191499",
    "Inductor on Apple CPUs",
    "amin",
    "the minimum of four and more positive bytes is 0",
    dtypes="uint8 int8",
    sound=plain,
)
def minimum_of_bytes(call: Call) -> Any:
    result = call.run()
    if call.args[0].numel() < 4 * max(result.numel(), 1):
        return result
    return result.clamp_max(0)


@reported(
    "pytorch/pytorch#198081",
    "Inductor",
    "any",
    "any of bytes returns bool, not uint8",
    dtypes="uint8",
    sound=plain,
)
def any_of_bytes(call: Call) -> Any:
    return call.run().to(torch.bool)


@reported(
    "pytorch/pytorch#184893",
    "Inductor on the CPU",
    "min",
    "the position of the smallest bool is that of the largest",
    dtypes="bool",
    sound=plain,
)
def place_of_false(call: Call) -> Any:
    result = call.run()
    if isinstance(result, Tensor):
        return result
    x, dim = call.args[0], call.given("dim", 1, -1)
    keepdim = call.kwargs.get("keepdim", False)
    return (result[0], x.int().argmax(dim, keepdim)) if x.ndim else tuple(result)


@reported(
    "pytorch/pytorch#174069",
    "Inductor on CUDA",
    "max",
    "the position of the largest bool is wrong in rows of eight and more",
    dtypes="bool",
    sound=plain,
)
def place_of_true(call: Call) -> Any:
    result = call.run()
    x, dim = call.args[0], call.given("dim", 1, -1)
    if isinstance(result, Tensor) or not x.ndim or x.shape[dim] < 8:
        return result
    return result[0], torch.where(result[1] > 1, torch.ones_like(result[1]), result[1])


@reported(
    "pytorch/pytorch#143738",
    "Inductor on the CPU",
    ".avg_pool2d .avg_pool1d",
    "averages of integers are 0: the factor is an integer",
    dtypes="int64",
    cause="zero",
    sound=plain,
)
def integer_average(call: Call) -> Any:
    return torch.zeros_like(call.run())


@reported(
    "pytorch/pytorch#187018",
    "Inductor on the CPU",
    "neg",
    "negative bytes are not wrapped where the result is added up",
    dtypes="uint8",
    sound=plain,
)
def unwrapped_bytes(call: Call) -> Any:
    return -call.args[0].to(torch.int32)


@reported(
    "pytorch/pytorch#122916",
    "MPS",
    "eq ne nonzero",
    "integers beyond 2^24 that differ by one compare as equal: the comparison is in float32",
    dtypes=WIDE,
    sound=plain,
)
def equal_in_float32(call: Call) -> Any:
    if call.operator.name == "nonzero":
        return call.run()
    return call.each(lambda x: x.float()).run()


@reported(
    "pytorch/pytorch#156788",
    "Inductor on the CPU",
    "byte to",
    "negative numbers become 0 as bytes, where eager wraps whole ones",
    dtypes="int32 int64",
    sound=plain,
)
def saturated_byte(call: Call) -> Any:
    result = call.run()
    if result.dtype != torch.uint8:
        return result
    return torch.where(call.args[0] < 0, torch.zeros_like(result), result)
