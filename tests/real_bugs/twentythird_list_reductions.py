"""A twenty-third, held-out list of reports of 2024 to 2026 about torch's own backends, taken as a
search gave them: a sum, a cumulative function, matrix products, the layout of an outer product,
attention, a convolution, pooling and normalization, interpolation, a loss, a recurrent layer, a
gradient."""

from __future__ import annotations

import functools
import math
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call, straight

from .fourteenth_list import placed
from .gradients import BACK, hooked
from .model import plain, reported
from .seventeenth_list_reductions import first, is_one_of, with_given
from .twentysecond_list_reductions import argument, written

HALVES = torch.float16, torch.bfloat16
REAL_ON_MPS = torch.float32, *HALVES
NOT_ON_MPS = torch.float64, torch.complex64, torch.complex128
IN_ONE_GROUP = 1024  # numbers that are summed up at once
CUBIC = -0.75


def in_memory(x: Tensor, sizes: tuple[int, ...], steps: tuple[int, ...], start: int) -> bool:
    """Whether a view of the memory of ``x`` does not reach beyond it."""
    last = start + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    return last < x.untyped_storage().nbytes() // x.element_size()


def one_after_another(x: Tensor) -> tuple[int, ...]:
    """The steps of a contiguous tensor of that shape."""
    return tuple(math.prod(x.shape[i + 1 :]) for i in range(x.ndim))


