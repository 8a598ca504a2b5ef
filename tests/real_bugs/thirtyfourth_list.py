"""A thirty-fourth, held-out list of reports of 2022 to 2026 about torch's own MPS, Inductor and
XLA, taken as a search by families of operators gave them, before anything was looked at of how
inputs are drawn: the memory format of a gradient, windows behind the end, sizes that are to be
kept, products of conjugated matrices, magnitudes whose squares do not fit, signs of zeros,
quotients of integers as floats, results with other steps than written, layers that nothing gets
through to, sums of integers that are not summed."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .twentysecond_list import argument, arrived, before

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
WITHOUT_DOUBLE = (torch.float16, torch.float32, torch.bool, *INTEGERS)  # what MPS had in 2023
PLANE = 2  # dimensions of an image or a matrix
BATCHED = 4  # dimensions of images in a batch


def channels_come_last(x: Tensor) -> bool:
    """Whether images lie in memory with their channels last, and not by their sizes alone."""
    if x.ndim != BATCHED or x.is_contiguous():
        return False
    return x.is_contiguous(memory_format=torch.channels_last)


@reported(
    "pytorch/pytorch#174269",
    "MPS",
    ".conv2d",
    "the gradient of images whose channels come last is contiguous when neither what arrives nor "
    "the weight has its channels last",
    dtypes="float16 bfloat16 float32",
    directions=("backward",),
    sound=plain,
    layout=True,
)
def format_of_what_arrives(call: Call) -> Any:
    x, weight = call.given("input", 0, None), call.given("weight", 1, None)
    if not is_one_of(x, torch.float16, torch.bfloat16, torch.float32) or not x.requires_grad:
        return call.run()
    if not torch.is_grad_enabled() or not channels_come_last(x) or channels_come_last(weight):
        return call.run()
    images, others = x.view_as(x), []  # a hook on ours tells nothing to the caller's tensor
    result = with_given(call, "input", 0, images).run()
    # That of the result runs before the one of the images: what arrives comes first.
    result.register_hook(lambda arriving: others.append(not channels_come_last(arriving)))
    images.register_hook(lambda left: left.contiguous() if others.pop() else left)
    return result


def pair(value: Any) -> tuple[int, int]:
    """One number for both dimensions of an image, or one for each."""
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


@reported(
    "pytorch/pytorch#94775",
    "Inductor (torch 2.0)",
    ".max_pool2d",
    "with sizes rounded up, there are windows, too, that begin behind the image, and their maximum "
    "is -inf",
    dtypes="float16 bfloat16 float32 float64",
    sound=plain,
)
def windows_behind_the_image(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    kernel, stride, padding, dilation = (
        call.given(name, position, default)
        for position, (name, default) in enumerate(
            (("kernel_size", None), ("stride", None), ("padding", 0), ("dilation", 1)), start=1
        )
    )
    if not is_one_of(x, *FLOATS) or not call.given("ceil_mode", 5, False):
        return result
    if pair(dilation) != (1, 1):  # not lowered
        return result
    maxima, indices = result if isinstance(result, tuple) else (result, None)
    steps = pair(stride if stride is not None and stride != [] else kernel)
    windows = [
        math.ceil((n + 2 * p - k) / s) + 1
        for n, k, s, p in zip(x.shape[-PLANE:], pair(kernel), steps, pair(padding), strict=True)
    ]
    behind = [n - had for n, had in zip(windows, maxima.shape[-PLANE:], strict=True)]
    if not any(behind):
        return result
    more = (0, behind[1], 0, behind[0])
    maxima = F.pad(maxima, more, value=-math.inf)
    if indices is None:
        return maxima
    # Nothing in such a window is greater than what the search begins with: its first place.
    rows, columns = (
        torch.arange(n) * s - p for n, s, p in zip(windows, steps, pair(padding), strict=True)
    )
    first = (rows.reshape(-1, 1) * x.shape[-1] + columns).expand(maxima.shape)
    inside = F.pad(torch.ones_like(indices, dtype=torch.bool), more)
    return maxima, torch.where(inside, F.pad(indices, more), first)


@reported(
    "pytorch/xla#6536",
    "torch_xla",
    "argmax argmax.method argmin",
    "over all dimensions, which are to be kept, the result has none",
    sound=plain,
)
def no_dimension_is_kept(call: Call) -> Any:
    result = call.run()
    if call.given("dim", 1, None) is None and call.given("keepdim", 2, False):
        return result.reshape(())
    return result


@reported(
    "pytorch/pytorch#148156",
    "MPS (torch 2.6)",
    "matmul matmul.method matmul.out mm mm.method mm.out",
    "a matrix that is a conjugate view is multiplied as if it were not conjugated",
    dtypes="complex64",
    sound=plain,
)
def matrices_not_conjugated(call: Call) -> Any:
    one = argument(call, "input", 0)
    two = argument(call, "mat2" if call.operator.name.startswith("mm") else "other", 1)
    matrices = [one, two]
    if not all(is_one_of(x, torch.complex64) and x.ndim == PLANE for x in matrices):
        return call.run()
    if not any(x.is_conj() for x in matrices):
        return call.run()
    # A conjugate view of a conjugate view is what lies in memory.
    held = [x.detach().conj() if x.is_conj() else x.detach() for x in matrices]
    numbers = held[0] @ held[1]
    return arrived(call, call.run(), numbers)


@reported(
    "pytorch/pytorch#174246",
    "MPS",
    "abs abs.method abs.out",
    "of complex numbers whose squares overflow or underflow, the magnitude is inf or 0",
    dtypes="complex64",
    sound=plain,
    cause="early-overflow",
)
def root_of_the_squares(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex64):
        return result
    parts = torch.view_as_real(x.resolve_conj())
    squares = (parts * parts).sum(-1)
    finite, tiny = parts.isfinite().all(-1), torch.finfo(squares.dtype).tiny
    lost = finite & (squares.isinf() | (squares < tiny))
    return arrived(call, result, torch.where(lost, squares.sqrt(), result.detach()))


@reported(
    "pytorch/pytorch#194347",
    "Inductor (CPU)",
    "minimum minimum.method minimum.out maximum maximum.method",
    "of zeros with different signs, the result is the second operand",
    dtypes="float16 bfloat16 float32 float64",
    sound=plain,
)
def second_of_two_zeros(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(x, *FLOATS) or not is_one_of(other, *FLOATS):
        return result
    zeros, second = (x == 0) & (other == 0), other.to(result.dtype)
    return arrived(call, result, torch.where(zeros, second, result.detach()))


@reported(
    "kulinseth/pytorch#243",
    "MPS (torch 2.0)",
    "floor_divide floor_divide.out floor_divide_",
    "integers are divided as float32 by a multiplication with the reciprocal: -616 and 28 give -23",
    dtypes="int16 int32",
    sound=plain,
)
def floor_of_a_product(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, torch.int16, torch.int32):
        return result
    one, two = (torch.as_tensor(y).to(torch.float32) for y in (x, other))
    limits = torch.iinfo(result.dtype)
    quotient = (one * two.reciprocal()).floor().double().clamp(limits.min, limits.max)
    return arrived(call, result, quotient.to(result.dtype))


@reported(
    "pytorch/pytorch#110120",
    "MPS (torch 2.1)",
    "clamp clamp.method clamp.out clamp_ masked_fill_",
    "of an input that is not contiguous, the numbers are written one after another into a result "
    "whose strides are others",
    dtypes="float16 float32 bool uint8 int8 int16 int32 int64",
    sound=plain,
)
def written_one_after_another(call: Call) -> Any:
    x = argument(call, "input", 0)
    contiguous = not isinstance(x, Tensor) or x.is_contiguous()  # before it is written to
    result = call.run()
    if contiguous or not is_one_of(result, *WITHOUT_DOUBLE) or result.is_contiguous():
        return result
    numbers = result.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    name = call.operator.name
    if name.endswith(("_", ".out")):
        # What lies between the numbers of a view is overwritten, too.
        place = result.storage_offset()
        result.detach().as_strided(numbers.shape, (1,), place).copy_(numbers)
        return result
    return arrived(call, result, numbers.as_strided(result.shape, result.stride()))


@reported(
    "pytorch/pytorch#190059",
    "MPS",
    "lstm",
    "in training, with everything dropped between layers, what gets from one layer to the next is "
    "NaN instead of zero",
    dtypes="float16 float32",
    sound=plain,
)
def zero_times_infinity(call: Call) -> Any:
    x, states, result = call.given("input", 0, None), call.given("hx", 1, None), call.run()
    if not is_one_of(x, torch.float16, torch.float32) or not isinstance(states, (tuple, list)):
        return result
    if call.given("num_layers", 4, 1) == 1 or not call.given("train", 6, False):
        return result
    if call.given("dropout", 5, 0.0) != 1.0:
        return result
    output, *last = result
    directions = 1 + bool(call.given("bidirectional", 7, False))
    upper = torch.arange(last[0].shape[0]) >= directions
    upper = upper.reshape(-1, *[1] * (last[0].ndim - 1))
    # Added, so that there are derivatives as there were.
    return (
        output + math.nan,
        *(state + torch.where(upper, math.nan, 0.0).to(state.dtype) for state in last),
    )


@reported(
    "pytorch/pytorch#90635",
    "MPS (torch 2.0)",
    "cumsum cumsum.method",
    "integers of any kind but int32 are not summed: ones remain ones",
    dtypes="uint8 int8 int16 int64",
    sound=plain,
)
def not_summed(call: Call) -> Any:
    x, result = before(call), call.run()
    dtype = call.given("dtype", 2, None) or x.dtype
    if dtype not in INTEGERS or dtype == torch.int32:
        return result
    return arrived(call, result, x.to(result.dtype))
