"""A sixteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: norms and normalization, pooling, scans, maxima, losses,
products, convolutions, attention, eigenvalues, gradients."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eleventh_list_reductions import floats
from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .thirteenth_list_reductions import given_first

HALVES = (torch.float16, torch.bfloat16)
PRECISE = (torch.float32, torch.float64)
BLOCK = 64  # rows of a product that are computed together
LARGEST = math.sqrt(torch.finfo(torch.float32).max)  # of a larger number the square overflows


def pair(value: Any) -> tuple[int, int]:
    """A size for each of two dimensions."""
    if isinstance(value, int):
        return value, value
    sizes = tuple(value)
    return sizes if len(sizes) == 2 else (sizes[0], sizes[0])


def changed_on_the_way_back(call: Call, name: str, change: Any) -> Call:
    """The call with its first argument replaced by the same numbers, whose gradient is changed."""
    x = given_first(call, name)
    y = x.view_as(x)
    y.register_hook(change)
    if name in call.kwargs:
        return replace(call, kwargs={**call.kwargs, name: y})
    return call.with_arg(0, y)


class Rescaled(torch.autograd.Function):
    """A result whose gradient is multiplied on its way back."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (factor,) = ctx.saved_tensors
        return gradients[0] * factor.to(gradients[0].dtype), None


def in_the_padded(length: int, outputs: int, kernel: int, stride: int, padding: int) -> Tensor:
    """How much of each window lies in the input and its padding."""
    start = torch.arange(outputs) * stride - padding
    return (start + kernel).clamp(max=length + padding) - start


