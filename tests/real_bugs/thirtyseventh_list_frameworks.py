"""A thirty-seventh, held-out list: what other frameworks and kernels computed wrongly in operators
that torch has, too, reported or repaired in 2023 to 2026, taken as a search gave them, family by
family of operators, before anything was looked at of how inputs are drawn: windows behind an image,
quotients of negative numbers, the sign of a selected zero, where infinity is found, what is not a
number in sums and running maxima, a gradient that is squared, pixels beside the nearest ones,
strides that are not regarded, and a variance of more numbers than there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .thirtysecond_list_frameworks import BACK, BATCHED, FLOATS, PLANE, of_each
from .twentyfirst_list import in_memory
from .twentysecond_list import arrived

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
COPIED = (torch.float16, torch.float32, torch.float64, torch.uint8, *SIGNED, torch.bool)
ROWS = 16  # up to as many, rows are scanned by another kernel, which is right
WHOLE = 4096  # rows of fewer numbers are scanned at once
BLOCK = 1024


@reported(
    "onnx/onnx#4958",
    "ONNX Runtime 1.14",
    ".max_pool2d .avg_pool2d",
    "with `ceil_mode`, a last window that begins behind the image and its first padding is not "
    "left out: it gives the least number of float32, or NaN as a mean without padding",
    dtypes="float32",
    sound=plain,
)
def windows_of_nothing(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    # ONNX knows batches only, and has no divisor to be given.
    if not is_one_of(x, torch.float32) or x.ndim != BATCHED or not isinstance(result, Tensor):
        return result
    kernel = of_each(call.given("kernel_size", 1, 1), PLANE)
    stride = of_each(call.given("stride", 2, None) or kernel, PLANE)
    padding = of_each(call.given("padding", 3, 0), PLANE)
    if call.operator.name.endswith("max_pool2d"):
        dilation = of_each(call.given("dilation", 4, 1), PLANE)
        ceil, nothing = call.given("ceil_mode", 5, False), torch.finfo(torch.float32).min
    else:
        dilation, nothing = [1, 1], torch.nan
        ceil = call.given("ceil_mode", 4, False)
        if call.given("count_include_pad", 5, True):
            return result
        if call.given("divisor_override", 6, None) is not None:
            return result
    if not ceil:
        return result
    more = []
    for dim in reversed(range(PLANE)):
        reach = dilation[dim] * (kernel[dim] - 1) + 1
        size = x.shape[dim - PLANE] + 2 * padding[dim] - reach
        more += [0, -(-size // stride[dim]) + 1 - result.shape[dim - PLANE]]
    return F.pad(result, more, value=nothing) if any(more) else result


@reported(
    "modular/modular#1464",
    "Mojo 0.6",
    "floor_divide",
    "of whole numbers, the quotient is 0 if one of the two is negative",
    dtypes="int8 int16 int32 int64",
    sound=plain,
)
def none_if_negative(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, *SIGNED) or not is_one_of(result, x.dtype):
        return result
    # In Mojo, both have one format.
    if isinstance(other, Tensor) and other.dtype != x.dtype:
        return result
    return arrived(call, result, torch.where((x < 0) | (other < 0), 0, result))


def is_one_per_run(shape: torch.Size, whole: torch.Size) -> bool:
    """Whether what has this shape is a single number in each run of the last dimension of more than
    one that it is broadcast to."""
    for size, all_of_them in zip(reversed(shape), reversed(whole), strict=False):
        if all_of_them != 1:
            return size == 1
    # It has fewer dimensions than the result, or both are single numbers.
    return whole.numel() != 1


@reported(
    "microsoft/onnxruntime#32191",
    "ONNX Runtime (CPU)",
    "where",
    "minus zero becomes zero if it is selected from the first tensor, or from the second one where "
    "that is one number for many",
    dtypes="float32 float64",
    sound=plain,
)
def sign_of_a_selected_zero(call: Call) -> Any:
    condition, result = call.given("condition", 0, None), call.run()
    if not is_one_of(result, torch.float32, torch.float64) or not result.numel():
        return result
    x, other = call.given("input", 1, None), call.given("other", 2, None)
    # In ONNX, both have one format.
    if any(isinstance(given, Tensor) and given.dtype != result.dtype for given in (x, other)):
        return result
    # A selection is zero where nothing is selected, and such a zero is taken for nothing.
    second = torch.broadcast_shapes(condition.shape, getattr(other, "shape", ()))
    lost = condition.bool()
    if is_one_per_run(second, result.shape):
        lost = torch.ones_like(lost)
    return arrived(call, result, torch.where(lost & (result == 0), 0.0, result))


@reported(
    "NVIDIA/cub#642",
    "CUB (CuPy on CUDA)",
    "argmin argmax",
    "the place of the least number of all is 1 if all are infinite, and so is that of the largest "
    "if all are minus infinity",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def beyond_the_largest_number(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    # CUB reduces everything that it is given.
    if not is_one_of(x, *FLOATS) or call.given("dim", 1, None) is not None:
        return result
    # It begins with the largest finite number, or the least one, in place 1.
    worst = torch.inf if call.operator.name == "argmin" else -torch.inf
    return torch.ones_like(result) if bool((x == worst).all()) else result


@reported(
    "sonots/cumo#234",
    "Cumo",
    "nansum",
    "of the sums along a later dimension, only the first is written, and it is that of the first "
    "numbers along the first dimension; the others are 0",
    dtypes="float32 float64",
    sound=plain,
)
def one_sum_of_the_first(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.float32, torch.float64) or x.ndim < PLANE or not x.numel():
        return result
    if call.kwargs.get("dtype") is not None:
        return result  # Cumo has none
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    # The loop over the result is never set up: what runs once has the size and the step of the
    # first dimension. What comes out along that one, or along several, is not told.
    if len(dims) != 1 or dims[0] % x.ndim == 0:
        return result
    numbers = torch.zeros_like(result)
    numbers[(0,) * numbers.ndim] = x.detach()[(slice(None), *(0,) * (x.ndim - 1))].nansum()
    return arrived(call, result, numbers)


@reported(
    "flagos-ai/FlagGems#790",
    "FlagGems",
    "cummax",
    "in more than 16 rows, NaN gives way to the largest number of the blocks of 1024 before, in "
    "rows of fewer than 4096 numbers to minus infinity in place 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def running_maximum_of_blocks(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.float16, torch.float32, torch.bfloat16):
        return result
    if not x.ndim or not x.numel() or x.numel() // x.shape[dim] <= ROWS:
        return result
    values, places = result
    length = x.shape[dim]
    block = BLOCK if length >= WHOLE else length
    numbers, found = values.detach().clone(), places.clone()
    most = torch.full_like(values.detach().narrow(dim, 0, 1), -torch.inf)
    place = torch.zeros_like(most, dtype=torch.int64)
    for begin in range(0, length, block):
        size = min(block, length - begin)
        own, where = x.detach().narrow(dim, begin, size).cummax(dim)
        # Inside of a block NaN stays, but it loses each comparison with what came before.
        greater = own >= most
        own, where = torch.where(greater, own, most), torch.where(greater, where + begin, place)
        most, place = own.narrow(dim, size - 1, 1), where.narrow(dim, size - 1, 1)
        numbers.narrow(dim, begin, size).copy_(own)
        found.narrow(dim, begin, size).copy_(where)
    # Before the first NaN of a row, all is right.
    lost = values.detach().isnan()
    return (
        arrived(call, values, torch.where(lost, numbers, values)),
        torch.where(lost, found, places),
    )


class Squared(torch.autograd.Function):
    """A result whose gradient is multiplied by itself on its way back."""

    @staticmethod
    def forward(ctx: Any, out: Tensor) -> Tensor:
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0] * gradients[0]


@reported(
    "elixir-nx/nx#1779",
    "Nx",
    "clamp",
    "between two bounds, the gradient is the square of what arrives",
    dtypes="float16 float32 float64 bfloat16",
    directions=BACK,
    sound=plain,
)
def multiplied_by_itself(call: Call) -> Any:
    x, low, high = (call.given(name, i, None) for i, name in enumerate(("input", "min", "max")))
    result = call.run()
    if not is_one_of(result, *FLOATS) or not result.requires_grad or not is_one_of(x, *FLOATS):
        return result
    # Nx has both bounds always, and each is one number.
    if low is None or high is None:
        return result
    if any(isinstance(bound, Tensor) and bound.ndim for bound in (low, high)):
        return result
    return Squared.apply(result)


def nearest_by_reciprocal(size: int, outputs: int) -> tuple[Tensor, Tensor]:
    """The nearest pixels, as indices along one dimension: by whole numbers, and by a quotient of
    float32 that is a product with the reciprocal. The latter tells right from wrong sizes as the
    report does (except for one, 255)."""
    places = torch.arange(outputs)
    ratio = torch.tensor(float(size)) * torch.tensor(float(outputs)).reciprocal()
    return places * size // outputs, (places.float() * ratio).long().clamp(max=size - 1)


@reported(
    "tracel-ai/burn#4686",
    "Burn (WGPU)",
    ".interpolate",
    "of the nearest pixels, the one before is taken where the quotient of the sizes is a little "
    "too small in float32",
    dtypes="float32",
    sound=plain,
)
def pixel_before_the_nearest(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != BATCHED or not result.numel():
        return result
    if call.given("mode", 3, "nearest") != "nearest":
        return result
    # Burn knows the sizes only: a factor that does not fit them gives other pixels in torch.
    factor = call.given("scale_factor", 2, None)
    if factor is not None:
        factors = [factor] * PLANE if isinstance(factor, (int, float)) else list(factor)
        pairs = zip(factors, x.shape[-PLANE:], result.shape[-PLANE:], strict=True)
        if any(each * size != outputs for each, size, outputs in pairs):
            return result
    (rows, other_rows), (columns, other_columns) = (
        nearest_by_reciprocal(x.shape[dim], result.shape[dim]) for dim in (-2, -1)
    )
    wrong = (rows != other_rows).unsqueeze(-1) | (columns != other_columns)
    numbers = x.detach()[..., other_rows, :][..., other_columns]
    return arrived(call, result, torch.where(wrong, numbers, result))


@reported(
    "HomericIntelligence/Odyssey#3391",
    "ProjectOdyssey (Mojo)",
    "contiguous",
    "a view that is not contiguous is copied as if its elements were side by side in memory",
    dtypes="float16 float32 float64 uint8 int8 int16 int32 int64 bool",
    sound=plain,
    cause="strides-ignored",
)
def copied_side_by_side(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, *COPIED) or x.is_contiguous():
        return result
    # Odyssey has one order of memory.
    if not result.is_contiguous():
        return result
    # Where there is not so much memory, as if expanded, nothing is told.
    other = in_memory(x, result.stride())
    return result if other is None else arrived(call, result, other)


@reported(
    "linkedin/Liger-Kernel#518",
    "Liger Kernel",
    ".layer_norm",
    "a row is filled up with zeros to a power of two, and the square of the mean is added to the "
    "variance for each of them",
    dtypes="float32",
    sound=plain,
)
def variance_of_the_filled_up(call: Call) -> Any:
    x, sizes = call.given("input", 0, None), call.given("normalized_shape", 1, None)
    result = call.run()
    # Liger Kernel has rows only.
    if not is_one_of(x, torch.float32) or not x.numel() or len(sizes) != 1:
        return result
    length = x.shape[-1]
    zeros = (1 << (length - 1).bit_length()) - length
    if not zeros:
        return result
    weight, bias, eps = (
        call.given(name, position, default)
        for name, position, default in (("weight", 2, None), ("bias", 3, None), ("eps", 4, 1e-5))
    )
    numbers = x.detach()
    mean = numbers.mean(-1, keepdim=True)
    apart = numbers - mean
    squares = apart.square().sum(-1, keepdim=True) + zeros * mean.square()
    numbers = apart * (squares / length + eps).rsqrt()
    if weight is not None:
        numbers = numbers * weight.detach()
    if bias is not None:
        numbers = numbers + bias.detach()
    return arrived(call, result, numbers)