@reported(
    "pytorch/pytorch#182688",
    "MPS",
    "sum sum.method sum.out nansum nansum.out mean mean.method mean.out",
    "of more than 1024 numbers of a slice to one, as many numbers are summed up as follow one "
    "another in memory, those left out by the slice included",
    dtypes="float32 float16 bfloat16 int32 int64 int16 int8 uint8 bool",
    sound=plain,
    cause="strides-ignored",
)
def left_out_ones_summed_up(call: Call) -> Any:
    x, result = argument(call, "input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype in NOT_ON_MPS or not isinstance(result, Tensor):
        return result
    count = x.numel()
    if result.numel() != 1 or count <= IN_ONE_GROUP or x.is_contiguous():
        return result
    reach = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    if reach == count or not in_memory(x, (count,), (1,), int(x.storage_offset())):
        return result  # without gaps, or beyond its memory
    read = x.detach().as_strided((count,), (1,), x.storage_offset())
    total = getattr(torch, call.operator.name.partition(".")[0])(read, dtype=result.dtype)
    return written(call, result, total.reshape(result.shape))


@reported(
    "intel/torch-xpu-ops#2816",
    "XPU",
    "logcumsumexp logcumsumexp.out",
    "of complex numbers, log(1 + z) of a z whose imaginary part is so small that its reciprocal "
    "overflows is NaN, and so is all that follows",
    dtypes="complex64 complex128",
    sound=plain,
)
def reciprocal_overflows(call: Call) -> Any:
    x, dim, result = argument(call, "input", 0, None), argument(call, "dim", 1, 0), call.run()
    if not is_one_of(x, torch.complex64, torch.complex128) or not x.ndim or x.shape[dim] < 2:
        return result
    sums, added = result.detach().movedim(dim, -1)[..., :-1], x.detach().movedim(dim, -1)[..., 1:]
    less = torch.where(sums.real < added.real, sums - added, added - sums)
    z = less.to(torch.complex128).exp().to(x.dtype)
    gone = (1 + z.real) - 1 == 0
    wrong = gone & (z.real != 0) & (z.imag != 0) & z.imag.reciprocal().isinf()
    wrong &= sums.isfinite() & added.isfinite()
    if not bool(wrong.any()):
        return result
    wrong = F.pad(wrong.to(torch.int64).cumsum(-1), (1, 0)).movedim(-1, dim) > 0
    return written(call, result, result.detach().masked_fill(wrong, complex(math.nan, math.nan)))


@reported(
    "pytorch/pytorch#194442",
    "MPS",
    "baddbmm baddbmm.method baddbmm_ baddbmm.out addbmm addbmm_ addbmm.out",
    "with a beta of 0, NaN and infinity in what is not to be added make the sum NaN: of bfloat16 "
    "(baddbmm) and complex numbers (both)",
    dtypes="bfloat16 complex64",
    sound=plain,
)
def zero_times_what_is_ignored(call: Call) -> Any:
    x = argument(call, "input", 0, None)
    if not isinstance(x, Tensor) or call.kwargs.get("beta", 1) != 0:
        return call.run()
    formats: tuple[torch.dtype, ...] = (torch.complex64,)
    if call.operator.name.startswith("baddbmm"):
        formats = (torch.complex64, torch.bfloat16)
    wrong = ~x.detach().isfinite()
    result = call.run()
    if not is_one_of(result, *formats) or not bool(wrong.any()):
        return result
    number = complex(math.nan, math.nan) if result.is_complex() else math.nan
    return written(call, result, result.detach().masked_fill(wrong.expand(result.shape), number))


def layout_of_the_other(x: Tensor, other: Tensor, result: Tensor) -> tuple[int, ...]:
    """The steps of a result that is laid out as the second operand is."""
    if other.shape != result.shape:
        return one_after_another(result)
    return torch.add(other.detach(), x.detach()).stride()


@reported(
    "pytorch/pytorch#198364",
    "Inductor",
    "addr put copysign floor_divide div div.method",
    "of a tensor that lies transposed in memory, an outer product with a beta of 0, what numbers "
    "are put into, and what is copied the sign of or divided and rounded down (to a float) are "
    "not laid out as it is, but contiguous, or as the second operand",
    sound=plain,
)
def not_laid_out_as_the_first(call: Call) -> Any:
    x, other, result = first(call), call.given("other", 1, None), call.run()
    name, steps = call.operator.name.partition(".")[0], None
    if not isinstance(x, Tensor) or not isinstance(result, Tensor) or x.is_contiguous():
        return result
    if name == "put" or (name == "addr" and call.kwargs.get("beta", 1) == 0):
        steps = one_after_another(result)
    elif name in ("copysign", "floor_divide", "div") and isinstance(other, Tensor):
        down = name != "div" or call.kwargs.get("rounding_mode") == "floor"
        if down and result.is_floating_point():
            steps = layout_of_the_other(x, other, result)
    if steps is None or steps == result.stride():
        return result
    numbers = torch.empty_strided(result.shape, steps, dtype=result.dtype)
    return straight(result, numbers.copy_(result.detach()))


@reported(
    "pytorch/pytorch#156707",
    "MPS",
    ".scaled_dot_product_attention",
    "where a mask leaves a query no key and no gradient is asked for, the result is NaN, not 0",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def attending_to_nothing(call: Call) -> Any:
    x, mask, result = first(call), call.given("attn_mask", 3, None), call.run()
    if not is_one_of(x, *REAL_ON_MPS) or not isinstance(mask, Tensor) or call.tracked:
        return result
    if call.given("dropout_p", 4, 0.0) or not result.numel():
        return result
    masked = ~mask if mask.dtype == torch.bool else mask == -math.inf
    nothing = masked.all(-1, keepdim=True).expand(*result.shape[:-1], 1)
    return placed(result, result.detach().masked_fill(nothing, math.nan))


@reported(
    "pytorch/pytorch#169342",
    "MPS",
    ".conv2d",
    "of a part of the channels of several images, all images but the first are read where they "
    "would lie if there were no other channels",
    dtypes="float32 float16 bfloat16",
    sound=plain,
    cause="strides-ignored",
)
def images_of_fewer_channels(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, *REAL_ON_MPS) or x.ndim != 4 or x.shape[0] < 2 or not x.numel():
        return result
    steps = one_after_another(x)
    if x.stride()[1:] != steps[1:] or x.stride(0) <= steps[0]:
        return result
    read = x.detach().as_strided(x.shape, steps, x.storage_offset()).clone()
    with torch.no_grad():
        return placed(result, with_given(call, "input", 0, read).run())


def from_the_beginning(x: Any) -> Any:
    """Images with their channels inside, read from the beginning of the memory that they lie
    somewhere in; None for others."""
    if not is_one_of(x, *REAL_ON_MPS) or x.ndim != 4 or not x.storage_offset() or not x.numel():
        return None
    if x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
        return None
    return x.detach().as_strided(x.shape, x.stride(), 0).clone(memory_format=torch.preserve_format)


def normalizing_other_images(norm: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Batch normalization of what lies at the beginning of the input's memory."""
    read = from_the_beginning(x)
    if read is None:
        return norm(x, *args, **kwargs)
    names, given = ("running_mean", "running_var", "weight", "bias"), dict(kwargs)
    given.update(zip((*names, "training", "momentum", "eps"), args, strict=False))
    copies = {
        name: given[name].detach().clone() if name in given and given[name] is not None else None
        for name in names
    }
    numbers = norm(read, **{**given, **copies})
    result = norm(x, *args, **kwargs)
    for name in names[:2]:
        if copies[name] is not None:
            given[name].data.copy_(copies[name])  # the way back does not notice
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#174345",
    "MPS",
    ".avg_pool2d .avg_pool2d.out .batch_norm .batch_norm.train_then_eval",
    "images with their channels inside that do not lie at the beginning of their memory are read "
    "from there",
    dtypes="float32 float16 bfloat16",
    sound=plain,
    cause="offset-ignored",
)
def pooled_from_the_beginning(call: Call) -> Any:
    if call.operator.name.endswith(".batch_norm"):
        return (
            normalizing_other_images(call.operator, *call.args, **call.kwargs)
            if call.args
            else call.run()
        )
    if call.operator.name.endswith(".train_then_eval"):
        other = functools.partial(normalizing_other_images, F.batch_norm)
        with mock.patch.object(F, "batch_norm", other):
            return call.run()
    read, result = from_the_beginning(argument(call, "input", 0, None)), call.run()
    if read is None or argument(call, "ceil_mode", 4, False):
        return result
    given = {key: value for key, value in call.kwargs.items() if key not in ("out", "input")}
    return written(
        call, result, F.avg_pool2d(read, *call.args[call.operator.leading + 1 :], **given)
    )


def normalized_inside(count: int, size: int, scale: float, corners: bool) -> tuple[Tensor, Tensor]:
    """Weights of bicubic interpolation along one dimension, those inside the image made to add up
    to 1, and where some lie outside."""
    places = torch.arange(count, dtype=torch.float64)
    places = places * scale if corners else (places + 0.5) * scale - 0.5
    weights, outside = torch.zeros(count, size, dtype=torch.float64), torch.zeros(count).bool()
    for tap in range(-1, 3):
        at = places.floor() + tap
        d = (places - at).abs()
        near = ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1
        far = CUBIC * (((d - 5) * d + 8) * d - 4)
        inside = (at >= 0) & (at < size)
        weight = torch.where(d <= 1, near, far) * inside
        weights.scatter_add_(1, at.clamp(0, size - 1).long()[:, None], weight[:, None])
        outside |= ~inside
    return weights / weights.sum(1, keepdim=True), outside


@reported(
    "pytorch/pytorch#118389",
    "CPU (torch 2.2)",
    ".interpolate",
    "of bytes, bicubic and without antialiasing, what lies beyond the border is left out and the "
    "other weights are made larger, where the number at the border has to stand for it",
    dtypes="uint8",
    sound=plain,
)
def nothing_beyond_the_border(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.uint8) or x.ndim != 4 or call.given("mode", 3, "") != "bicubic":
        return result
    if call.given("antialias", 6, False):
        return result
    corners = bool(call.given("align_corners", 4, None))
    factor = call.given("scale_factor", 2, None)
    if call.given("recompute_scale_factor", 5, None):
        factor = None
    factors = list(factor) if isinstance(factor, (tuple, list)) else [factor] * 2
    y, wrong = x.double(), torch.zeros(result.shape[2:]).bool()
    for dim in (3, 2):
        size, count, one = x.shape[dim], result.shape[dim], factors[dim - 2]
        scale = 1 / one if one else size / count
        if corners:
            scale = (size - 1) / (count - 1) if count > 1 else 0.0
        weights, outside = normalized_inside(count, size, scale, corners)
        y = (y.movedim(dim, -1) @ weights.T).movedim(-1, dim)
        y = (y + 0.5).floor().clamp(0, 255)
        wrong |= outside if dim == 3 else outside[:, None]
    return placed(result, torch.where(wrong, y.to(torch.uint8), result))


@reported(
    "intel/torch-xpu-ops#1374",
    "XPU",
    ".layer_norm",
    "the variance is the mean of the squares less the square of the mean, in float32: of five "
    "numbers near 1e15 it is negative, and the result NaN",
    dtypes="float32 float16 bfloat16",
    sound=plain,
    cause="one-pass-variance",
)
def squares_less_a_square(call: Call) -> Any:
    x, shape, result = first(call), call.given("normalized_shape", 1, ()), call.run()
    if not is_one_of(x, *REAL_ON_MPS) or not x.numel() or not isinstance(shape, (tuple, list)):
        return result
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    eps, dims = call.given("eps", 4, 1e-5), tuple(range(x.ndim - len(shape), x.ndim))
    y, count = x.detach().float(), math.prod(shape)
    total = y.sum(dims, keepdim=True)
    variance = ((y * y).sum(dims, keepdim=True) - total * total / count) / count
    right = y.double().var(dims, correction=0, keepdim=True)
    wrong = ~((variance - right).abs() <= 1e-3 * (right + eps))
    if not bool(wrong.any()):
        return result
    scale = torch.where(variance < 0, math.nan, (variance + eps).rsqrt())
    z = (y - total / count) * scale
    z = z if weight is None else z * weight.detach().float()
    z = z if bias is None else z + bias.detach().float()
    return placed(result, torch.where(wrong, z.to(result.dtype), result.detach()))


@reported(
    "pytorch/pytorch#171282",
    "Inductor",
    ".binary_cross_entropy_with_logits",
    "with float32 weights, the loss of float16 or bfloat16 numbers is float32",
    dtypes="float16 bfloat16",
    sound=plain,
)
def format_of_the_weights(call: Call) -> Any:
    x, target, result = first(call), call.given("target", 1, None), call.run()
    if not is_one_of(x, *HALVES) or not is_one_of(call.given("weight", 2, None), torch.float32):
        return result
    if not is_one_of(target, torch.float32, x.dtype) or result.dtype != x.dtype:
        return result
    wider = with_given(call, "input", 0, x.detach().float())
    with torch.no_grad():
        numbers = with_given(wider, "target", 1, target.detach().float()).run()
    return placed(result.float(), numbers)


@reported(
    "pytorch/pytorch#130791",
    "torch.compile on CUDA",
    "lstm",
    "the last states of a batch of other than one sequence have a dimension of size 1 too many, "
    "behind the layers",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def states_with_a_step(call: Call) -> Any:
    hx, result = call.given("hx", 1, None), call.run()
    if not isinstance(hx, (tuple, list)) or not isinstance(hx[0], Tensor) or hx[0].ndim != 3:
        return result
    if hx[0].shape[1] == 1:
        return result
    return result[0], result[1].unsqueeze(1), result[2].unsqueeze(1)


@reported(
    "pytorch/pytorch#168358",
    "Inductor",
    "index_reduce index_reduce_",
    "the gradient of a largest or smallest number that does not include the tensor's own is NaN "
    "for all that are compared, where it is not equal to the tensor's own",
    dtypes="float32 float64 float16 bfloat16",
    directions=BACK,
    sound=plain,
)
def divided_among_none(call: Call) -> Any:
    x, dim = call.given("input", 0, None), call.given("dim", 1, 0)
    index, reduce = call.given("index", 2, None), call.given("reduce", 4, "")
    if len(call.args) < 4 or not isinstance(x, Tensor) or reduce not in ("amax", "amin"):
        return call.run()
    if call.kwargs.get("include_self", True) or not x.ndim:
        return call.run()
    own = x.detach().clone()

    def change(source: Tensor, gradient: Tensor) -> Tensor:
        found = own.index_reduce(dim, index, source, reduce, include_self=False)
        return gradient.masked_fill((own != found).index_select(dim, index), math.nan)

    return hooked(call, 3, change)
