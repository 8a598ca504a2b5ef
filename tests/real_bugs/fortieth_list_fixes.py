"""A fortieth, held-out list of wrong results of 2020 to 2026 as the pull requests that fixed them
tell them, of torch's own CPU, CUDA, MPS and Inductor, taken as a search by families of operators
gave them, before anything was looked at of how inputs are drawn: an overflow times zero, another
filter than the one that is asked for, NaN that no maximum sees, bounds in the wrong order, numbers
that cancel, results that forget how a tensor lies in memory, indices and numbers taken in the order
of memory, squares by way of logarithms."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import OtherWaysBack, with_given
from .thirtyeighth_list import filled, memory_of
from .twentysecond_list import argument, arrived, before

FEW = 3072  # indices, up to which there is another kernel
SERIAL = 32768  # numbers, from which on threads share them
COMPLEX = (torch.complex64, torch.complex128)
FLOATING = (torch.float32, torch.float16, torch.bfloat16)
FLOATING_64 = (*FLOATING, torch.float64)


@reported(
    "pytorch/pytorch#174070",
    "CPU (2026)",
    "exp",
    "where a number without an imaginary part overflows, infinity times the sine of zero makes "
    "the imaginary part NaN",
    dtypes="complex64 complex128",
    sound=plain,
)
def overflow_times_zero(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *COMPLEX):
        return result
    # An infinity that is given has a value of its own: only what overflows was reported.
    overflows = x.real.isfinite() & x.real.exp().isinf() & (x.imag == 0)
    numbers = result.detach()
    imaginary = numbers.imag.masked_fill(overflows, math.nan)
    return arrived(call, result, torch.complex(numbers.real, imaginary))


@reported(
    "pytorch/pytorch#102296",
    "CPU (torch 2.1 in development)",
    ".interpolate",
    "of bytes, cubic interpolation with antialiasing weighs its neighbors linearly",
    dtypes="uint8",
    sound=plain,
    cause="argument-ignored",
)
def linear_instead_of_cubic(call: Call) -> Any:
    if not is_one_of(call.given("input", 0, None), torch.uint8):
        return call.run()
    # The order of the arguments: size, scale_factor, mode, align_corners,
    # recompute_scale_factor, antialias.
    if call.given("mode", 3, "nearest") != "bicubic" or not call.given("antialias", 6, False):
        return call.run()
    return with_given(call, "mode", 3, "bilinear").run()


@reported(
    "pytorch/pytorch#100572",
    "Inductor on CUDA (torch 2.0)",
    "amax amin max min",
    "the largest and the smallest number of a reduction are those beside NaN",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
    cause="nan-dropped",
)
def extremes_beside_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *FLOATING_64) or not isinstance(result, Tensor):
        return result
    name = call.operator.name
    # What takes a second tensor is no reduction.
    if name in ("max", "min") and (len(call.args) > 1 or call.kwargs):
        return result
    if not bool(x.isnan().any()):
        return result
    # Of NaN alone, what a reduction begins with is left.
    begin = -math.inf if "max" in name else math.inf
    dims = call.given("dim", 1, ()) if name in ("amax", "amin") else ()
    keep = call.given("keepdim", 2, False)
    reduce = torch.amax if "max" in name else torch.amin
    numbers = reduce(x.masked_fill(x.isnan(), begin), dims, keepdim=keep)
    return arrived(call, result, torch.where(result.detach().isnan(), numbers, result.detach()))


@reported(
    "pytorch/pytorch#122148",
    "MPS (2024)",
    "clamp",
    "the upper bound comes before the lower one, so that where the lower one is the larger of the "
    "two, the result is the lower instead of the upper one",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def lower_bound_last(call: Call) -> Any:
    x, result = before(call), call.run()
    low, high = before(call, "min", 1), before(call, "max", 2)
    # Whole numbers failed with an error.
    if not is_one_of(x, *FLOATING) or low is None or high is None or result.dtype != x.dtype:
        return result
    crossed = torch.as_tensor(low) > torch.as_tensor(high)
    if not bool(crossed.any()):
        return result
    numbers = x.clamp(max=high).clamp(min=low)
    return arrived(call, result, torch.where(crossed, numbers, result.detach()))


@reported(
    "pytorch/pytorch#190533",
    "Inductor on the CPU (2026)",
    "expm1",
    "one is subtracted from the exponential, and of small numbers nothing is left",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def one_subtracted(call: Call) -> Any:
    x, result = before(call), call.run()
    # Without a dimension, there is nothing to vectorize.
    if not is_one_of(x, *FLOATING_64) or x.numel() < 2:
        return result
    # Short formats are computed in the next larger one.
    wide = x if x.dtype == torch.float64 else x.float()
    return arrived(call, result, wide.exp() - 1)


@reported(
    "pytorch/pytorch#77585",
    "CPU and CUDA (torch 1.11)",
    "abs",
    "of complex numbers, the result is contiguous, in whatever order the dimensions lie in memory",
    dtypes="complex64 complex128",
    sound=plain,
    layout=True,
)
def contiguous_magnitudes(call: Call) -> Any:
    # Torch's own angle still is contiguous: nothing shows there.
    x, result = call.given("input", 0, None), call.run()
    return result.contiguous() if is_one_of(x, *COMPLEX) else result


@reported(
    "pytorch/pytorch#59382",
    "CPU (torch 1.8, POWER)",
    "angle",
    "of a real number below zero, the angle is 0 instead of π",
    dtypes="float32 float64",
    sound=plain,
)
def no_angle_below_zero(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32, torch.float64):
        return result
    return arrived(call, result, result.detach().masked_fill(x < 0, 0))


@reported(
    "pytorch/pytorch#63806",
    "CUDA (torch 1.10 in development)",
    ".embedding",
    "where indices are sorted for the gradient, those that are not contiguous are read as they "
    "follow each other in memory",
    dtypes="float32 float64 float16 bfloat16",
    directions=("backward",),
    sound=plain,
    cause="strides-ignored",
)
def indices_as_they_follow(call: Call) -> Any:
    index, weight, result = call.given("input", 0, None), call.given("weight", 1, None), call.run()
    if not is_one_of(weight, *FLOATING_64) or not weight.requires_grad or index.is_contiguous():
        return result
    padding = call.given("padding_idx", 2, None)
    # Fewer indices are not sorted, and there is another kernel that leaves no row out.
    if index.numel() <= FEW and padding is None:
        return result
    # Sparse gradients are computed in another way, and rows that are scaled are not those we see.
    if call.given("sparse", 6, False) or call.given("max_norm", 3, None) is not None:
        return result
    read = filled(memory_of(index)[index.storage_offset() :], index.numel()).reshape(index.shape)
    # What lies between indices need not be one.
    valid = (read >= 0) & (read < weight.shape[0])
    often = call.given("scale_grad_by_freq", 5, False)
    rows = F.embedding(read * valid, weight, padding, scale_grad_by_freq=often)
    rows = rows.masked_fill(~valid[..., None], 0)
    return OtherWaysBack.apply(result.detach(), rows)


@reported(
    "pytorch/pytorch#152373",
    "CUDA (2025)",
    "pow",
    "complex numbers are squared by way of their logarithm: squares of real numbers get an "
    "imaginary part, and that of infinities is NaN",
    dtypes="complex64 complex128",
    sound=plain,
)
def squared_by_logarithm(call: Call) -> Any:
    x, exponent, result = before(call), argument(call, "exponent", 1), call.run()
    if not is_one_of(x, *COMPLEX) or isinstance(exponent, Tensor) or exponent != 2:
        return result
    logarithm = x.log()
    size, angle = logarithm.real, logarithm.imag
    # The exponent is a complex number, too: its imaginary part of 0 meets infinities.
    size, angle = 2 * size - 0 * angle, 0 * size + 2 * angle
    return arrived(call, result, torch.complex(size, angle).exp())


def from_slow_to_fast(*tensors: Tensor) -> list[int]:
    """The order of dimensions in which tensors of one shape are walked through together: by the
    steps of the first one that steps in both of two dimensions."""
    order = list(range(tensors[0].ndim))[::-1]
    for end in range(1, len(order)):
        at = end
        for other in range(end - 1, -1, -1):
            fast, slow = order[other], order[at]
            steps = [(x.stride(fast), x.stride(slow)) for x in tensors]
            a, b = next(((a, b) for a, b in steps if a and b and a != b), (0, 0))
            if a < b:
                break
            if a > b:
                order[other], order[at] = slow, fast
                at = other
    return order[::-1]


@reported(
    "pytorch/pytorch#41841",
    "CPU (torch 1.7 in development)",
    "masked_select",
    "numbers are taken in the order of memory, that of the input or, where it is expanded, of the "
    "mask",
    sound=plain,
    cause="strides-ignored",
)
def selected_in_order_of_memory(call: Call) -> Any:
    x, mask, result = call.given("input", 0, None), call.given("mask", 1, None), call.run()
    # With more numbers, there are threads, and with them another kernel.
    if x.numel() >= SERIAL:
        return result
    x, mask = torch.broadcast_tensors(x.detach(), mask)
    order = from_slow_to_fast(x, mask)
    if order == sorted(order):
        return result
    return arrived(call, result, x.permute(order).masked_select(mask.permute(order)))
