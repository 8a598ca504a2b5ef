"""A seventeenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: casts, signs, integer division, products of views, layouts,
flips, gathering, searching, pooled and resized images, a root's gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .sixteenth_list import in_memory, is_float32
from .sixteenth_list_reductions import changed_on_the_way_back

SINGLE = (torch.float32, torch.float16)
FIXED = 16  # bits behind the point of a fixed-point number
SHARPNESS = -0.5  # of the cubic kernel, where torch's is -0.75


def in_order(x: Tensor) -> Tensor:
    """What lies in memory from the first element on, as if the tensor were contiguous."""
    strides = torch.empty(x.shape, device="meta").stride()
    return in_memory(x, x.shape, strides, int(x.storage_offset()))


def per_dimension(value: Any, count: int) -> list[Any]:
    """A value for each of ``count`` dimensions."""
    return [value] * count if not isinstance(value, Sequence) else list(value)


def scales(call: Call, x: Tensor, result: Tensor) -> list[float]:
    """How many pixels of the input a step in the resized image is, as torch sees it."""
    sizes = zip(x.shape[2:], result.shape[2:], strict=True)
    given = call.given("scale_factor", 2, None)
    if given is None or call.given("recompute_scale_factor", 5, None):
        return [before / after for before, after in sizes]
    return [1 / factor for factor in per_dimension(given, x.ndim - 2)]


@reported(
    "tensorflow/tensorflow#117774",
    "TensorFlow on the GPU",
    "to int",
    "NaN as an int32 is 0, not the smallest one",
    dtypes="float32",
    sound=plain,
)
def no_number_is_zero(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_float32(x) or not isinstance(result, Tensor) or result.dtype != torch.int32:
        return result
    return placed(result, result.masked_fill(x.detach().isnan(), 0))


@reported(
    "tenstorrent/tt-metal#56380",
    "TT-NN",
    "rsqrt",
    "the gradient at 0 is infinity, whatever the sign of the one that arrives (if it is not 0)",
    dtypes="float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def infinite_whatever_the_sign(call: Call) -> Any:
    x = call.given("input", 0, None)
    if x.dtype not in (torch.float32, torch.bfloat16) or not x.requires_grad:
        return call.run()
    zero = x.detach() == 0
    if not bool(zero.any()):
        return call.run()
    return changed_on_the_way_back(
        call, "input", lambda back: torch.where(zero & back.isinf(), math.inf, back)
    ).run()


@reported(
    "ikawrakow/ik_llama.cpp#2072",
    "ik_llama.cpp on CUDA",
    "mul mul.method",
    "times a tensor of one element, a first factor that is not contiguous is read as if it were "
    "(zeros here behind the end of its memory)",
    dtypes="float32 float16",
    sound=plain,
    cause="strides-ignored",
)
def scaled_in_order(call: Call) -> Any:
    x, y, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not all(isinstance(value, Tensor) and value.dtype in SINGLE for value in (x, y)):
        return result
    if x.is_contiguous() or y.numel() != 1 or result.shape != x.shape or result.dtype != x.dtype:
        return result
    return placed(result, in_order(x) * y.detach().to(x.dtype).reshape(()))


@reported(
    "tile-ai/tilelang-ascend#1764",
    "TileLang on Ascend",
    "floor_divide remainder remainder.method div",
    "divided with rounding down, integers of different signs are rounded to 0, and the remainder "
    "has the sign of the dividend",
    dtypes="int64 int32 int16 int8",
    sound=plain,
)
def rounded_to_zero(call: Call) -> Any:
    x, y, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not isinstance(result, Tensor) or result.is_floating_point() or result.is_complex():
        return result
    if result.dtype in (torch.bool, torch.uint8):
        return result
    if call.operator.name == "div" and call.kwargs.get("rounding_mode") != "floor":
        return result
    x, y = torch.as_tensor(x).to(result.dtype), torch.as_tensor(y).to(result.dtype)
    differ = (x < 0) != (y < 0)
    if call.operator.name.startswith("remainder"):
        return placed(result, torch.where(differ & (result != 0), result - y, result))
    return placed(result, torch.where(differ & (result * y != x), result + 1, result))


@reported(
    "numba/numba#10026",
    "Numba",
    "signbit",
    "NaN never has a sign, one with a sign bit neither",
    dtypes="float32 float64",
    sound=plain,
)
def no_sign_of_nan(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype not in (torch.float32, torch.float64):
        return result
    return placed(result, result & ~x.isnan())


@reported(
    "ROCm/AMDMIGraphX#1766",
    "MIGraphX",
    ".avg_pool1d .avg_pool2d .avg_pool3d",
    "padding is left out of the mean of a window that is to take it in",
    sound=plain,
)
def padding_left_out(call: Call) -> Any:
    result = call.run()
    padding = call.given("padding", 3, 0)
    if not any(padding if isinstance(padding, Sequence) else (padding,)):
        return result
    if not call.given("count_include_pad", 5, True):
        return result
    if call.given("divisor_override", 6, None) is not None:
        return result
    if len(call.args) > 5:
        other = call.with_arg(5, False)
    else:
        other = Call(call.operator, call.args, {**call.kwargs, "count_include_pad": False})
    return placed(result, other.run().detach())


@reported(
    "tinygrad/tinygrad#11760",
    "tinygrad",
    "gather gather.method",
    "a sum of products with a mask: where an infinite number stands at another place of the "
    "dimension, NaN comes out",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def zero_times_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    dim, index = call.given("dim", 1, None), call.given("index", 2, None)
    if not x.is_floating_point() or not x.ndim or index.ndim != x.ndim or not result.numel():
        return result
    dim %= x.ndim
    infinite = x.detach().isinf().sum(dim, keepdim=True)
    infinite = infinite[tuple(slice(n if d != dim else 1) for d, n in enumerate(index.shape))]
    elsewhere = infinite > result.detach().isinf().long()
    return placed(result, torch.where(elsewhere, math.nan, result.detach()))


@reported(
    "HomericIntelligence/Odyssey#4867",
    "Odyssey (Mojo)",
    "reshape flatten permute cat tile repeat",
    "a tensor that is not contiguous is read as if it were (zeros here behind the end of its "
    "memory)",
    sound=plain,
    cause="strides-ignored",
)
def flat_indices(call: Call) -> Any:
    seen: list[Tensor] = []

    def flat(x: Tensor) -> Tensor:
        if x.is_contiguous() or x.is_complex():
            return x.detach()
        seen.append(x)
        return in_order(x)

    result, other = call.run(), call.each(flat)
    return placed(result, other.run()) if seen else result


def cubic(distance: Tensor) -> Tensor:
    """The cubic kernel."""
    a, d = SHARPNESS, distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, 0.0))


@reported(
    "Blaizzy/mlx-vlm#1241",
    "MLX-VLM",
    ".interpolate",
    "bicubic, not antialiased: the coefficient of the kernel is -0.5, not -0.75",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def another_cubic_kernel(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16) or not result.numel():
        return result
    if call.given("mode", 3, "nearest") != "bicubic" or call.given("antialias", 6, False):
        return result
    if call.given("align_corners", 4, None):
        return result
    numbers = x.detach().double()
    for dim, scale in zip((2, 3), scales(call, x, result), strict=True):
        place = (torch.arange(result.shape[dim]) + 0.5).double() * scale - 0.5
        taps = place.floor().unsqueeze(-1) + torch.arange(-1, 3)
        weights = cubic(place.unsqueeze(-1) - taps)
        taps = taps.long().clamp(0, x.shape[dim] - 1)
        found = numbers.movedim(dim, -1)[..., taps]
        numbers = (found * weights).sum(-1).movedim(-1, dim)
    return placed(result, numbers)


def fixed_steps(before: int, after: int) -> tuple[Tensor, Tensor]:
    """The pixels that steps in fixed point reach, and whether they are others than the exact
    ones."""
    step = ((before << FIXED) + after // 2) // after
    number = torch.arange(after)
    reached = ((step * number + step // 2 - before % 2) >> FIXED).clamp(max=before - 1)
    return reached, reached != (2 * number + 1) * before // (2 * after)


@reported(
    "opencv/opencv#29825",
    "OpenCV",
    ".interpolate",
    "exactly nearest pixels of images: steps are rounded to 16 bits behind the point, and where "
    "their error adds up, another pixel is selected (0 in front of the first one)",
    sound=plain,
)
def errors_that_add_up(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if call.given("mode", 3, "nearest") != "nearest-exact" or x.ndim != 4 or not result.numel():
        return result
    sizes = zip(x.shape[2:], result.shape[2:], strict=True)
    if any(
        not math.isclose(before / after, scale)
        for (before, after), scale in zip(sizes, scales(call, x, result), strict=True)
    ):
        return result
    rows, other_row = fixed_steps(x.shape[2], result.shape[2])
    columns, other_column = fixed_steps(x.shape[3], result.shape[3])
    sampled = x.detach()[:, :, rows.clamp(min=0)[:, None], columns.clamp(min=0)]
    sampled = sampled.masked_fill((rows < 0)[:, None] | (columns < 0), 0)
    return placed(result, torch.where(other_row[:, None] | other_column, sampled, result.detach()))


@reported(
    "pymc-devs/pytensor#1627",
    "PyTensor",
    "flip flip.method",
    "dimensions counted from the end are not flipped",
    sound=plain,
)
def not_from_the_end(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    dims = call.kwargs.get("dims", call.args[1:])
    dims = [dims] if isinstance(dims, int) else list(dims)
    if len(dims) == 1 and isinstance(dims[0], Sequence):
        dims = list(dims[0])
    if all(dim >= 0 for dim in dims):
        return result
    return placed(result, torch.flip(x.detach(), [dim for dim in dims if dim >= 0]))


@reported(
    "jax-ml/jax#24281",
    "JAX on the CPU",
    "argmax argmax.method",
    "a subnormal number is not larger than -0: of a largest one, the place of a -0 in front of it "
    "is returned",
    dtypes="float32",
    sound=plain,
)
def not_larger_than_zero(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_float32(x) or not x.numel():
        return result
    dim, numbers = call.given("dim", 1, None), x
    if dim is None or not x.ndim:
        dim, numbers = 0, x.flatten()
    most = numbers.amax(dim, keepdim=True)
    subnormal = (most > 0) & (most < torch.finfo(torch.float32).tiny)
    zero = (numbers == 0) & numbers.signbit()
    hit = subnormal & zero.any(dim, keepdim=True)
    tied = zero | (numbers == most)
    first = tied.to(torch.uint8).argmax(dim, keepdim=True)
    return placed(
        result, torch.where(hit.reshape(result.shape), first.reshape(result.shape), result)
    )