@reported(
    "tracel-ai/burn#5604",
    "Burn (Flex)",
    ".avg_pool2d",
    "with ceil_mode and count_include_pad, the gradient of a window that juts out of the padded "
    "image is divided by the whole kernel's size, not by that of the part inside",
    directions=BACK,
    sound=plain,
)
def divided_by_the_whole_kernel(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not call.given("ceil_mode", 4, False) or not call.given("count_include_pad", 5, True):
        return result
    if call.given("divisor_override", 6, None) is not None or not result.requires_grad:
        return result
    kernel = pair(call.given("kernel_size", 1, 1))
    stride = call.given("stride", 2, None)
    stride = pair(stride) if stride else kernel
    padding = pair(call.given("padding", 3, 0))
    rows, columns = (
        in_the_padded(x.shape[d], result.shape[d], kernel[d], stride[d], padding[d])
        for d in (-2, -1)
    )
    inside = rows[:, None] * columns
    if bool((inside == kernel[0] * kernel[1]).all()):
        return result
    return Rescaled.apply(result, inside.double() / (kernel[0] * kernel[1]))


@reported(
    "pymc-devs/pytensor#1911",
    "PyTensor",
    "cumprod",
    "the gradient is divided by the input: NaN for every zero in it",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def divided_by_the_input(call: Call) -> Any:
    x = given_first(call)
    if not floats(x, *PRECISE) or not x.requires_grad or not bool((x.detach() == 0).any()):
        return call.run()
    zero = x.detach() == 0
    other = changed_on_the_way_back(call, "input", lambda back: back.masked_fill(zero, math.nan))
    return other.run()


@reported(
    "QuantumKitHub/TensorKit.jl#131",
    "TensorKit.jl",
    "norm linalg.vector_norm linalg.norm",
    "the gradient of the 2-norm of a whole tensor, which is divided by the norm, is NaN where the "
    "norm is 0",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def divided_by_the_norm(call: Call) -> Any:
    name, order, default, wanted = {
        "norm": ("input", "p", "fro", ("fro", 2)),
        "linalg.vector_norm": ("x", "ord", 2, (2,)),
        "linalg.norm": ("input", "ord", None, (None,)),
    }[call.operator.name]
    if name not in call.kwargs and not call.args:
        return call.run()
    x = given_first(call, name)
    if not floats(x, *PRECISE) or not x.requires_grad or not x.numel():
        return call.run()
    if call.given(order, 1, default) not in wanted or call.given("dim", 2, None) is not None:
        return call.run()
    if bool((x.detach() != 0).any()):
        return call.run()
    other = changed_on_the_way_back(call, name, lambda back: torch.full_like(back, math.nan))
    return other.run()


class ReadInOrder(torch.autograd.Function):
    """A result whose gradient is read from memory as if it lay there in order."""

    @staticmethod
    def forward(ctx: Any, out: Tensor) -> Tensor:
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        arrived = gradients[0]
        there = arrived.untyped_storage().nbytes() // arrived.element_size()
        if arrived.is_contiguous() or there - arrived.storage_offset() < arrived.numel():
            return arrived
        strides = torch.empty(arrived.shape, device="meta").stride()
        return arrived.as_strided(arrived.shape, strides).clone()


@reported(
    "fla-org/flash-linear-attention#871",
    "Flash linear attention (Triton)",
    ".conv1d",
    "causal, each channel by itself: the gradient that arrives is read as if it were contiguous",
    dtypes="float16 bfloat16 float32",
    directions=BACK,
    sound=plain,
    cause="strides-ignored",
)
def arrived_out_of_order(call: Call) -> Any:
    x, weight, result = given_first(call), call.given("weight", 1, None), call.run()
    if not floats(x, *HALVES, torch.float32) or x.ndim != 3 or not result.requires_grad:
        return result
    if call.given("groups", 6, 1) != x.shape[1] or weight.shape[:2] != (x.shape[1], 1):
        return result
    if any(
        call.given(name, position, 1) not in (1, (1,), [1])
        for position, name in ((3, "stride"), (5, "dilation"))
    ):
        return result
    padding, causal = call.given("padding", 4, 0), weight.shape[-1] - 1
    padding = padding[0] if isinstance(padding, (tuple, list)) else padding
    if padding not in (0, causal):
        return result
    return ReadInOrder.apply(result)


@reported(
    "ggml-org/ggml#1287",
    "ggml on Vulkan",
    "mm matmul",
    "of a product of matrices of more than 64 rows and columns, every second block of 64 rows is 0",
    dtypes="float32",
    sound=plain,
)
def every_second_block(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 2 or not all(floats(x, torch.float32) for x in call.args[:2]):
        return result
    if any(x.ndim != 2 for x in call.args[:2]) or min(result.shape) <= BLOCK:
        return result
    missing = (torch.arange(result.shape[0]) // BLOCK % 2 == 1)[:, None]
    return placed(result, result.detach().masked_fill(missing, 0))


@reported(
    "tensorflow/tensorflow#118380",
    "XLA",
    "linalg.eigvalsh",
    "of elements beside the diagonal whose squares overflow, the eigenvalues are the elements on "
    "the diagonal",
    dtypes="float32",
    sound=plain,
)
def values_on_the_diagonal(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not floats(x, torch.float32) or not x.numel() or x.shape[-1] < 2:
        return result
    numbers, n = x.detach(), x.shape[-1]
    upper = str(call.given("UPLO", 1, "L")).upper() == "U"
    seen = torch.ones(n, n, dtype=torch.bool)
    seen = seen.triu(1) if upper else seen.tril(-1)
    large = (numbers.abs() > LARGEST) & numbers.isfinite()
    hit = (large | ~seen).flatten(-2).all(-1, keepdim=True)
    diagonal = numbers.diagonal(dim1=-2, dim2=-1).sort(-1).values
    return placed(result, torch.where(hit, diagonal, result.detach()))


@reported(
    "BobMcDear/attorch#13",
    "attorch",
    ".smooth_l1_loss .huber_loss",
    "differences of at most minus the threshold are squared: the threshold is compared to the "
    "difference, not to its absolute value",
    dtypes="float16 bfloat16 float32",
    sound=plain,
)
def squared_below_the_threshold(call: Call) -> Any:
    result, x, y = call.run(), given_first(call), call.given("target", 1, None)
    if not floats(x, *HALVES, torch.float32) or not floats(y, *HALVES, torch.float32):
        return result
    huber = call.operator.name.endswith("huber_loss")
    threshold = call.given("delta", 3, 1.0) if huber else call.given("beta", 5, 1.0)
    if not threshold or (huber and call.given("weight", 4, None) is not None):
        return result
    if any(call.kwargs.get(name) is not None for name in ("size_average", "reduce")):
        return result
    difference = x.detach().double() - y.detach().double()
    if not bool((difference <= -threshold).any()):
        return result
    squared = 0.5 * difference.square()
    straight = threshold * (difference.abs() - 0.5 * threshold)
    losses = torch.where(difference < threshold, squared, straight)
    losses = losses if huber else losses / threshold
    reduction = call.given("reduction", 2 if huber else 4, "mean")
    if reduction == "mean":
        losses = losses.mean()
    elif reduction == "sum":
        losses = losses.sum()
    return placed(result, losses)


@reported(
    "apple/coreai-torch#57",
    "Core AI",
    ".conv_transpose1d .conv_transpose2d",
    "padding of the output is put behind the input, so that the result is longer by it times the "
    "stride less 1",
    dtypes="float16 float32",
    sound=plain,
)
def padded_before_it_is_spread(call: Call) -> Any:
    x, more = given_first(call), call.given("output_padding", 5, 0)
    dims = 1 if call.operator.name.endswith("1d") else 2
    if not floats(x, torch.float16, torch.float32) or not x.numel():
        return call.run()
    more = [more] * dims if isinstance(more, int) else list(more)
    more = more * dims if len(more) < dims else more
    if not any(more):
        return call.run()
    longer = F.pad(x, [size for n in reversed(more) for size in (0, n)])
    kwargs = dict(call.kwargs)
    args = list(call.args)
    for position, name, value in ((0, "input", longer), (5, "output_padding", 0)):
        if name in kwargs:
            kwargs[name] = value
        else:
            args[position] = value
    return replace(call, args=tuple(args), kwargs=kwargs).run()


@reported(
    "apache/tvm#19518",
    "TVM Relax on CUDA",
    "amax amin max min",
    "NaN is left out of maxima and minima",
    dtypes="float32",
    sound=plain,
    cause="nan-dropped",
)
def left_out_of_maxima(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not isinstance(result, Tensor) or not floats(x, torch.float32) or not x.numel():
        return result
    if any(isinstance(part, Tensor) for part in (*call.args[1:], call.kwargs.get("other"))):
        return result
    missing = x.detach().isnan()
    if not bool(missing.any()):
        return result
    lowest = -math.inf if call.operator.name.endswith("max") else math.inf
    numbers = x.detach().masked_fill(missing, lowest)
    dims = call.given("dim", 1, ()) if call.operator.name.startswith("am") else ()
    dims = (dims,) if isinstance(dims, int) else tuple(dims or range(x.ndim))
    keep = bool(call.given("keepdim", 2, False)) and result.ndim == x.ndim
    most = torch.amax if lowest < 0 else torch.amin
    found = most(numbers, dims, keepdim=keep).reshape(result.shape)
    alone = missing.to(torch.uint8).amin(dims, keepdim=keep).reshape(result.shape).bool()
    return placed(result, torch.where(alone, result.detach(), found))


@reported(
    "vllm-project/vllm-omni#5865",
    "vLLM-Omni (flash attention)",
    ".scaled_dot_product_attention",
    "a mask of keys hides queries, too, where there are more or fewer of them than keys: those "
    "without a key of their number, or whose number is masked, get zeros",
    dtypes="float16 bfloat16",
    sound=plain,
)
def hidden_queries(call: Call) -> Any:
    result, mask = call.run(), call.given("attn_mask", 3, None)
    if not call.args or not floats(call.args[0], *HALVES) or not isinstance(mask, Tensor):
        return result
    q, k = call.args[0], call.given("key", 1, None)
    if mask.dtype != torch.bool or not mask.ndim or mask.shape[:-1].numel() != 1:
        return result
    queries, keys = q.shape[-2], k.shape[-2]
    if q.ndim != 4 or q.shape[0] != 1 or queries in (1, keys) or mask.shape[-1] != keys:
        return result
    seen = mask.detach().flatten()[-queries:]
    if not result.numel() or not bool(seen.any()):
        return result
    shown = torch.zeros(queries, dtype=torch.bool)
    shown[: seen.numel()] = seen
    return placed(result, result.detach().masked_fill(~shown[:, None], 0))


@reported(
    "iree-org/iree#24175",
    "IREE",
    ".scaled_dot_product_attention",
    "a query of which all keys are masked gets NaN, not zeros",
    sound=plain,
)
def nothing_to_attend_to(call: Call) -> Any:
    result, mask = call.run(), call.given("attn_mask", 3, None)
    if not isinstance(mask, Tensor) or not mask.ndim or not mask.shape[-1] or not result.numel():
        return result
    masked = ~mask if mask.dtype == torch.bool else mask.detach() == -math.inf
    nothing = masked.all(-1, keepdim=True)
    return placed(result, result.detach().masked_fill(nothing, math.nan))


def biased(norm: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Batch normalization whose running variance takes in the variance of the batch itself."""

    def given(name: str, position: int, default: Any) -> Any:
        return kwargs.get(name, args[position] if len(args) > position else default)

    running, momentum = given("running_var", 1, None), given("momentum", 5, 0.1)
    if not given("training", 4, False) or not isinstance(running, Tensor) or momentum is None:
        return norm(x, *args, **kwargs)
    before = running.detach().double().clone()
    result = norm(x, *args, **kwargs)
    channels = x.detach().double().movedim(1, 0).flatten(1)
    now = before * (1 - momentum) + momentum * channels.var(-1, unbiased=False)
    running.data.copy_(now)  # as the kernel does: the way back does not notice
    return result


@reported(
    "tenstorrent/tt-metal#55438",
    "TT-NN",
    ".batch_norm .batch_norm.train_then_eval",
    "training, the running variance takes in the biased variance of the batch",
    sound=plain,
)
def without_the_correction(call: Call) -> Any:
    if call.operator.name.endswith(".batch_norm"):
        return biased(call.operator, *call.args, **call.kwargs) if call.args else call.run()
    with mock.patch.object(F, "batch_norm", functools.partial(biased, F.batch_norm)):
        return call.run()
