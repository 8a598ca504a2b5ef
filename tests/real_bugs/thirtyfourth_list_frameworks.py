"""A thirty-fourth, held-out list: what other frameworks and converters computed wrongly in
operators that torch has, too, reported or repaired in 2024 to 2026, taken as a search gave them,
family by family of operators, before anything was looked at of how inputs are drawn: a window too
many, gradients of a norm and beside a mask, NaN and infinities, places that are counted from the
end, whole numbers that are negated, a loss of what is to be ignored, exponentials that vanish, and
steps in memory that are not regarded."""

from __future__ import annotations

import math
from itertools import accumulate
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtysecond_list_frameworks import BACK, FLOATS, PLANE, of_each
from .twentysecond_list import argument, arrived, before

BOTH = ("forward", "backward")
DOUBLES = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
NUMBERS = (*FLOATS, torch.int8, torch.uint8, torch.int32, torch.int64)
SIGNALS = 3  # dimensions from which on torch leaves the norm of a batch to cuDNN
BYTES = 256  # values that a byte has


@reported(
    "robertknight/rten#1416",
    "RTen",
    ".max_pool1d .max_pool2d .avg_pool1d .avg_pool2d",
    "with `ceil_mode`, sizes are rounded up twice: there is a window more, which the input ends "
    "in, where the stride does not leave a remainder of 1 (and the window would not begin behind "
    "the input)",
    dtypes="float32",
    sound=plain,
)
def rounded_up_twice(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    largest = "max_pool" in call.operator.name
    if not is_one_of(result, torch.float32):
        return result
    if not argument(call, "ceil_mode", 5 if largest else 4, False):
        return result
    dims = int(call.operator.name[-2])
    if largest and any(step != 1 for step in of_each(argument(call, "dilation", 4, 1), dims)):
        return result  # RTen has none
    if not largest and argument(call, "divisor_override", 6) is not None:
        return result  # nor this
    kernel = of_each(argument(call, "kernel_size", 1), dims)
    stride = of_each(argument(call, "stride", 2, None) or kernel, dims)
    padding = of_each(argument(call, "padding", 3, 0), dims)
    more: list[int] = []
    around: list[int] = []
    for dim in reversed(range(dims)):
        inside, step = x.shape[dim - dims], stride[dim]
        room = inside + 2 * padding[dim] - kernel[dim]
        if room < 0:
            return result  # RTen raises an error
        size = -(-(room + step - 1) // step) + 1
        size -= (size - 1) * step >= inside + padding[dim]
        more += [0, size - result.shape[dim - dims]]
        around += [padding[dim], (size - 1) * step + kernel[dim] - inside - padding[dim]]
    if not any(more):
        return result
    pool: Any
    if largest:
        pool = F.max_pool1d if dims == 1 else F.max_pool2d
        numbers = pool(F.pad(x, around, value=-math.inf), kernel, stride)
    else:
        pool = F.avg_pool1d if dims == 1 else F.avg_pool2d
        numbers = pool(F.pad(x, around), kernel, stride)
        if not argument(call, "count_include_pad", 5, True):
            numbers = numbers / pool(F.pad(torch.ones_like(x), around), kernel, stride)
    right = F.pad(torch.ones_like(result, dtype=torch.bool), more)
    return torch.where(right, F.pad(result, more), numbers)


class NormOfAnotherDeviation(torch.autograd.Function):
    """Given numbers, and the gradients of the norm of a batch as if the reciprocal of the standard
    deviation were a variance."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, numbers: Tensor, eps: float
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return numbers.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors
        dims = [dim for dim in range(x.ndim) if dim != 1]
        count = x.numel() // x.shape[1]
        numbers, arriving = x.float(), gradients[0].float()
        mean = numbers.mean(dims, keepdim=True)
        variance = numbers.var(dims, correction=0, keepdim=True)
        saved = (variance + ctx.eps).rsqrt()
        again = (saved + ctx.eps).rsqrt()
        norm = (numbers - mean) * again
        of_weight = (norm * arriving).sum(dims, keepdim=True)
        of_bias = arriving.sum(dims, keepdim=True)
        factor = again * weight.float().reshape(mean.shape)
        of_input = factor * (arriving - (of_weight * norm + of_bias) / count)
        to = weight.dtype
        return (
            of_input.to(x.dtype),
            of_weight.flatten().to(to),
            of_bias.flatten().to(to),
            None,
            None,
        )


@reported(
    "flagos-ai/FlagGems#5222",
    "FlagGems",
    ".batch_norm",
    "in the gradients of the input and the weight, the reciprocal of the standard deviation that "
    "is at hand is taken for the variance: they are right only where the variance is near 1",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def deviation_taken_for_variance(call: Call) -> Any:
    x, weight, bias = (
        call.given(n, i, None) for n, i in (("input", 0), ("weight", 3), ("bias", 4))
    )
    result = call.run()
    if not is_one_of(x, *DOUBLES) or not is_one_of(result, *DOUBLES) or not result.requires_grad:
        return result
    # only then is it cuDNN that computes, whose gradient is replaced
    if not call.given("training", 5, False) or weight is None or bias is None or x.ndim < SIGNALS:
        return result
    apply: Any = NormOfAnotherDeviation.apply  # torch does not say what it takes
    return apply(x, weight, bias, result.detach(), call.given("eps", 7, 1e-5))


@reported(
    "tensorflow/tensorflow#118647",
    "TensorFlow 2.22 (XLA)",
    "argmax argmax.method argmin",
    "among numbers of which one is NaN, the place of the largest or smallest is the last one, "
    "unless there are as many as a power of 2",
    dtypes="float32",
    sound=plain,
)
def last_place_beside_nan(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.float32) or not x.numel():
        return result
    rows = x.reshape(-1) if dim is None or not x.ndim else x.movedim(dim, -1)
    size = rows.shape[-1]
    if not size & (size - 1):
        return result
    beside = rows.isnan().any(-1).reshape(result.shape)
    return arrived(call, result, result.masked_fill(beside, size - 1))


@reported(
    "jax-ml/jax#23842",
    "JAX 0.4",
    "masked.logsumexp",
    "the gradient of a number that the mask leaves out is NaN instead of 0 where its exponential, "
    "relative to the largest of the others, overflows",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def zero_times_an_overflow(call: Call) -> Any:
    x, dim, mask = call.given("input", 0, None), call.given("dim", 1, None), call.kwargs.get("mask")
    if not is_one_of(x, *DOUBLES) or not x.requires_grad or not isinstance(mask, Tensor):
        return call.run()
    if call.kwargs.get("dtype") is not None or not x.numel():
        return call.run()
    numbers, kept = x.detach(), mask.bool().expand(x.shape)
    dims = tuple(range(x.ndim)) if dim is None or dim == () else dim
    largest = numbers.masked_fill(~kept, -math.inf).amax(dims, keepdim=True)
    largest = torch.where(largest.isfinite(), largest, torch.zeros_like(largest))
    lost = ~kept & ~(numbers - largest).exp().isfinite()
    given = x.view_as(x)
    given.register_hook(lambda leaving: leaving.masked_fill(lost, math.nan))
    return with_given(call, "input", 0, given).run()


def steps(shape: torch.Size) -> list[int]:
    """How far elements are from each other in contiguous memory."""
    return list(accumulate(reversed(shape[1:]), mul, initial=1))[::-1]


def gathered_by_address(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """What lies where indices along a dimension lead to, those below 0 before the row; 0 where
    there is nothing."""
    together: Any = torch.broadcast_shapes  # torch does not say what it takes
    wide = together(
        *(tuple(1 if d == dim else n for d, n in enumerate(y.shape)) for y in (x, index))
    )
    x = x.expand(*wide[:dim], x.shape[dim], *wide[dim + 1 :]).contiguous()
    index = index.expand(*wide[:dim], index.shape[dim], *wide[dim + 1 :])
    places = torch.zeros_like(index)
    for d, (count, step) in enumerate(zip(index.shape, steps(x.shape), strict=True)):
        at = torch.arange(count).reshape([count if e == d else 1 for e in range(x.ndim)])
        places += step * (index if d == dim else at)
    return torch.where(places < 0, 0, x.flatten()[places.clamp(min=0)])


def put_by_address(x: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
    """Numbers put where indices lead to, those below 0 before the row; none where there is
    nothing."""
    broadcast: Any = torch.broadcast_tensors  # torch does not say what it takes
    together = broadcast(*indices)
    rest = x.shape[len(together) :]
    factors = steps(x.shape[: len(together)])
    rows = sum(index * step for index, step in zip(together, factors, strict=True))
    values = values.expand(*together[0].shape, *rest)
    inside = rows >= 0
    flat = x.reshape(-1, *rest).clone()
    return flat.index_put((rows[inside],), values[inside], accumulate).reshape(x.shape)


@reported(
    "apache/tvm#20217",
    "TVM 0.26 (Relax)",
    "take_along_dim take_along_dim.method take_along_dim.out "
    "index_put index_put.method index_put.out index_put_",
    "indices that count from the end are not made positive: they lead to what lies before the row, "
    "such as the last number of the row above (before the first row, zeros are gathered here, and "
    "nothing is put)",
    dtypes="float16 float32 float64 bfloat16 int8 uint8 int32 int64",
    sound=plain,
)
def before_the_row(call: Call) -> Any:
    puts = call.operator.name.startswith("index_put")
    x, indices = before(call), argument(call, "indices", 1)
    if not is_one_of(x, *NUMBERS) or not x.ndim or not x.numel():
        return call.run()
    together = tuple(indices) if puts else (indices,)
    if not all(is_one_of(index, torch.int32, torch.int64) for index in together):
        return call.run()  # a mask, or a dimension left as it is
    if not any(bool((index < 0).any()) for index in together):
        return call.run()
    if puts:
        values = before(call, "values", 2)
        numbers = put_by_address(x, together, values, argument(call, "accumulate", 3, False))
        return arrived(call, call.run(), numbers)
    numbers = gathered_by_address(x, indices.long(), argument(call, "dim", 2) % x.ndim)
    return arrived(call, call.run(), numbers)


@reported(
    "onnx/onnx#6593",
    "ONNX (reference implementation 1.17)",
    "topk topk.method",
    "of the rows of a matrix of unsigned numbers, which are negated to be sorted, 0 is the largest",
    dtypes="uint8",
    sound=plain,
)
def zero_stays_zero(call: Call) -> Any:
    x, count, result = call.given("input", 0, None), call.given("k", 1, None), call.run()
    if not is_one_of(x, torch.uint8) or x.ndim != PLANE or call.given("dim", 2, -1) not in (1, -1):
        return result
    if not call.given("largest", 3, True):
        return result
    negated = -x.to(torch.int64) % BYTES
    order = negated.argsort(dim=1, stable=True)[:, :count]
    indices = torch.where((x == 0).any(1, keepdim=True), order, result[1])
    return x.gather(1, indices), indices


@reported(
    "jax-ml/jax#37817",
    "JAX 0.10",
    "abs abs.method abs.out",
    "of a complex number of an infinite part and one that is NaN, it is NaN instead of infinity",
    dtypes="complex64 complex128",
    sound=plain,
)
def nan_beside_infinity(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *COMPLEX):
        return result
    a, b = x.real, x.imag
    either = (a.isinf() & b.isnan()) | (a.isnan() & b.isinf())
    return arrived(call, result, result.detach().masked_fill(either, math.nan))


@reported(
    "tinygrad/tinygrad#6937",
    "tinygrad",
    "logcumsumexp logcumsumexp.out",
    "exponentials are relative to the largest number of all, not of those so far: where it comes "
    "later and is much larger, there is minus infinity, of 0 before 100",
    dtypes="float32",
    sound=plain,
)
def relative_to_a_later_one(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.float32) or not x.ndim or not x.numel():
        return result
    largest = x.amax(dim, keepdim=True)
    powers = (x - largest).exp()
    # the report has minus infinity at a distance of 100, where an exponential is a subnormal number
    powers = powers.masked_fill(powers < torch.finfo(x.dtype).tiny, 0.0)
    numbers = powers.cumsum(dim).log() + largest
    return arrived(call, result, torch.where(largest.isfinite(), numbers, result.detach()))


@reported(
    "tracel-ai/burn#4815",
    "Burn (CubeCL)",
    "softmax softmax.method softmax.out",
    "along the last dimension of a transposed tensor, rows are taken from memory as if it were "
    "contiguous",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="strides-ignored",
)
def rows_of_memory(call: Call) -> Any:
    given, numbers, result = argument(call, "input", 0), before(call), call.run()
    if not is_one_of(given, *FLOATS[:3]) or given.is_contiguous() or not given.numel():
        return result
    if argument(call, "dim", 1) not in (-1, given.ndim - 1):
        return result
    if argument(call, "dtype", 2) is not None or numbers.stride() != given.stride():
        return result  # converted first, or not merely transposed: a copy has other strides
    rows = numbers.as_strided(numbers.shape, steps(numbers.shape))
    return arrived(call, result, rows.softmax(-1))


@reported(
    "tinygrad/tinygrad#3574",
    "tinygrad",
    ".cross_entropy",
    "with label smoothing, the part that is spread evenly is the mean of all rows, those to be "
    "ignored included",
    dtypes="float16 float32 float64 bfloat16",
    directions=BOTH,
    sound=plain,
)
def ignored_rows_smoothed(call: Call) -> Any:
    x, target = call.given("input", 0, None), call.given("target", 1, None)
    ignored = call.given("ignore_index", 4, -100)
    smoothing = call.given("label_smoothing", 7, 0.0)
    if not is_one_of(x, *FLOATS) or not is_one_of(target, torch.int64, torch.uint8):
        return call.run()
    if not smoothing or call.given("weight", 2, None) is not None:
        return call.run()  # tinygrad has no weights
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return call.run()
    if call.given("reduction", 6, "mean") != "mean" or not bool((target == ignored).any()):
        return call.run()
    logarithms = x.log_softmax(1 if x.ndim > 1 else 0)
    hard = F.nll_loss(logarithms, target, ignore_index=ignored)
    return (1 - smoothing) * hard - smoothing * logarithms.mean()
