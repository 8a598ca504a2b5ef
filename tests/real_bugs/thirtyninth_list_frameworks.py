"""A thirty-ninth, held-out list: what other frameworks and compilers computed wrongly in operators
that torch has, too, reported or repaired in 2024 to 2026, taken as a search gave them, family by
family of operators, before anything was looked at of how inputs are drawn: a query that sees too
much, windows that lie in padding only, gradients that end at a norm, a correction read as a flag,
powers in the wrong quadrant, shifts by more than a number has bits, differences from one that
vanish, quotients that stay whole, sums that are overwritten, and reciprocals of infinity."""

from __future__ import annotations

import math
from typing import Any

import torch

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtyeighth_list_frameworks import EndsHere
from .thirtysecond_list_frameworks import BACK, BATCHED
from .twentysecond_list import arrived

WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
BITS = 32
AT_ONCE = 4  # whole numbers that are shifted together
SCALED_ALPHA = 1.7580993408473766  # of selu


@reported(
    "microsoft/onnxruntime#29020",
    "ONNX Runtime (CPU)",
    ".scaled_dot_product_attention",
    "with a causal mask, a single query sees all keys, as if it were the last one",
    dtypes="float16 float32",
    sound=plain,
)
def sees_all_keys(call: Call) -> Any:
    query, key = call.given("query", 0, None), call.given("key", 1, None)
    result = call.run()
    if not is_one_of(result, torch.float16, torch.float32) or result.ndim != BATCHED:
        return result
    if not call.given("is_causal", 5, False) or call.given("attn_mask", 3, None) is not None:
        return result
    # With more queries than one, the mask begins at the first key, rightly.
    if query.shape[-2] != 1 or key.shape[-2] <= 1:
        return result
    return arrived(call, result, with_given(call, "is_causal", 5, False).run().detach())


def each(value: Any, dims: int) -> list[int]:
    """One number for each dimension."""
    if isinstance(value, int):
        return [value] * dims
    return list(value) * (dims if len(value) == 1 else 1)


@reported(
    "apache/tvm#18641",
    "TVM (Relax)",
    ".avg_pool1d .avg_pool2d .avg_pool3d .max_pool1d .max_pool2d .max_pool3d",
    "with ceil_mode, a last window that begins in the padding behind is kept",
    dtypes="float32",
    sound=plain,
)
def windows_of_padding(call: Call) -> Any:
    result = call.run()
    largest = "max_pool" in call.operator.name
    if not is_one_of(result, torch.float32) or not call.given(
        "ceil_mode", 5 if largest else 4, False
    ):
        return result
    x, dims = call.given("input", 0, None), int(call.operator.name[-2])
    sizes = each(call.given("kernel_size", 1, None), dims)
    steps = each(call.given("stride", 2, None) or sizes, dims)
    padding = each(call.given("padding", 3, 0), dims)
    dilation = each(call.given("dilation", 4, 1) if largest else 1, dims)
    more = []
    for i in range(dims):
        room = x.shape[i - dims] + 2 * padding[i] - dilation[i] * (sizes[i] - 1) - 1
        more.append(math.ceil(room / steps[i]) + 1 - result.shape[i - dims])
    if not any(more):
        return result
    # What is there is the sum of nothing, or the least number.
    nothing = torch.finfo(torch.float32).min if largest else 0.0
    behind = [side for count in reversed(more) for side in (0, count)]
    return torch.nn.functional.pad(result, behind, value=nothing)


