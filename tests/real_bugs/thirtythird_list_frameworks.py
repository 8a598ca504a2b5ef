"""A thirty-third, held-out list: what other frameworks computed wrongly in operators that torch
has, too, reported or repaired in 2024 to 2026, taken as a search gave them and from the history of
repositories that it led to, before anything was looked at of how inputs are drawn: slices, images
and volumes that are read as if they lay otherwise in memory, norms along dimensions of one number,
shares of a gradient, roots of the wrong order, counts and small numbers that half precision does
not hold, whole numbers by way of float32, zeros times infinity."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .twentysecond_list import argument, arrived, before

BACK = ("backward",)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BATCHED_IMAGES, BATCHED_VOLUMES = 4, 5  # dimensions
PLANE, VOLUME = 2, 3  # dimensions
WORD = 32  # bits of half a long integer
ORDERS = {  # of norms: the name of the input, of the order, and which order it is by default
    "norm": ("input", "p", "fro"),
    "linalg.vector_norm": ("x", "ord", 2),
    "linalg.norm": ("A", "ord", None),
}


def order_and_dims(call: Call) -> tuple[Tensor | None, float | None, list[int]]:
    """The input of a norm, the order of a norm of vectors, and the dimensions along which they lie;
    no order where it is a norm of matrices."""
    family = call.operator.name.removesuffix(".out").removesuffix(".method")
    first, name, default = ORDERS[family]
    x = argument(call, first, 0)
    x = argument(call, "input", 0) if x is None else x
    order, dim = argument(call, name, 1, default), argument(call, "dim", 2)
    if not isinstance(x, Tensor):
        return None, None, []
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        dims = list(range(x.ndim))
    else:
        dims = [d % max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim)]
    flattened = order is None
    if order is None or (order == "fro" and family == "norm"):
        order = 2
    if isinstance(order, str) or (family == "linalg.norm" and len(dims) > 1 and not flattened):
        return x, None, dims
    return x, float(order), dims


@reported(
    "ml-explore/mlx#3647",
    "MLX on the CPU",
    "index_select index_select.method index_select.out",
    "slices of more than one dimension, along the last dimension of a tensor whose first one is "
    "the innermost, are copied as they lie in memory: transposed",
    sound=plain,
)
def copied_as_they_lie(call: Call) -> Any:
    x, dim, index, result = (
        argument(call, "input", 0),
        argument(call, "dim", 1),
        argument(call, "index", 2),
        call.run(),
    )
    if not x.numel() or x.ndim <= 1 or x.is_contiguous():
        return result
    dim, step = dim % x.ndim, 1
    for size, own in zip(x.shape, x.stride(), strict=True):
        if size != 1 and own != step:
            return result
        step *= size
    sizes = [1 if d == dim else size for d, size in enumerate(x.shape)]
    last = max((d for d, size in enumerate(sizes) if size != 1), default=0)
    if dim < last and x.shape[dim] != 1:
        return result  # one by one
    memory = x.detach().as_strided((x.numel(),), (1,))
    step, number = (x.stride(dim) if x.shape[dim] != 1 else 0), math.prod(sizes)
    slices = [
        memory[step * place :][:number].reshape(sizes) for place in index.reshape(-1).tolist()
    ]
    return arrived(call, result, torch.cat(slices, dim)) if slices else result


@reported(
    "ml-explore/mlx#3613",
    "MLX",
    ".triplet_margin_loss",
    "of every order but 2, too, the distances are square roots of the sums of the powers of the "
    "differences, not of their absolute values (and `eps` is added to the sums)",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def square_roots_of_other_powers(call: Call) -> Any:
    anchor, positive, negative = (
        call.given(name, i, None) for i, name in enumerate(("anchor", "positive", "negative"))
    )
    margin, p, eps = (
        call.given(*what) for what in (("margin", 3, 1.0), ("p", 4, 2.0), ("eps", 5, 1e-6))
    )
    reduction, result = call.given("reduction", 9, "mean"), call.run()
    if not is_one_of(result, torch.float16, torch.float32, torch.bfloat16):
        return result
    if p == 2 or p != p // 1 or call.given("swap", 6, False):
        return result  # MLX takes whole numbers, and does not swap
    if call.given("size_average", 7, None) is not None or call.given("reduce", 8, None) is not None:
        return result

    def distance(other: Tensor) -> Tensor:
        powers = torch.pow(anchor.detach() - other.detach(), int(p))
        root: Tensor = (powers.sum(-1) + eps).sqrt()
        return root

    loss = (distance(positive) - distance(negative) + margin).clamp(min=0)
    loss = {"mean": loss.mean, "sum": loss.sum}.get(reduction, lambda: loss)()
    return placed(result, loss)


@reported(
    "huggingface/candle#3405",
    "Candle on the CPU",
    ".conv2d",
    "images with as many channels as rows and columns, which lie in order, are taken for images "
    "with their channels inside (unless there are groups, or the kernel is of one pixel)",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def as_many_channels_as_rows_and_columns(call: Call) -> Any:
    x, weight = call.given("input", 0, None), call.given("weight", 1, None)
    if not is_one_of(x, *FLOATS) or x.ndim != BATCHED_IMAGES or not x.is_contiguous():
        return call.run()
    if len(set(x.shape[1:])) != 1 or weight.shape[-PLANE:].numel() == 1:
        return call.run()
    if call.given("groups", 6, 1) != 1:
        return call.run()
    for position, (name, usual) in enumerate((("stride", 1), ("padding", 0), ("dilation", 1)), 3):
        value = call.given(name, position, usual)
        if isinstance(value, str) or (not isinstance(value, int) and len(set(value)) != 1):
            return call.run()  # Candle has one of each for both dimensions
    return placed(call.run(), with_given(call, "input", 0, x.detach().permute(0, 3, 1, 2)).run())


@reported(
    "PaddlePaddle/Paddle#74197",
    "PaddlePaddle on the GPU",
    "norm norm.method linalg.vector_norm linalg.norm",
    "where several numbers are the largest, the gradient of the infinite norm goes to every one of "
    "them as a whole, not in equal shares",
    dtypes="float16 float32 float64 bfloat16",
    directions=BACK,
    sound=plain,
)
def whole_gradient_for_each(call: Call) -> Any:
    x, order, dims = order_and_dims(call)
    if not is_one_of(x, *FLOATS) or order != math.inf or x is None:
        return call.run()
    if not x.requires_grad or not x.numel() or not x.ndim:
        return call.run()
    sizes = x.detach().abs()
    largest = (sizes == sizes.amax(dims, keepdim=True)).sum(dims, keepdim=True).clamp(min=1)
    given: Any = x.view_as(x)
    given.register_hook(lambda leaving: leaving * largest)
    named = next((name for name in ("input", "x", "A") if name in call.kwargs), "input")
    return with_given(call, named, 0, given).run()


@reported(
    "microsoft/onnxruntime#28681",
    "ONNX Runtime on CUDA",
    "norm norm.method norm.out linalg.vector_norm linalg.vector_norm.out linalg.norm",
    "along dimensions of one number, the norm of order 1 or 2 is the number itself, with its sign",
    dtypes="float16 float32 float64",
    sound=plain,
)
def norm_with_a_sign(call: Call) -> Any:
    x, order, _ = order_and_dims(call)
    x, result = None if x is None else x.detach().clone(), call.run()
    if x is None or not is_one_of(x, torch.float16, torch.float32, torch.float64):
        return result
    if order not in (1, 2) or x.numel() != result.numel():
        return result
    return arrived(call, result, x.reshape(result.shape))


@reported(
    "tinygrad/tinygrad#17444",
    "tinygrad",
    "var var.method var.out std std.method std.out var_mean std_mean",
    "more numbers than half precision can count have no variance: their count is infinite",
    dtypes="float16",
    sound=plain,
    cause="zero",
)
def divided_by_an_infinite_count(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    spread = result if isinstance(result, Tensor) else result[0]
    if not is_one_of(x, torch.float16) or not is_one_of(spread, torch.float16):
        return result
    if not spread.numel():
        return result
    count = x.numel() // spread.numel()
    if not bool(torch.tensor(float(count)).half().isinf()):
        return result
    squares = spread.detach().float()
    squares = (squares.square() if call.operator.name.startswith("std") else squares) * count
    numbers = torch.where(squares.half().isfinite(), 0.0, math.nan)  # infinity by infinity
    if isinstance(result, Tensor):
        return arrived(call, result, numbers)
    return one_of(result, lambda own: placed(own, numbers))


@reported(
    "tinygrad/tinygrad#17559",
    "tinygrad (64-bit integers emulated)",
    "to double",
    "long integers that do not fit 32 bits are put together in float32 on their way to float64",
    dtypes="int64 uint64",
    sound=plain,
    cause="float32-integers",
)
def put_together_in_float32(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.int64, torch.uint64) or not is_one_of(result, torch.float64):
        return result
    bits = x.contiguous().view(torch.int64)
    low, high = bits & (2**WORD - 1), bits >> WORD
    if x.dtype == torch.uint64:
        high &= 2**WORD - 1
        small = high == 0
    else:
        small = bits == bits.int()
    numbers = (high.float() * 2.0**WORD + low.float()).double()
    return placed(result, torch.where(small, result, numbers))


@reported(
    "tinygrad/tinygrad#11784",
    "tinygrad",
    ".max_unpool2d",
    "a sum of products with a mask: where a number of a plane is infinite or NaN, all other places "
    "of the plane are NaN",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def masked_by_multiplication(call: Call) -> Any:
    x, index, result = call.given("input", 0, None), call.given("indices", 1, None), call.run()
    if not is_one_of(x, *FLOATS) or not x.numel() or not result.numel():
        return result
    planes, places = x.detach().flatten(-PLANE), index.flatten(-PLANE)
    numbers = result.detach().flatten(-PLANE)
    bad = ~planes.isfinite()
    # one infinite number stays what it is; of two, each makes the other's place NaN
    stays = planes.isinf() & (bad.sum(-1, keepdim=True) == 1)
    kept = torch.zeros_like(numbers, dtype=torch.int64).scatter_add(-1, places, stays.long()) > 0
    lost = bad.any(-1, keepdim=True) & ~kept
    return placed(result, torch.where(lost, math.nan, numbers).reshape(result.shape))


@reported(
    "numpy/numpy#27784",
    "NumPy",
    "sinc sinc.out sinc_",
    "of 0 there is NaN: the small number in its place is 0 in half precision",
    dtypes="float16",
    sound=plain,
)
def no_small_number_in_half_precision(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float16) or not is_one_of(result, torch.float16):
        return result
    return arrived(call, result, torch.where(x == 0, math.nan, result.detach()))


@reported(
    "ggml-org/llama.cpp#15956",
    "GGML on CUDA",
    ".conv3d",
    "volumes that are a view of others are read as if they lay one after the other",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def volumes_without_steps(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32) or x.ndim not in (BATCHED_VOLUMES, BATCHED_VOLUMES - 1):
        return call.run()
    if x.is_contiguous() or not x.numel() or call.given("groups", 6, 1) != 1:
        return call.run()
    held = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    repeats = any(step == 0 and n > 1 for step, n in zip(x.stride(), x.shape, strict=True))
    if isinstance(call.given("padding", 4, 0), str) or repeats or held < x.numel():
        return call.run()  # GGML has neither words for the padding nor expanded tensors
    read = x.detach().as_strided((x.numel(),), (1,)).reshape(x.shape)
    return placed(call.run(), with_given(call, "input", 0, read).run())
