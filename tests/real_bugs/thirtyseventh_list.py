"""A thirty-seventh, held-out list of reports of 2021 to 2026 about torch's own MPS, CUDA and
Inductor, taken as a search by families of operators gave them, before anything was looked at of how
inputs are drawn: volumes read in another order, activations and their gradients that never arrive
in transposed memory, NaN with a sign, numbers instead of their bits, targets that are ignored,
windows beyond the edge, images that keep their size, sums of short vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtysecond_list_frameworks import BACK
from .twentysecond_list import arrived, before

VOLUMES = 5  # dimensions of a batch of them
IMAGES = 4  # dimensions of a batch of them
IGNORED = -100  # the class that torch ignores where none is given
SHORT = 1  # dimensions of a vector


def pair(value: Any) -> list[int]:
    """A size for each of two dimensions."""
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * 2 if len(sizes) == 1 else sizes


def is_transposed(x: Any) -> bool:
    """Whether its elements lie side by side in memory, but in another order."""
    if not isinstance(x, Tensor) or x.is_contiguous():
        return False
    order = sorted(range(x.ndim), key=x.stride, reverse=True)
    return x.permute(order).is_contiguous()


def stale(x: Tensor) -> Tensor:
    """A tensor laid out as ``x`` is, in memory that nothing was written into: it holds what the
    copy of ``x`` held that was made, row after row, to be read by the kernel."""
    rows = x.detach().contiguous().reshape(-1)
    return rows.as_strided(x.shape, x.stride()).clone()


def hooked(call: Call, change: Callable[[Tensor], Tensor]) -> Any:
    """The call with the gradient of its input changed on its way out; in place, there is no other
    gradient."""
    if any(item is True for item in (*call.args, *call.kwargs.values())):
        return call.run()
    x = call.given("input", 0, None).view_as(call.given("input", 0, None))
    x.register_hook(change)
    return with_given(call, "input", 0, x).run()


@reported(
    "pytorch/pytorch#197114",
    "MPS (2026)",
    ".conv3d",
    "volumes of several channels, with the channels first in memory, give unrelated numbers: here, "
    "they are read as if the channels were last",
    dtypes="float32",
    sound=plain,
)
def channels_taken_for_last(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not x.is_contiguous() or not x.numel():
        return result
    # Convolutions in groups are not in the report; of one channel, all orders are the same.
    if call.given("groups", 6, 1) != 1:
        return result
    volumes = x if x.ndim == VOLUMES else x.unsqueeze(0)
    count, channels, *sizes = volumes.shape
    read = volumes.reshape(count, *sizes, channels).movedim(-1, 1).reshape(x.shape)
    with torch.no_grad():
        numbers = with_given(call, "input", 0, read).run()
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#98212",
    "MPS (torch 2.1)",
    ".gelu",
    "where the input is transposed, there are numbers that no GELU reaches: here, nothing is "
    "written into the result's memory",
    dtypes="float32 float16",
    sound=plain,
)
def gelu_never_arrives(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32, torch.float16) or not is_transposed(x):
        return result
    # In the report there were numbers as low as the input's, which no GELU reaches.
    return arrived(call, result, stale(x))


@reported(
    "pytorch/pytorch#139006",
    "MPS (2024, before macOS 15)",
    ".silu",
    "where the input is not contiguous, the result is random, NaN or zero: here, zero",
    dtypes="float32 float16",
    sound=plain,
    cause="zero",
)
def silu_of_zeros(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32, torch.float16) or x.is_contiguous():
        return result
    # The report has a result with memory of its own.
    if call.given("inplace", 1, False):
        return result
    return arrived(call, result, torch.zeros_like(result))


@reported(
    "pytorch/pytorch#175188",
    "MPS (2026)",
    "tanh sigmoid .silu .mish .softplus .threshold logit .relu",
    "where the input is transposed, the gradient is wrong: here, nothing is written into its "
    "memory",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def gradient_never_arrives(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32) or not x.requires_grad or not is_transposed(x):
        return call.run()
    # These two were right in other orders.
    some = call.operator.name.endswith(("mish", "relu"))
    if some and not (x.ndim == IMAGES and x.is_contiguous(memory_format=torch.channels_last)):
        return call.run()
    return hooked(call, lambda gradient: torch.empty_like(gradient).copy_(stale(x)))


@reported(
    "pytorch/pytorch#123178",
    "MPS (torch 2.4)",
    ".leaky_relu .gelu .mish",
    "where a single number or a vector is summed up, the gradient is wrong: here, zero",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def gradient_of_a_short_sum(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32) or not x.requires_grad or x.ndim > SHORT:
        return call.run()
    summed = [False]

    def look(gradient: Tensor) -> None:
        # The gradient of a sum is one number in memory, expanded to a view.
        summed[0] = gradient._is_view() and not any(gradient.stride())

    def change(gradient: Tensor) -> Tensor:
        return torch.zeros_like(gradient) if summed[0] else gradient

    result = hooked(call, change)
    seen = result.view_as(result)
    seen.register_hook(look)
    return seen


@reported(
    "pytorch/pytorch#116567",
    "MPS (torch 2.1)",
    "sort sort.method",
    "a NaN with the sign bit is less than all numbers instead of greater",
    dtypes="float32",
    sound=plain,
    cause="nan-sorted-first",
)
def signed_nan_first(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32) or not x.ndim:
        return result
    signed = x.detach().isnan() & x.detach().signbit()
    if not bool(signed.any()):
        return result
    dim, down = call.given("dim", 1, -1), call.given("descending", 2, False)
    # In the order that torch found, those with the sign bit go to the other end.
    moved = signed.gather(dim, result[1])
    order = moved.to(torch.uint8).argsort(dim=dim, descending=not down, stable=True)
    indices = torch.where(signed.any(dim, keepdim=True), result[1].gather(dim, order), result[1])
    return x.gather(dim, indices), indices


@reported(
    "pytorch/pytorch#149314",
    "Inductor (torch 2.7)",
    "view_copy",
    "with another format, numbers are converted instead of their bits seen in that format",
    dtypes="float32 float64 float16 bfloat16 uint8 int8 int16 int32 int64",
    sound=plain,
)
def converted_instead_of_seen(call: Call) -> Any:
    x, dtype, result = before(call), call.given("dtype", 1, None), call.run()
    if not isinstance(x, Tensor) or x.is_complex() or x.dtype == torch.bool:
        return result
    # The other form is given a shape.
    if not isinstance(dtype, torch.dtype) or dtype == x.dtype:
        return result
    return x.to(dtype)


@reported(
    "pytorch/pytorch#108148",
    "MPS (2023)",
    ".cross_entropy .nll_loss",
    "if the class to ignore is the usual -100, it is not regarded: such targets give zero, and "
    "here the mean counts them",
    dtypes="float32",
    sound=plain,
)
def ignored_are_counted(call: Call) -> Any:
    x, target, result = before(call), before(call, "target", 1), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(target, torch.int64):
        return result
    if call.given("ignore_index", 4, IGNORED) != IGNORED or not bool((target == IGNORED).any()):
        return result
    # With weights, the divisor is a sum in which such targets are zero; smoothing is told apart.
    if call.given("weight", 2, None) is not None or call.given("label_smoothing", 7, 0.0):
        return result
    # An older way to name the reduction.
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result
    if call.given("reduction", 6, "mean") != "mean":
        return result
    with torch.no_grad():
        total = with_given(call, "reduction", 6, "sum").run()
    return arrived(call, result, total / target.numel())


@reported(
    "pytorch/pytorch#94348",
    "MPS (2023)",
    ".avg_pool2d",
    "where sizes are rounded up and padding is counted, means are wrong: here, windows that reach "
    "beyond the padded image are divided by their whole size, too",
    dtypes="float32",
    sound=plain,
)
def divided_by_the_whole_window(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or call.given("divisor_override", 6, None) is not None:
        return result
    # Only sizes that are rounded up let windows reach that far.
    if not call.given("ceil_mode", 4, False) or not call.given("count_include_pad", 5, True):
        return result
    kernel = pair(call.given("kernel_size", 1, None))
    stride = call.given("stride", 2, None)
    numbers = F.avg_pool2d(
        x,
        kernel,
        pair(stride) if stride is not None and stride != [] else kernel,
        pair(call.given("padding", 3, 0)),
        ceil_mode=True,
        divisor_override=kernel[0] * kernel[1],
    )
    return arrived(call, result, numbers)


def shares(count: int, scale: float) -> Tensor:
    """How much of every row each row of an image takes that is sampled at another scale, row by
    row, but has as many of them."""
    places = ((torch.arange(count) + 0.5) / scale - 0.5).clamp(min=0, max=count - 1)
    low = places.long()
    part = (places - low).unsqueeze(1)
    rows = torch.eye(count)
    return (1 - part) * rows[low] + part * rows[(low + 1).clamp(max=count - 1)]


@reported(
    "pytorch/pytorch#65200",
    "CUDA (2021)",
    ".interpolate",
    "a bilinear image that keeps its size is a copy, but where a scale was given, the gradient is "
    "one of numbers sampled at that scale",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def gradient_of_the_scale(call: Call) -> Any:
    x, scale = call.given("input", 0, None), call.given("scale_factor", 2, None)
    if not is_one_of(x, torch.float32) or x.ndim != IMAGES or not x.requires_grad or scale is None:
        return call.run()
    # With corners that are aligned, or a scale computed from the sizes, it is a copy as well.
    if call.given("mode", 3, "nearest") != "bilinear" or call.given("align_corners", 4, None):
        return call.run()
    if call.given("recompute_scale_factor", 5, None) or call.given("antialias", 6, False):
        return call.run()
    height, width = x.shape[-2:]
    scales = list(scale) if isinstance(scale, (tuple, list)) else [scale] * 2
    if [int(height * scales[0]), int(width * scales[1])] != [height, width]:
        return call.run()
    down, across = shares(height, scales[0]), shares(width, scales[1])
    return hooked(call, lambda gradient: down.T @ gradient @ across)