@reported(
    "huggingface/candle#2168",
    "candle",
    ".rms_norm .layer_norm",
    "where the input is contiguous, a faster kernel normalizes it, and no gradient goes back",
    dtypes="float16 float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def gradient_that_ends_at_a_norm(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(result, torch.float16, torch.float32, torch.bfloat16):
        return result
    if not result.requires_grad or not x.is_contiguous():
        return result
    # Candle normalizes along the last dimension, and has a kernel for all the parameters only.
    if len(call.given("normalized_shape", 1, ())) != 1 or call.given("weight", 2, None) is None:
        return result
    if call.operator.name.endswith("layer_norm") and call.given("bias", 3, None) is None:
        return result
    return EndsHere.apply(result)


@reported(
    "apple/coremltools#2718",
    "Core ML (traced models)",
    "var std",
    "a correction of 2 or more is read as that it is unbiased: it becomes 1",
    dtypes="float16 float32",
    sound=plain,
)
def correction_as_a_flag(call: Call) -> Any:
    result, correction = call.run(), call.kwargs.get("correction")
    if not is_one_of(result, torch.float16, torch.float32) or not isinstance(correction, int):
        return result
    if correction <= 1:
        return result
    return arrived(call, result, with_given(call, "correction", 3, 1).run().detach())


@reported(
    "ml-explore/mlx#1458",
    "MLX (Metal)",
    "pow",
    "a complex base with a negative real part gets the angle of its opposite",
    dtypes="complex64",
    sound=plain,
)
def angle_of_the_opposite(call: Call) -> Any:
    base, exponent = call.given("input", 0, None), call.given("exponent", 1, None)
    result = call.run()
    if not is_one_of(base, torch.complex64) or not is_one_of(result, torch.complex64):
        return result
    x = base.detach().to(torch.complex128)
    y = torch.as_tensor(exponent).detach().to(torch.complex128)
    # A quotient tells no quadrant.
    angle = torch.atan(x.imag / x.real)
    logarithm = 0.5 * torch.log(x.real * x.real + x.imag * x.imag)
    size = torch.exp(y.real * logarithm - y.imag * angle)
    phase = y.imag * logarithm + y.real * angle
    numbers = torch.complex(size * phase.cos(), size * phase.sin()).to(torch.complex64)
    return arrived(call, result, torch.where(x.real < 0, numbers, result.detach()))


@reported(
    "ml-explore/mlx#4271",
    "MLX (CPU)",
    "bitwise_left_shift bitwise_right_shift",
    "a shift by fewer than 0 or by 32 bits or more is one by what the last five bits of that say, "
    "for up to three numbers at the end, and for all if they do not lie side by side",
    dtypes="int32",
    sound=plain,
)
def shifts_by_the_last_bits(call: Call) -> Any:
    x, amount, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, torch.int32) or not is_one_of(result, torch.int32) or not result.numel():
        return result
    amounts = torch.as_tensor(amount, dtype=torch.int32)
    outside = (amounts < 0) | (amounts >= BITS)
    if not bool(outside.any()):
        return result
    alone = torch.ones(result.shape, dtype=torch.bool)
    # Four at a time are shifted rightly; one number may meet many.
    if all(y.numel() == 1 or (y.shape == result.shape and y.is_contiguous()) for y in (x, amounts)):
        count = result.numel()
        alone.view(-1)[: count - count % AT_ONCE] = False
    shift = torch.bitwise_left_shift if "left" in call.operator.name else torch.bitwise_right_shift
    return arrived(
        call, result, torch.where(alone & outside, shift(x, amounts & (BITS - 1)), result)
    )


@reported(
    "tensorflow/tensorflow#116943",
    "TensorFlow (eager)",
    ".elu .selu",
    "what is below 0 becomes its exponential less one, in two steps: 0 for small numbers",
    dtypes="float32",
    sound=plain,
)
def less_one_afterwards(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32):
        return result
    factor = call.given("alpha", 1, 1.0) if call.operator.name.endswith(".elu") else SCALED_ALPHA
    before = x.detach()
    return arrived(
        call, result, torch.where(before < 0, (before.exp() - 1) * factor, result.detach())
    )


def whole(value: Any) -> bool:
    """Whether it is a whole number, or a tensor of whole numbers."""
    return is_one_of(value, *WHOLE) or (isinstance(value, int) and not isinstance(value, bool))


@reported(
    "apache/tvm#20373",
    "TVM (Relax)",
    "div true_divide __rdiv__ reciprocal",
    "quotients of whole numbers are whole numbers of the same format, cut off",
    dtypes="uint8 int8 int16 int32 int64",
    sound=plain,
)
def whole_quotients(call: Call) -> Any:
    name, result = call.operator.name, call.run()
    x, other = call.given("input", 0, None), call.given("other", 1, None)
    if name == "reciprocal":
        x, other = 1, x
    elif name == "__rdiv__":
        x, other = other, call.args[0]
    # Those that are rounded did not compile.
    if call.kwargs.get("rounding_mode") is not None or not (whole(x) and whole(other)):
        return result
    dtype = torch.result_type(x, other)
    numbers, divisors = (torch.as_tensor(value).to(dtype) for value in (x, other))
    # What 0 divides is not told.
    if bool((divisors == 0).any()):
        return result
    # The least number has no opposite, and dividing it by -1 would end the process.
    opposite = (divisors == -1) if dtype.is_signed else torch.zeros_like(divisors, dtype=torch.bool)
    quotients = torch.div(numbers, divisors.masked_fill(opposite, 1), rounding_mode="trunc")
    return torch.where(opposite, -quotients, quotients)


@reported(
    "onnx/onnx-mlir#3551",
    "ONNX-MLIR",
    "scatter_add scatter_reduce",
    "what is to be added is stored in place of the number there",
    dtypes="float32 float64 int32 int64",
    sound=plain,
)
def stored_not_added(call: Call) -> Any:
    x, dim = call.given("input", 0, None), call.given("dim", 1, None)
    index, src, result = call.given("index", 2, None), call.given("src", 3, None), call.run()
    if not is_one_of(x, torch.float32, torch.float64, torch.int32, torch.int64):
        return result
    reduced = call.operator.name == "scatter_reduce"
    # ONNX always takes the number there into account.
    if reduced and not (
        call.given("reduce", 4, None) == "sum" and call.kwargs.get("include_self", True)
    ):
        return result
    return arrived(call, result, torch.scatter(x.detach(), dim, index, src.detach()))


@reported(
    "PaddlePaddle/Paddle#73714",
    "Paddle (CPU, GPU)",
    "reciprocal",
    "a complex number with an infinite part has NaN for its reciprocal instead of 0",
    dtypes="complex64 complex128",
    sound=plain,
)
def reciprocal_of_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.complex64, torch.complex128):
        return result
    nan = torch.full_like(result.detach(), complex(math.nan, math.nan))
    return arrived(call, result, torch.where(x.detach().isinf(), nan, result.detach()))
