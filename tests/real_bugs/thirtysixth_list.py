"""A thirty-sixth, held-out list of reports of 2022 to 2026 about torch's own CPU, MPS, CUDA and
Inductor, taken as a search by families of operators gave them, before anything was looked at of how
inputs are drawn: convolutions with two steps, images shrunk to a point, the largest numbers of all
and the largest few, sums in one place, complex sums that stay in the input, sines of what does not
fit, NaN beside a bound, shifts by more bits than there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import arrived, before

SHARED = 16  # as many of the largest numbers were found
WORD = 32  # bits of the registers in which shorter whole numbers are shifted
LONG_WORD = 64
PI_OF_HALF = torch.tensor(torch.pi, dtype=torch.float16)
IMAGES = 4  # dimensions of a batch of them


@reported(
    "pytorch/pytorch#83180",
    "MPS (torch 1.13)",
    ".conv2d",
    "where the steps of the two dimensions differ, each dimension takes those of the other",
    dtypes="float32",
    sound=plain,
)
def steps_of_the_other_dimension(call: Call) -> Any:
    x, weight, bias = before(call), before(call, "weight", 1), before(call, "bias", 2)
    stride, padding = call.given("stride", 3, 1), call.given("padding", 4, 0)
    dilation, groups = call.given("dilation", 5, 1), call.given("groups", 6, 1)
    result = call.run()
    if not is_one_of(x, torch.float32) or isinstance(stride, int) or len(set(stride)) == 1:
        return result
    # Convolutions in groups had a description of their own.
    if groups != 1:
        return result
    other = F.conv2d(x, weight, bias, list(stride)[::-1], padding, dilation)
    height = min(other.shape[-2], result.shape[-2])
    width = min(other.shape[-1], result.shape[-1])
    # The sizes are right ones: what is more is cut off, and nothing is written into the rest.
    numbers = torch.zeros_like(result)
    numbers[..., :height, :width] = other[..., :height, :width]
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#93262",
    "Inductor (torch 2.0)",
    ".interpolate",
    "a bilinear image of one row or column is the first row or column instead of the middle",
    dtypes="float32",
    sound=plain,
)
def first_instead_of_the_middle(call: Call) -> Any:
    x, size, result = before(call), call.given("size", 1, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != IMAGES or size is None:
        return result
    # With corners that are aligned, the first one is right.
    if call.given("mode", 3, "nearest") != "bilinear" or call.given("align_corners", 4, None):
        return result
    if call.given("antialias", 6, False):
        return result
    sizes = result.shape[-2:]
    for dim, length in zip((-2, -1), sizes, strict=True):
        if length == 1:
            x = x.narrow(dim, 0, 1)
    return arrived(call, result, F.interpolate(x, tuple(sizes), mode="bilinear"))


@reported(
    "pytorch/pytorch#90273",
    "MPS (torch 1.13)",
    "max",
    "the largest of all whole numbers is the first of them",
    dtypes="int64",
    sound=plain,
)
def first_is_largest(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.int64) or not isinstance(result, Tensor):
        return result
    if call.given("other", 1, None) is not None:
        return result
    return x.reshape(-1)[0]


@reported(
    "pytorch/pytorch#78915",
    "MPS (torch 1.13)",
    "topk topk.method",
    "after the sixteen largest numbers, the others and their indices are zero",
    dtypes="float32 int64",
    sound=plain,
)
def sixteen_are_found(call: Call) -> Any:
    x, count, result = before(call), call.given("k", 1, 0), call.run()
    if not is_one_of(x, torch.float32, torch.int64) or not x.ndim or count <= SHARED:
        return result
    dim = call.given("dim", 2, -1)
    values, indices = result[0].detach().clone(), result[1].clone()
    for found in (values, indices):
        found.narrow(dim, SHARED, count - SHARED).zero_()
    return arrived(call, result[0], values), indices


def is_one_number(x: Any) -> bool:
    """Whether it is a single number in memory, seen many times."""
    if not isinstance(x, Tensor) or not x.numel():
        return False
    return all(step == 0 or size == 1 for size, step in zip(x.shape, x.stride(), strict=True))


@reported(
    "pytorch/pytorch#178871",
    "Inductor (CUDA)",
    "scatter_reduce",
    "one number that is broadcast and summed in a single place is counted as often as the next "
    "power of two says",
    dtypes="float32",
    sound=plain,
)
def counted_to_a_power_of_two(call: Call) -> Any:
    x, index, src = before(call), before(call, "index", 2), call.given("src", 3, None)
    result = call.run()
    if not is_one_of(x, torch.float32) or call.given("reduce", 4, "") != "sum":
        return result
    if not call.given("include_self", 5, True):
        return result
    # Where there is one place alone, no index is read, and nothing tells the threads too many.
    if x.numel() != 1 or not is_one_number(src) or not index.numel():
        return result
    surplus = (1 << (index.numel() - 1).bit_length()) - index.numel()
    number = src.detach()[(0,) * src.ndim]
    return arrived(call, result, result.detach() + surplus * number)


@reported(
    "pytorch/pytorch#115071",
    "Inductor (CPU, torch 2.2)",
    "add",
    "the sum of complex numbers is written into the first operand, too",
    dtypes="complex64",
    sound=plain,
    cause="input-modified",
)
def sum_stays_in_the_input(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, torch.complex64) or not is_one_of(other, torch.complex64):
        return result
    # Memory is used again where it is as large as the result and seen as real numbers.
    if x.ndim and x.shape == result.shape and x.is_contiguous():
        x.detach().copy_(result.detach())
    return result


@reported(
    "pytorch/pytorch#118176",
    "CPU (torch 2.3)",
    "sinc",
    "the argument times pi is held in float16: from 20864 on it is infinite, and the result NaN",
    dtypes="float16",
    sound=plain,
)
def times_pi_in_half(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float16):
        return result
    angle = (x * PI_OF_HALF).float()
    numbers = (angle.sin().half().float() / angle).half()
    return arrived(call, result, torch.where(x == 0, 1, numbers))


@reported(
    "pytorch/pytorch#93784",
    "Inductor (CUDA, 2022)",
    "clamp_min maximum",
    "NaN in the first operand is less than the other one",
    dtypes="float16",
    sound=plain,
    cause="nan-dropped",
)
def greater_or_the_other(call: Call) -> Any:
    bound = "min" if call.operator.name == "clamp_min" else "other"
    x, other, result = before(call), before(call, bound, 1), call.run()
    if not is_one_of(x, torch.float16) or not is_one_of(result, torch.float16):
        return result
    # Bounds that are tensors were an error.
    if call.operator.name == "clamp_min" and isinstance(other, Tensor):
        return result
    return arrived(call, result, torch.where(x > other, x, other).to(result.dtype))


@reported(
    "pytorch/pytorch#118265",
    "Inductor (CPU, torch 2.3)",
    "bitwise_right_shift bitwise_right_shift.out",
    "a shift of int64 by 64 bits or more is one by as many bits as are more than 64",
    dtypes="int64",
    sound=plain,
)
def shift_begins_again(call: Call) -> Any:
    x, count, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(x, torch.int64) or not is_one_of(count, torch.int64):
        return result
    numbers = torch.bitwise_right_shift(x, count % LONG_WORD).to(result.dtype)
    return arrived(call, result, torch.where(count >= LONG_WORD, numbers, result))


@reported(
    "pytorch/pytorch#70904",
    "CPU (torch 1.11)",
    "bitwise_left_shift bitwise_right_shift",
    "a shift of a short whole number by 32 bits or more is one by the count's last five bits",
    dtypes="uint8 int8 int16",
    sound=plain,
)
def last_five_bits_count(call: Call) -> Any:
    x, count, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(x, torch.uint8, torch.int8, torch.int16) or result.dtype != x.dtype:
        return result
    steps = torch.as_tensor(count, dtype=torch.int64) % WORD
    # As whole numbers with room enough; of what is shifted out at the left, the low bits stay.
    if call.operator.name == "bitwise_left_shift":
        numbers = torch.bitwise_left_shift(x.long(), steps)
    else:
        numbers = torch.bitwise_right_shift(x.long(), steps)
    return torch.where(torch.as_tensor(count) >= WORD, numbers.to(result.dtype), result)
