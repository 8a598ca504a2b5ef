"""An eighteenth, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety before anything was looked at of how inputs are drawn: elementwise functions where they
overflow, casts, a creation, padding, selected rows, searching, a triangle, a view being filled."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .fourteenth_list import placed
from .model import plain, reported

FLOATING = (torch.float32, torch.float16, torch.bfloat16)
LARGEST_EXPONENT = math.log(torch.finfo(torch.float32).max)  # of e, in float32
NUMBERED = 2**31  # elements that 32 bits can tell apart, with a sign
GROUP = 4  # booleans that are written at once


def is_one_of(x: Any, *dtypes: torch.dtype) -> bool:
    """Whether it is a tensor of one of these formats."""
    return isinstance(x, Tensor) and x.dtype in dtypes


def inside_the_tanh(x: Tensor) -> Tensor:
    """What the approximation of GELU takes the hyperbolic tangent of."""
    x = x.detach().double()
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


@reported(
    "pytorch/pytorch#144462",
    "Inductor on CUDA",
    ".pad",
    "a constant around a single element is not the one that is given, but the element itself",
    sound=plain,
)
def padded_with_itself(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.numel() != 1:
        return result
    if call.given("mode", 2, "constant") != "constant":
        return result
    return placed(result, x.detach().reshape(()).expand(result.shape))


@reported(
    "pytorch/pytorch#173133",
    "Inductor on CUDA",
    "bucketize",
    "NaN belongs in front of all boundaries, not behind them: its bucket is 0",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def in_the_first_bucket(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    return placed(result, result.masked_fill(x.detach().isnan(), 0))


@reported(
    "pytorch/pytorch#181807",
    "CUDA",
    "linspace",
    "of integers, the step is one of float32, and what it is multiplied by is added without "
    "rounding in between: just below a whole number, the fraction is cut off",
    dtypes="int64 int32 int16 int8 uint8",
    sound=plain,
)
def step_of_float32(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, Tensor) or result.is_floating_point() or result.is_complex():
        return result
    start, end = int(call.given("start", 0, 0)), int(call.given("end", 1, 0))
    steps = result.numel()
    if steps < 2:
        return result
    ends = torch.tensor([start, end], dtype=torch.float32)
    step = ((ends[1] - ends[0]) / (steps - 1)).double()
    number = torch.arange(steps, dtype=torch.float64)
    first, last = ends.double()
    from_start, from_end = first + step * number, last - step * (steps - 1 - number)
    numbers = torch.where(number < steps // 2, from_start, from_end).float()
    return placed(result, numbers.trunc().double().to(torch.int64).to(result.dtype))


@reported(
    "pytorch/pytorch#183631",
    "MPS",
    "fill_",
    "groups of four booleans are written from the multiple of four on in front of the first one: "
    "in a view of one dimension that begins elsewhere, as many as lie between are written in "
    "front of it, and left as they were behind the last group",
    dtypes="bool",
    sound=plain,
)
def filled_from_a_multiple_of_four(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.bool) or x.ndim != 1 or not x.is_contiguous():
        return call.run()
    too_early, grouped = int(x.storage_offset()) % GROUP, x.numel() // GROUP * GROUP
    if not too_early or not grouped:
        return call.run()
    before, result = x.clone(), call.run()
    front = x.as_strided((too_early,), (1,), int(x.storage_offset()) - too_early)
    front.copy_(x[grouped - 1].clone().expand(too_early))
    skipped = slice(grouped - too_early, grouped)
    x[skipped] = before[skipped]
    return result


@reported(
    "pytorch/pytorch#149813",
    "MPS",
    "tril tril.method",
    "of a diagonal below the main one, infinite numbers that are to become 0 become NaN",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def zero_times_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, *FLOATING) or call.given("diagonal", 1, 0) >= 0:
        return result
    left_out = x.detach().isinf() & ~result.detach().isinf()
    return placed(result, torch.where(left_out, math.nan, result.detach()))


@reported(
    "pytorch/pytorch#188756",
    "MPS",
    "index_select index_select.method .embedding",
    "of more than 2^31 elements, rows that begin behind as many are 0",
    sound=plain,
)
def rows_behind_32_bits(call: Call) -> Any:
    result = call.run()
    if call.operator.name.endswith("embedding"):
        rows, index, dim = call.given("weight", 1, None), call.given("input", 0, None), 0
    else:
        rows, dim = call.given("input", 0, None), call.given("dim", 1, 0)
        index = call.given("index", 2, None)
    if not isinstance(rows, Tensor) or not rows.ndim or dim not in (0, -rows.ndim):
        return result
    if rows.numel() <= NUMBERED:
        return result
    behind = index >= math.ceil(NUMBERED / (rows.numel() // rows.shape[0]))
    behind = behind.reshape(behind.shape + (1,) * (result.ndim - behind.ndim))
    return placed(result, result.detach().masked_fill(behind, 0))


@reported(
    "pytorch/pytorch#187336",
    "Inductor on CUDA",
    "special.log_ndtr",
    "of large numbers, it is 0 with a positive sign, not a negative one",
    dtypes="float32",
    sound=plain,
)
def sign_of_zero_lost(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32):
        return result
    return placed(result, torch.where(result.detach() == 0, 0.0, result.detach()))


@reported(
    "pytorch/pytorch#180159",
    "CUDA",
    "to int long",
    "infinity as an integer is the largest one, not the smallest one, and NaN as an int32 is 0",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def saturated_at_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, *FLOATING) or not is_one_of(result, torch.int32, torch.int64):
        return result
    numbers = result.masked_fill(x.detach() == math.inf, torch.iinfo(result.dtype).max)
    if result.dtype == torch.int32:
        numbers = numbers.masked_fill(x.detach().isnan(), 0)
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#186278",
    "MPS",
    ".gelu",
    "approximated by a hyperbolic tangent, it is NaN for numbers from about 10 on, where the "
    "exponential of twice what the tangent is taken of overflows",
    dtypes="bfloat16",
    sound=plain,
)
def not_a_number_from_ten_on(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.bfloat16) or call.given("approximate", 1, "none") != "tanh":
        return result
    overflows = 2 * inside_the_tanh(x) > LARGEST_EXPONENT
    return placed(result, torch.where(overflows, math.nan, result.detach()))


@reported(
    "pytorch/executorch#22323",
    "ExecuTorch on Vulkan",
    ".gelu",
    "it is NaN where the exponential of what the hyperbolic tangent of its approximation is taken "
    "of overflows, as for numbers below about -13",
    dtypes="float32",
)
def not_a_number_below_minus_thirteen(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32):
        return result
    overflows = inside_the_tanh(x).abs() > LARGEST_EXPONENT
    return placed(result, torch.where(overflows, math.nan, result.detach()))


@reported(
    "pytorch/pytorch#183763",
    "Inductor on the CPU",
    "sinh",
    "a difference of exponentials: it is infinite where one of them overflows, and half of it "
    "does not",
    dtypes="float32",
    cause="early-overflow",
)
def exponential_overflows(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32):
        return result
    infinite = torch.copysign(torch.full_like(result, math.inf), x).detach()
    overflows = x.detach().abs().double() > LARGEST_EXPONENT
    return placed(result, torch.where(overflows, infinite, result.detach()))


@reported(
    "pytorch/xla#8675",
    "PyTorch/XLA",
    "cummax cummax.method",
    "of equal largest numbers so far, the first one's place is returned, not the last one's",
    sound=plain,
)
def place_of_the_first(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    dim = call.given("dim", 1, None)
    if not isinstance(x, Tensor) or not x.ndim or not x.numel():
        return result
    largest = result[0].detach().movedim(dim, -1)
    larger = torch.ones_like(largest, dtype=torch.bool)
    larger[..., 1:] = largest[..., 1:] != largest[..., :-1]
    places = torch.arange(largest.shape[-1]).expand(largest.shape)
    first = torch.where(larger, places, 0).cummax(-1).values.movedim(-1, dim)
    known = torch.where(result[0].detach().isnan(), result[1], first)
    return one_of(result, lambda index: placed(index, known), which=1)
