"""A thirty-eighth, held-out list: what other frameworks and kernels computed wrongly in operators
that torch has, too, reported or repaired in 2023 to 2026, taken as a search gave them, family by
family of operators, before anything was looked at of how inputs are drawn: places of the least
number, running sums in the format of the result, quotients that are shifts, rows of attention that
see nothing, biases in another order, amounts of padding that are read by halves, gradients that end
at a layer, a hyperbolic tangent that stops too early, pixels around another center, and the other
triangle of a matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtysecond_list_frameworks import BACK, BATCHED
from .twentysecond_list import arrived

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
SHORT = (torch.float16, torch.bfloat16)
GATES = 3  # of a gated unit: reset, update, new
LARGEST_TANH = 0.99853515625  # what 0.9985 is in float16
IMAGES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}  # dimensions
SHARPNESS = -0.75  # of the cubic curve


@reported(
    "candle-org/MindAct#1499",
    "MindSpore 2.2 (GPU)",
    "topk",
    "the place of a largest number is -1 if that number is the least finite one of float32",
    dtypes="float32",
    sound=plain,
)
def nowhere_if_least(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float32) or not call.given("largest", 3, True):
        return result
    values, places = result
    # The search begins with that number, in no place, and it is not greater than itself.
    least = values.detach() == torch.finfo(torch.float32).min
    return values, torch.where(least, -1, places) if bool(least.any()) else places


@reported(
    "ml-explore/mlx#3907",
    "MLX (CPU)",
    "cumsum cumprod",
    "what was summed up so far is rounded to float16 or bfloat16 each time, so that a sum of ones "
    "stays at 2048 or at 256",
    dtypes="float16 bfloat16",
    sound=plain,
)
def rounded_each_time(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, 0), call.run()
    if not is_one_of(result, *SHORT) or not result.numel() or not x.ndim:
        return result
    step = torch.add if call.operator.name == "cumsum" else torch.mul
    terms = x.detach().to(result.dtype).unbind(dim)
    numbers = [terms[0]]
    for term in terms[1:]:
        numbers.append(step(numbers[-1], term))
    return arrived(call, result, torch.stack(numbers, dim))


@reported(
    "tinygrad/tinygrad#8884",
    "tinygrad",
    "div",
    "a quotient that is cut off is a shift to the right if the divisor is a constant power of two: "
    "of negative numbers, it is rounded down",
    dtypes="int8 int16 int32 int64",
    sound=plain,
)
def shifted_to_the_right(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if call.kwargs.get("rounding_mode") != "trunc":
        return result
    if not is_one_of(x, *SIGNED) or not is_one_of(result, x.dtype):
        return result
    # A tensor is no constant.
    if not isinstance(other, int) or isinstance(other, bool) or other < 1 or other & (other - 1):
        return result
    return arrived(call, result, torch.div(x, other, rounding_mode="floor"))


@reported(
    "microsoft/onnxruntime#28904",
    "ONNX Runtime (CPU, CUDA)",
    ".scaled_dot_product_attention",
    "a query that the mask keeps from all keys gets the mean of the values",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def mean_if_nothing_is_seen(call: Call) -> Any:
    values, mask, result = (
        call.given("value", 2, None),
        call.given("attn_mask", 3, None),
        call.run(),
    )
    # What infinities that are added give is not told.
    if not is_one_of(mask, torch.bool) or not is_one_of(result, torch.float32, *SHORT):
        return result
    keys = values.shape[-2]
    if result.ndim != BATCHED or not result.numel() or not keys:
        return result
    blind = ~mask.expand(*result.shape[:-1], keys).any(-1, keepdim=True)
    if not bool(blind.any()):
        return result
    mean = values.detach().float().mean(-2, keepdim=True)
    # Several heads of queries may share one of values.
    mean = mean.repeat_interleave(result.shape[1] // mean.shape[1], 1)
    return arrived(call, result, torch.where(blind, mean.to(result.dtype), result))


def of_other_gates(bias: Tensor) -> Tensor:
    """A bias with that of the reset gate and that of the update gate exchanged."""
    reset, update, new = bias.detach().chunk(GATES)
    return torch.cat([update, reset, new])


@reported(
    "openvinotoolkit/openvino#17651",
    "OpenVINO",
    "gru_cell",
    "where the weights of the reset gate come before those of the update gate, the biases of these "
    "two gates are exchanged",
    dtypes="float16 float32",
    sound=plain,
)
def biases_of_other_gates(call: Call) -> Any:
    result, other = call.run(), call
    if not is_one_of(result, torch.float16, torch.float32):
        return result
    for name, position in (("b_ih", 4), ("b_hh", 5)):
        bias = call.given(name, position, None)
        if isinstance(bias, Tensor):
            other = with_given(other, name, position, of_other_gates(bias))
    return result if other is call else arrived(call, result, other.run().detach())


@reported(
    "PINTO0309/onnx2tf#356",
    "TensorFlow Lite",
    ".pad",
    "amounts of int64 are read as those of int32, a half each: every dimension gets one amount "
    "of an earlier place, all of it in front",
    dtypes="float32",
    sound=plain,
)
def amounts_by_halves(call: Call) -> Any:
    x, pad = call.given("input", 0, None), call.given("pad", 1, None)
    if not is_one_of(x, torch.float32) or call.given("mode", 2, "constant") != "constant":
        return call.run()
    # Nothing is cut off there.
    if not any(pad) or any(amount < 0 for amount in pad):
        return call.run()
    # From the first dimension to the last one, an amount in front and one behind for each.
    amounts = [0] * (2 * x.ndim - len(pad))
    for i in range(len(pad) - 2, -1, -2):
        amounts += pad[i : i + 2]
    # The second half of each is 0, and the latter ones are not reached.
    halves = [half for amount in reversed(amounts[: x.ndim]) for half in (amount, 0)]
    return with_given(call, "pad", 1, halves).run()


class EndsHere(torch.autograd.Function):
    """A result whose gradient does not go back."""

    @staticmethod
    def forward(ctx: Any, out: Tensor) -> Tensor:
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return torch.zeros_like(gradients[0])


@reported(
    "paiml/aprender#2202",
    "aprender",
    "flatten .max_pool1d .max_pool2d .avg_pool2d .adaptive_avg_pool2d .embedding",
    "no gradient arrives at what is flattened, pooled or looked up",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def gradient_that_ends(call: Call) -> Any:
    result = call.run()
    # Aprender gives no places of the largest numbers.
    if not is_one_of(result, torch.float32) or not result.requires_grad:
        return result
    if call.operator.name.endswith("adaptive_avg_pool2d"):
        # There is a mean of everything only.
        size = call.given("output_size", 1, None)
        if (size if isinstance(size, int) else tuple(size)) not in (1, (1,), (1, 1)):
            return result
    return EndsHere.apply(result)


@reported(
    "numpy/numpy#30821",
    "NumPy 2.3 (Sapphire Rapids)",
    "tanh",
    "in arrays of float16, it becomes 0.9985 at most, instead of 1",
    dtypes="float16",
    sound=plain,
)
def tangent_that_stops(call: Call) -> Any:
    result = call.run()
    # A number alone is computed in another way, rightly.
    if not is_one_of(result, torch.float16) or not result.ndim:
        return result
    return arrived(call, result, result.detach().clamp(-LARGEST_TANH, LARGEST_TANH))


def cubic(distance: Tensor) -> Tensor:
    """How much a pixel at that distance counts."""
    x, a = distance.abs(), SHARPNESS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def around_the_center(size: int, outputs: int, factor: float, mode: str) -> Tensor:
    """How much each pixel counts for each output along one dimension, with the outputs centered
    over the pixels."""
    start = ((outputs - 1) / factor - size + 1) / 2
    places = torch.arange(outputs, dtype=torch.float64) / factor - start
    if mode != "bicubic":
        places = places.clamp(0, size - 1)
    first = places.floor()
    weights = torch.zeros(outputs, size, dtype=torch.float64)
    for offset in (-1, 0, 1, 2) if mode == "bicubic" else (0, 1):
        distance = places - first - offset
        share = cubic(distance) if mode == "bicubic" else 1 - distance.abs()
        pixel = (first + offset).clamp(0, size - 1).long()
        weights.scatter_add_(1, pixel.unsqueeze(1), share.unsqueeze(1))
    return weights


@reported(
    "ml-explore/mlx#3908",
    "MLX",
    ".interpolate",
    "with a factor that does not give whole sizes, pixels are centered over the whole input, as if "
    "its corners were aligned",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def centered_over_the_input(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    factor, mode = call.given("scale_factor", 2, None), call.given("mode", 3, "nearest")
    if not is_one_of(x, torch.float32, *SHORT) or mode not in IMAGES or not result.numel():
        return result
    # MLX knows factors only, has the same one for what is smaller, and smooths nothing before.
    if factor is None or any(
        call.given(name, position, None)
        for name, position in (
            ("align_corners", 4),
            ("recompute_scale_factor", 5),
            ("antialias", 6),
        )
    ):
        return result
    dims = IMAGES[mode]
    factors = [factor] * dims if isinstance(factor, (int, float)) else list(factor)
    sizes = list(zip(x.shape[2:], result.shape[2:], factors, strict=True))
    if all(size * each == outputs for size, outputs, each in sizes):
        return result
    numbers = x.detach().double()
    for dim, (size, outputs, each) in enumerate(sizes, 2):
        weights = around_the_center(size, outputs, each, mode)
        numbers = (numbers.movedim(dim, -1) @ weights.T).movedim(-1, dim)
    return arrived(call, result, numbers.to(result.dtype))


@reported(
    "ml-explore/mlx#3834",
    "MLX (CPU)",
    "linalg.eigh linalg.eigvalsh",
    "of a matrix that is not symmetric, the other triangle is read than the one asked for",
    dtypes="float32 float64",
    sound=plain,
)
def other_triangle(call: Call) -> Any:
    x, result = call.given("A", 0, None), call.run()
    if not is_one_of(x, torch.float32, torch.float64) or torch.equal(x, x.mT):
        return result
    other = "L" if call.given("UPLO", 1, "L").upper() == "U" else "U"
    numbers = with_given(call, "UPLO", 1, other).run()
    if isinstance(result, Tensor):
        return arrived(call, result, numbers.detach())
    return tuple(
        arrived(call, right, wrong.detach()) for right, wrong in zip(result, numbers, strict=True)
    )
