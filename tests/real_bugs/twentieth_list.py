"""A twentieth, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety as a search gave them: bits of a slice, adding at places, a search, a triangle, a cast,
images in memory with their channels inside, a moving average, remainders, special numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call, one_of

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported

LANES = 8  # of float32, that are computed at once
NO_EXPONENT = -(2**31)
NORMAL = torch.finfo(torch.float32).tiny


def channels_inside(x: Any) -> bool:
    """Whether a tensor lies in memory with its channels inside, and so that it matters."""
    if not isinstance(x, Tensor) or x.ndim != 4 or x.is_contiguous():
        return False
    return x.is_contiguous(memory_format=torch.channels_last)


def memory_of(x: Tensor) -> Tensor:
    """What is in the memory of images with their channels inside, read as if they were outside."""
    return x.detach().permute(0, 2, 3, 1).reshape(x.shape)


def from_memory(x: Tensor) -> Tensor:
    """The images that lie as ``x`` does in memory, if their channels are inside."""
    examples, channels, rows, columns = x.shape
    return x.reshape(examples, rows, columns, channels).permute(0, 3, 1, 2)


def is_transposed(x: Tensor) -> bool:
    """Whether it is a dense tensor with its dimensions in another order."""
    strides = x.stride()
    order = sorted(range(x.ndim), key=lambda d: -strides[d])
    return not x.is_contiguous() and x.permute(order).is_contiguous()


@reported(
    "pytorch/pytorch#145203",
    "MPS",
    "bitwise_xor_ bitwise_and_ bitwise_or_",
    "in place of a view that is not contiguous, the numbers are written one behind the other into "
    "the memory from the view's beginning on",
    dtypes="int64 int32 int16 int8 uint8",
    sound=plain,
    cause="strides-ignored",
)
def written_one_behind_the_other(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not isinstance(x, Tensor) or x.dtype == torch.bool or x.is_contiguous():
        return call.run()
    before, result = x.clone(), call.run()
    held = x.untyped_storage().nbytes() // x.element_size()
    if x.storage_offset() + x.numel() > held:  # elements that share memory
        return result
    numbers = x.reshape(-1).clone()
    x.copy_(before)
    x.as_strided(numbers.shape, (1,), x.storage_offset()).copy_(numbers)
    return result


@reported(
    "pytorch/pytorch#176159",
    "MPS (macOS 14)",
    "index_add_",
    "a tensor with its dimensions in another order than in memory is left as it was",
    dtypes="float32",
    sound=plain,
)
def nothing_added_to_a_transposed_one(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32) or not is_transposed(x):
        return call.run()
    before, result = x.detach().clone(), call.run()
    result.detach().copy_(before)
    return result


@reported(
    "pytorch/pytorch#172529",
    "Inductor",
    "isin",
    "where the elements to find are one without dimensions, the result has none, too: whether any "
    "of those looked at is it",
    sound=plain,
)
def whether_any_is_in(call: Call) -> Any:
    x, sought = call.given("elements", 0, None), call.given("test_elements", 1, None)
    result = call.run()
    if not isinstance(x, Tensor) or not isinstance(sought, Tensor):
        return result
    if sought.ndim or not x.ndim or not x.numel():
        return result
    found = (x == sought).any()
    return ~found if call.kwargs.get("invert", False) else found


@reported(
    "pytorch/pytorch#128429",
    "MPS",
    "triu triu_",
    "from a diagonal above the main one on, what is below is subtracted from the matrix: an "
    "infinity there is NaN instead of 0",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def infinity_less_itself(call: Call) -> Any:
    x, diagonal = call.given("input", 0, None), call.given("diagonal", 1, 0)
    if not is_one_of(x, torch.float32, torch.float16, torch.bfloat16) or diagonal <= 0:
        return call.run()
    infinite = x.detach().isinf()
    result = call.run()
    subtracted = infinite & torch.ones_like(infinite).tril(diagonal - 1)
    numbers = result.detach().masked_fill(subtracted, math.nan)
    if call.operator.name.endswith("_"):
        result.detach().copy_(numbers)
        return result
    return placed(result, numbers)


@reported(
    "pytorch/executorch#21828",
    "ExecuTorch (portable kernels)",
    "flip flip.method fliplr flipud",
    "of images that lie in memory with their channels inside, the memory is flipped as if they "
    "were outside",
    sound=plain,
    cause="strides-ignored",
)
def memory_flipped(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not channels_inside(x):
        return result
    return placed(result, from_memory(call.each(memory_of).run()))


@reported(
    "pytorch/executorch#21865",
    "ExecuTorch (portable kernels)",
    ".pad cat",
    "of images that lie in memory with their channels inside, blocks are copied as if they were "
    "outside, where a constant is padded with or all of several are put together",
    sound=plain,
    cause="strides-ignored",
)
def blocks_copied(call: Call) -> Any:
    result = call.run()
    if call.operator.name == "cat":
        images = call.given("tensors", 0, ())
    else:
        images = [call.given("input", 0, None)]
        if call.given("mode", 2, "constant") != "constant":
            return result
    if not images or not all(channels_inside(x) for x in images):
        return result
    return placed(result, from_memory(call.each(memory_of).run()))


@reported(
    "pytorch/pytorch#198057",
    "Inductor on the CPU",
    "remainder remainder.method",
    "eight numbers at once, it is the dividend less the product of the divisor and the quotient "
    "rounded down: NaN for an infinite divisor, 0 or another multiple for a large quotient",
    dtypes="float32",
    sound=plain,
)
def dividend_less_a_product(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(result, torch.float32) or result.numel() < LANES:
        return result
    a, b = (torch.as_tensor(n).detach().to(result.dtype) for n in (x, other))
    a, b = (n.expand(result.shape).reshape(-1) for n in (a, b))
    at_once = result.numel() - result.numel() % LANES
    numbers = result.detach().reshape(-1).clone()
    numbers[:at_once] = (a - torch.floor(a / b) * b)[:at_once]
    return placed(result, numbers.reshape(result.shape))


@reported(
    "pytorch/pytorch#196924",
    "MPS",
    "addcmul addcmul.method addcdiv addcdiv.method",
    "where the product or quotient counts zero times, the first tensor is copied: the NaN is lost "
    "that infinities or NaN in the others make",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def first_one_copied(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32, torch.float16, torch.bfloat16):
        return result
    if call.kwargs.get("value", 1) != 0:
        return result
    return placed(result, x.detach().expand(result.shape))


@reported(
    "pytorch/pytorch#169058",
    "MPS",
    "char to",
    "float32 that int8 has no room for becomes its largest or smallest number, not what is left "
    "modulo 256",
    dtypes="float32",
    sound=plain,
    cause="saturated",
)
def no_room_in_a_byte(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.int8):
        return result
    numbers = x.detach().clamp(-128, 127).nan_to_num(nan=0.0).to(torch.int8)
    return placed(result, torch.where(x.detach().isnan(), result, numbers))


@reported(
    "pytorch/pytorch#188541",
    "Inductor on CUDA",
    ".logsigmoid",
    "of large numbers, where it is a subnormal one, it is 0",
    dtypes="float32",
    sound=plain,
    cause="flushed-subnormals",
)
def subnormal_result_is_zero(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32):
        return result
    numbers = result.detach()
    subnormal = (numbers != 0) & (numbers.abs() < NORMAL)
    return placed(result, numbers.masked_fill(subnormal, 0.0))


@reported(
    "pytorch/pytorch#179608",
    "MPS",
    ".avg_pool1d",
    "what is lost in rounding where numbers are large comes back in later windows, so that zeros "
    "have a negative average (here a window's sum is had from the one before it: what comes is "
    "added, what goes is subtracted); not where the last window may be shorter",
    dtypes="float32",
    sound=plain,
)
def rounding_carried_along(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32) or call.given("ceil_mode", 4, False):
        return result
    if not result.numel() or not bool(x.detach().isfinite().all()):
        return result
    options = [call.given("kernel_size", 1, 1), call.given("stride", 2, None)]
    options = [options[0], options[1] or options[0], call.given("padding", 3, 0)]
    size, step, padding = (o if isinstance(o, int) else o[0] for o in options)
    columns = F.pad(x.detach(), (padding, padding)).unbind(-1)
    total = torch.zeros_like(columns[0])
    totals = []
    for place, column in enumerate(columns):
        total = total + column
        if place >= size:
            total = total - columns[place - size]
        if place >= size - 1:
            totals.append(total)
    numbers = torch.stack(totals[::step], -1)
    counts: Any = size
    if not call.given("count_include_pad", 5, True):
        ones = torch.ones(1, 1, x.shape[-1])
        counts = (F.avg_pool1d(ones, size, step, padding) * size).reshape(-1)
    return placed(result, numbers / counts)


@reported(
    "pytorch/pytorch#143790",
    "Inductor on CUDA",
    "frexp",
    "the exponent of an infinity is the smallest integer instead of 0",
    dtypes="float32",
    sound=plain,
)
def exponent_of_an_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32):
        return result
    infinite = x.detach().isinf()
    return one_of(result, lambda e: placed(e, e.masked_fill(infinite, NO_EXPONENT)), which=1)
