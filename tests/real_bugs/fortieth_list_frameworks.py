"""A fortieth, held-out list: what other frameworks and libraries computed wrongly in operators that
torch has, too, reported or repaired in 2023 to 2026, taken as a search gave them, family by family
of operators, before anything was looked at of how inputs are drawn: gradients divided by zero or
never stopped, signs of a quadrant and of nothing, a place that is not there, classes counted along
the wrong dimension, NaN in front or instead of nothing, a sign that is shifted in as zeros, and a
logarithm that drops to zero."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtysecond_list_frameworks import BACK, FLOATS
from .twentysecond_list import arrived, before

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
TOO_LARGE = 11  # what the exponential of is no longer taken rightly of


@reported(
    "tracel-ai/burn#3864",
    "burn (autodiff)",
    "cumprod",
    "the gradient is divided by the input: where that is 0, it is NaN",
    dtypes="float16 bfloat16 float32 float64",
    directions=BACK,
    sound=plain,
)
def quotient_by_a_factor(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, *FLOATS) or not x.requires_grad:
        return call.run()
    # What is divided is a sum of products that all have the 0 for a factor. The report shows NaN
    # behind the 0 as well, which its formula does not give: there 0 is divided by other numbers.
    zeros = x.detach() == 0
    given = x.view_as(x)
    given.register_hook(lambda leaving: leaving.masked_fill(zeros, math.nan))
    return with_given(call, "input", 0, given).run()


@reported(
    "apple/swift-numerics#347",
    "Swift Numerics",
    "cosh sinh cos sin",
    "where the real part is so far below 0 (of cos and sin, the imaginary part so far above) that "
    "only one of two exponentials counts, one part of the result has the wrong sign",
    dtypes="complex64 complex128",
    sound=plain,
)
def quadrant_of_the_opposite(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex64, torch.complex128):
        return result
    name, numbers = call.operator.name, result.detach().clone()
    # The trigonometric ones are the hyperbolic ones of i times the number.
    along = x.real if name.endswith("h") else -x.imag
    # From here on the other exponential is less than a rounding.
    wrong = along <= math.log(torch.finfo(x.dtype).eps)
    wrong &= x.real.isfinite() & x.imag.isfinite()
    part = numbers.real if name == "sin" else numbers.imag
    part.copy_(torch.where(wrong, -part, part))
    return arrived(call, result, numbers)


@reported(
    "cupy/cupy#7424",
    "CuPy (CUB)",
    "argmax argmin",
    "of numbers that are all the worst infinity, the place is 1, that of what the search begins "
    "with: even of a single one",
    dtypes="float16 float32 float64",
    sound=plain,
)
def place_of_the_beginning(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float16, torch.float32, torch.float64) or not x.numel():
        return result
    # Along one dimension, or of what does not lie side by side, CuPy takes its own kernel.
    if call.given("dim", 1, None) is not None or not x.is_contiguous():
        return result
    worst = -math.inf if call.operator.name == "argmax" else math.inf
    # The least finite number, which the search begins with, is better than that.
    return torch.ones_like(result) if bool((x.detach() == worst).all()) else result


@reported(
    "tensorflow/tensorflow#127249",
    "TensorFlow (Keras metrics)",
    ".cross_entropy",
    "with smoothed labels, what is spread over the classes is divided by the size of the last "
    "dimension, even where the classes lie along another one",
    dtypes="float32 float64",
    sound=plain,
)
def classes_along_the_last(call: Call) -> Any:
    target, smoothing = call.given("target", 1, None), call.given("label_smoothing", 7, 0.0)
    # TensorFlow's takes probabilities; of indices, there is another one, which does not smooth.
    if not is_one_of(target, torch.float32, torch.float64) or not smoothing or not target.numel():
        return call.run()
    if target.ndim <= 2 or target.shape[-1] == target.shape[1]:
        return call.run()
    smoothed = target * (1 - smoothing) + smoothing / target.shape[-1]
    with_labels = with_given(call, "target", 1, smoothed)
    return with_given(with_labels, "label_smoothing", 7, 0.0).run()


@reported(
    "jax-ml/jax#40170",
    "JAX",
    "floor_divide",
    "a quotient of 0 has the sign of the divisor, instead of that of the quotient",
    dtypes="float16 bfloat16 float32 float64",
    sound=plain,
)
def zero_with_the_sign_of_the_divisor(call: Call) -> Any:
    other, result = call.given("other", 1, None), call.run()
    if not is_one_of(result, *FLOATS):
        return result
    # The remainder is the dividend itself, and their difference is 0 without a sign.
    zeros = torch.zeros_like(result.detach())
    divisor = torch.as_tensor(other).detach()
    numbers = torch.where(divisor < 0, -zeros, zeros)
    return arrived(call, result, torch.where(result.detach() == 0, numbers, result.detach()))


def moved(x: Tensor, dim: int, places: Tensor) -> Tensor:
    """What is at other places, laid out in memory as before."""
    return torch.empty_like(x).copy_(x.gather(dim, places))


@reported(
    "tensorflow/tensorflow#115735",
    "TensorFlow (GPU)",
    "sort msort",
    "in ascending order, NaN comes first",
    dtypes="float32",
    cause="nan-sorted-first",
    sound=plain,
)
def nan_in_front(call: Call) -> Any:
    result, alone = call.run(), call.operator.name == "msort"
    values = result if alone else result[0]
    if not is_one_of(values, torch.float32) or not values.ndim or not values.numel():
        return result
    # In descending order it comes first in torch, too.
    if not alone and call.given("descending", 2, False):
        return result
    dim = 0 if alone else call.given("dim", 1, -1)
    size = values.shape[dim]
    shape = [size if i == dim % values.ndim else 1 for i in range(values.ndim)]
    count = values.detach().isnan().sum(dim, keepdim=True)
    if not bool(count.any()):
        return result
    places = (torch.arange(size).view(shape) - count) % size
    if alone:
        return moved(values, dim, places)
    return type(result)((moved(values, dim, places), moved(result[1], dim, places)))


@reported(
    "tracel-ai/burn#3735",
    "burn (Vulkan)",
    "bitwise_right_shift",
    "of a negative number, zeros are shifted in instead of its sign: 2147483647 of -1 and 1",
    dtypes="int8 int16 int32 int64",
    sound=plain,
)
def zeros_shifted_in(call: Call) -> Any:
    x, amount, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    # Where the amount has another format, torch shifts in the wider of both.
    if not is_one_of(x, *SIGNED) or not is_one_of(result, x.dtype):
        return result
    kind = torch.iinfo(x.dtype)
    amounts = torch.as_tensor(amount).to(x.dtype)
    # What shifting by other amounts gives is not told.
    inside = (amounts > 0) & (amounts < kind.bits)
    less = torch.where(inside, amounts - 1, 0)
    kept = torch.full_like(result, kind.max) >> less
    return arrived(call, result, torch.where(inside & (x < 0), result & kept, result))


@reported(
    "openvinotoolkit/openvino#35959",
    "OpenVINO (CPU)",
    ".scaled_dot_product_attention",
    "with a boolean mask, a query that may see no key gets NaN instead of 0",
    dtypes="float16 float32",
    sound=plain,
)
def nothing_seen(call: Call) -> Any:
    mask, result = call.given("attn_mask", 3, None), call.run()
    if not is_one_of(result, torch.float16, torch.float32) or not is_one_of(mask, torch.bool):
        return result
    nothing = ~mask.any(-1, keepdim=True)
    return arrived(call, result, result.detach().masked_fill(nothing, math.nan))


@reported(
    "google/torchax#11",
    "torchax",
    ".embedding",
    "the row for padding gets a gradient, too",
    dtypes="float16 bfloat16 float32",
    directions=BACK,
    cause="argument-ignored",
    sound=plain,
)
def gradient_of_padding(call: Call) -> Any:
    weight = call.given("weight", 1, None)
    if not is_one_of(weight, torch.float16, torch.bfloat16, torch.float32):
        return call.run()
    # It counts for nothing but the gradient.
    return with_given(call, "padding_idx", 2, None).run()


@reported(
    "sbryngelson/ANEForge#113",
    "ANEForge (Apple Neural Engine)",
    ".softplus",
    "of 11 and more it is 0, because the exponential overflows before its logarithm is taken",
    dtypes="float16",
    sound=plain,
)
def logarithm_of_an_overflow(call: Call) -> Any:
    x, result = before(call), call.run()
    # It has neither a beta nor a threshold.
    if not is_one_of(x, torch.float16) or call.given("beta", 1, 1) != 1:
        return result
    return arrived(call, result, result.detach().masked_fill(x >= TOO_LARGE, 0))
