"""A thirtieth, held-out list of reports of 2024 to 2026 about compilers of torch's operators and
its backends outside the tree (Inductor, XPU, torch-mlir, Core ML), taken as a search gave them and
from the history of the repositories that it led to, before anything was looked at of how inputs
are drawn: differences that are not numbers, rows of attention, signs of remainders and quotients,
infinities, windows and images at an edge, bits with a sign, corners of a derivative, strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

BACK = ("backward",)
WIDE = (torch.float32, torch.float64)
IN_TOSA = (torch.float16, torch.float32, torch.bfloat16)
OPTIMIZED = IN_TOSA  # what XPU's quick path takes: not float64
IN_CORE_ML = (torch.float16, torch.float32)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
CORNER = 3.0  # of hardswish
BATCHED = 5  # dimensions of a batch of images with depth


def values(size: Any, count: int) -> tuple[Any, ...]:
    """A size for each of ``count`` dimensions."""
    if not isinstance(size, Sequence):
        return (size,) * count
    return tuple(size) if len(size) == count else tuple(size) * count


def rerouted(call: Call, change: Callable[[Tensor, Tensor], Tensor]) -> Any:
    """The call with another gradient of its first argument, made of the right one and of the
    gradient of the result."""
    seen: list[Tensor] = []
    given = call.args[0].view_as(call.args[0])
    given.register_hook(lambda leaving: change(leaving, seen[-1]))
    out = call.with_arg(0, given).run()
    result = out.view_as(out)
    result.register_hook(seen.append)
    return result


@reported(
    "intel/torch-xpu-ops#3251",
    "XPU",
    ".pdist cdist",
    "with p = 0, a difference that is NaN, as of two infinite numbers, counts as 1",
    dtypes="float32 float64",
    sound=plain,
)
def counted_as_different(call: Call) -> Any:
    x, result = before(call), call.run()
    between = call.operator.name == "cdist"
    if not is_one_of(x, *WIDE) or call.given("p", 1 + between, 2.0) != 0:
        return result
    if between:
        other = call.given("x2", 1, None)
        first = call.given("x1", 0, None).detach()
        differences = first.unsqueeze(-2) - other.detach().unsqueeze(-3)
    else:
        one, two = torch.triu_indices(x.shape[0], x.shape[0], 1)
        differences = x[one] - x[two]
    return arrived(call, result, (differences != 0).sum(-1).to(result.dtype))


@reported(
    "intel/torch-xpu-ops#5022",
    "XPU",
    ".scaled_dot_product_attention",
    "a row of scores of which all are NaN or minus infinity is taken for one that is wholly "
    "masked: its result is 0 instead of NaN",
    dtypes="float16 bfloat16 float32 float64",
    sound=plain,
    cause="nan-dropped",
)
def taken_for_masked(call: Call) -> Any:
    query, key, value = (
        call.given(name, i, None).detach() for i, name in enumerate(("query", "key", "value"))
    )
    mask, result = call.given("attn_mask", 3, None), call.run()
    if call.given("dropout_p", 4, 0.0) or not query.is_floating_point():
        return result
    if call.given("enable_gqa", 7, False):
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scale = call.given("scale", 6, None)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query.double() * scale) @ key.double().transpose(-2, -1)
    hidden = torch.zeros((), dtype=scores.dtype)
    if call.given("is_causal", 5, False):
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        hidden = hidden.masked_fill(~seen, -math.inf)
    elif isinstance(mask, Tensor) and mask.dtype == torch.bool:
        hidden = hidden.masked_fill(~mask, -math.inf)
    elif isinstance(mask, Tensor):
        hidden = mask.detach().double()
    scores = scores + hidden
    unknown = scores.isnan()
    rows = (unknown | (scores == -math.inf)).all(-1) & unknown.any(-1)
    nothing = (value * 0.0).sum(-2, keepdim=True)
    return arrived(call, result, torch.where(rows.unsqueeze(-1), nothing, result.detach()))


@reported(
    "llvm/torch-mlir#3575",
    "torch-mlir, lowering to linalg",
    "remainder remainder.method remainder.out remainder_",
    "the remainder has the sign of the dividend, not that of the divisor",
    sound=plain,
)
def sign_of_the_dividend(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not isinstance(x, Tensor) or not isinstance(result, Tensor):
        return result
    return arrived(call, result, torch.fmod(x, other))


@reported(
    "llvm/torch-mlir#3145",
    "torch-mlir",
    "floor_divide floor_divide.out floor_divide_",
    "the quotient is rounded towards 0: of -7 by 2 it is -3",
    sound=plain,
)
def rounded_towards_zero(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not isinstance(x, Tensor) or not isinstance(result, Tensor):
        return result
    return arrived(call, result, torch.div(x, other, rounding_mode="trunc"))


@reported(
    "llvm/torch-mlir#3530",
    "torch-mlir",
    "nan_to_num nan_to_num.method nan_to_num.out nan_to_num_",
    "infinite numbers stay as they are where no other number is given for them",
    dtypes="float16 bfloat16 float32 float64",
    sound=plain,
    cause="argument-ignored",
)
def infinite_numbers_stay(call: Call) -> Any:
    x, result = before(call), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    nan, above, below = (
        argument(call, name, i) for i, name in enumerate(("nan", "posinf", "neginf"), 1)
    )
    above, below = (math.inf if above is None else above), (-math.inf if below is None else below)
    return arrived(call, result, torch.nan_to_num(x, nan=nan, posinf=above, neginf=below))


@reported(
    "apple/coremltools#2844",
    "Core ML",
    ".avg_pool1d .avg_pool1d.out .avg_pool2d .avg_pool2d.out",
    "with ceil_mode and without padding, windows that reach beyond the edge are divided by the "
    "size of a whole window",
    dtypes="float16 float32",
    sound=plain,
)
def divided_by_the_whole_window(call: Call) -> Any:
    x, size, stride, result = (
        before(call),
        argument(call, "kernel_size", 1),
        argument(call, "stride", 2),
        call.run(),
    )
    padded = any(values(argument(call, "padding", 3, 0), 1))
    beyond = argument(call, "ceil_mode", 4, False) and argument(call, "count_include_pad", 5, True)
    if not is_one_of(x, *IN_CORE_ML) or padded or not beyond:
        return result
    if argument(call, "divisor_override", 6) is not None:
        return result
    stride = size if stride is None or stride == [] or stride == () else stride
    if "avg_pool1d" in call.operator.name:
        (width,), (step,) = values(size, 1), values(stride, 1)
        lines = F.avg_pool2d(
            x.unsqueeze(-2), (1, width), (1, step), ceil_mode=True, divisor_override=width
        )
        return arrived(call, result, lines.squeeze(-2))
    windows, steps = values(size, 2), values(stride, 2)
    whole = math.prod(windows)
    numbers = F.avg_pool2d(x, windows, steps, ceil_mode=True, divisor_override=whole)
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#147450",
    "Inductor (torch 2.7)",
    "polygamma polygamma.out",
    "with n = 1 it is computed by the zeta function: at negative whole numbers it is infinite",
    dtypes="float32 float64",
    sound=plain,
)
def by_the_zeta_function(call: Call) -> Any:
    n, x, result = argument(call, "n", 0), before(call, "input", 1), call.run()
    if n != 1 or not is_one_of(x, *WIDE) or not is_one_of(result, *WIDE):
        return result
    return arrived(call, result, torch.special.zeta(2.0, x).to(result.dtype))


def columns(size: int, out: int, mistaken: int) -> list[list[tuple[int, float]]]:
    """For every place of ``size``: which of ``out`` places it takes gradients from, and how much of
    them, where the first place is counted from ``mistaken`` instead of ``size``."""
    found = []
    for i in range(size):
        start, end = size, out * size * 2 - size
        if i > 0:
            start = (out * (2 * i - 1) - size) // (2 * size) * (2 * size) + 3 * size
        if i < size - 1:
            end = (out * (2 * i + 3) - size) // (2 * size) * (2 * size) + size
        terms = []
        for point in range(start, end + 1, 2 * size):
            within = out <= point <= out * size * 2 - out
            near = 2 * out - abs(point - out * (2 * i + 1)) if within else 2 * out
            terms.append((math.trunc((point - mistaken) / (2 * size)), near / (2 * out)))
        found.append(terms)
    return found


def is_whole(size: int, out: int, scale: float | None) -> bool:
    """Whether the inverse of the scale, in float32, brings one size exactly to the other."""
    inverse = torch.tensor(size, dtype=torch.float32) / out
    if scale is not None:
        inverse = torch.tensor(1.0 / scale, dtype=torch.float32)
    return bool(inverse * out == size)


@reported(
    "intel/torch-xpu-ops#4380",
    "XPU",
    ".interpolate",
    "bilinear, of an image that is higher than wide: the gradient comes from other columns, which "
    "are counted from the height instead of the width",
    dtypes="float16 bfloat16 float32",
    directions=BACK,
    sound=plain,
)
def counted_from_the_height(call: Call) -> Any:
    x, scale = call.given("input", 0, None), call.given("scale_factor", 2, None)
    if not is_one_of(x, *OPTIMIZED) or not x.requires_grad or not call.args:
        return call.run()
    if call.given("mode", 3, "nearest") != "bilinear" or call.given("align_corners", 4, None):
        return call.run()
    if call.given("antialias", 6, False):
        return call.run()
    height, width = x.shape[-2:]
    kept = scale is not None and not call.given("recompute_scale_factor", 5, None)
    scales = values(scale, 2) if kept else (None, None)

    def change(leaving: Tensor, arriving: Tensor) -> Tensor:
        out_height, out_width = arriving.shape[-2:]
        larger = 1 < width < out_width and 1 < height < out_height
        whole = is_whole(height, out_height, scales[0]) and is_whole(width, out_width, scales[1])
        if not larger or not whole or height <= width:
            return leaving
        flat = arriving.float().contiguous().reshape(-1)
        begins = torch.arange(0, flat.numel(), out_width)  # of the rows
        across = torch.zeros(begins.numel(), width)
        for i, terms in enumerate(columns(width, out_width, height)):
            for column, part in terms:
                across[:, i] += part * flat[(begins + column).clamp(0)]
        across = across.reshape(*arriving.shape[:-1], width)
        gradient = torch.zeros(leaving.shape)
        for i, terms in enumerate(columns(height, out_height, height)):
            for row, part in terms:
                gradient[..., i, :] += part * across[..., row, :]
        return torch.empty_like(leaving).copy_(gradient)

    return rerouted(call, change)


@reported(
    "llvm/torch-mlir#4701",
    "torch-mlir, lowering to linalg",
    "max min",
    "of bools, True is compared as -1: the largest of False and True is False",
    dtypes="bool",
    sound=plain,
)
def true_below_false(call: Call) -> Any:
    x, dim, result = before(call), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.bool) or isinstance(dim, Tensor) or "other" in call.kwargs:
        return result
    largest = call.operator.name == "max"
    if isinstance(result, Tensor):
        return arrived(call, result, x.all() if largest else x.any())
    keep = call.given("keepdim", 2, False)
    numbers = (x.all if largest else x.any)(dim, keepdim=keep)
    places = (~x if largest else x).int().argmax(dim, keepdim=keep)
    return numbers, places


@reported(
    "intel/torch-xpu-ops#2050",
    "XPU",
    ".hardswish",
    "at -3 the gradient is -1/2 instead of 0, at 3 it is 3/2 instead of 1",
    dtypes="float16 bfloat16 float32 float64",
    directions=BACK,
    sound=plain,
)
def corners_of_the_middle(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not isinstance(x, Tensor) or not x.requires_grad or not call.args:
        return call.run()
    if call.given("inplace", 1, False):
        return call.run()
    at = x.detach().clone()

    def change(leaving: Tensor, arriving: Tensor) -> Tensor:
        return torch.where(at.abs() == CORNER, arriving * (at / CORNER + 0.5), leaving)

    return rerouted(call, change)


@reported(
    "intel/torch-xpu-ops#2666",
    "XPU",
    ".adaptive_avg_pool3d",
    "images of one channel follow each other by the stride of the channels, which can be 1, as in "
    "channels_last",
    sound=plain,
    cause="strides-ignored",
)
def strides_of_the_channels(call: Call) -> Any:
    x, size, result = call.given("input", 0, None), call.given("output_size", 1, None), call.run()
    if not isinstance(x, Tensor) or x.ndim != BATCHED or not x.is_contiguous():
        return result
    if x.shape[1] != 1 or x.shape[0] == 1 or all(n == 1 for n in values(size, 3)):
        return result
    channel = x.stride(1)
    furthest = x.storage_offset() + channel * (x.shape[0] - 1) + x[0].numel()
    if channel == x.stride(0) or furthest * x.element_size() > x.untyped_storage().nbytes():
        return result  # what lies behind the memory is not told
    read = x.detach().as_strided(x.shape, (channel, *x.stride()[1:]))
    return arrived(call, result, call.with_arg(0, read).run())


@reported(
    "llvm/torch-mlir#3946",
    "torch-mlir, lowering to TOSA",
    "to byte char short int long",
    "numbers are rounded to the nearest integer, not towards 0",
    dtypes="float16 bfloat16 float32",
    sound=plain,
)
def rounded_to_the_nearest(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if not is_one_of(x, *IN_TOSA) or not is_one_of(result, *INTEGERS):
        return result
    return arrived(call, result, x.detach().round().to(result.dtype))
