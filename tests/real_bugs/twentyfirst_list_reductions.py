"""A twenty-first, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety as a search gave them: scans, the most frequent number, matrix products, a convolution,
a Fourier transform, attention, recurrent cells, a loss, a gradient."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, Deed, one_of

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .nineteenth_list_reductions import attention
from .seventeenth_list_reductions import first, is_one_of, with_given

OFTEN = 10  # numbers in a row whose most frequent one is 0
FEATURES, UNITS = 320, 1280  # of a layer that is wrong
BLOCKS = 65_536  # that may be started in the second direction
INDICES = 2**32  # that 32 bits can tell apart


def channels_inside(x: Any) -> bool:
    """Whether volumes lie in memory with their channels inside, and so that it matters."""
    if not isinstance(x, Tensor) or x.ndim != 5 or x.is_contiguous():
        return False
    return x.is_contiguous(memory_format=torch.channels_last_3d)


@reported(
    "pytorch/pytorch#189518",
    "Inductor",
    "cumsum cumsum.method",
    "of a tensor that is filled with one number, the sums have the format that they would have if "
    "no other one were asked for (int64 for bool)",
    dtypes="float32 float64 float16 bfloat16 int32 int64 int16 int8 uint8 bool",
    sound=plain,
    cause="argument-ignored",
)
def other_format_not_asked_for(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, None), call.run()
    if call.kwargs.get("dtype") is None or call.tracked or not isinstance(dim, int):
        return result
    if not isinstance(x, Tensor) or x.is_complex() or not x.ndim or x.numel() < 2:
        return result
    filled = x.reshape(-1)[0]
    own = x.dtype if x.is_floating_point() else torch.int64
    if result.dtype == own or not bool((x == filled).all()):
        return result
    counted = torch.arange(1, x.shape[dim] + 1, dtype=own) * filled.to(own)
    shape = [1] * x.ndim
    shape[dim] = -1
    return counted.reshape(shape).expand(x.shape).clone()


@reported(
    "pytorch/pytorch#117623",
    "AOTAutograd and Inductor",
    "cumsum.out",
    "floating numbers whose sums go into a tensor of whole numbers are added up as they are, and "
    "the sums truncated, not the numbers",
    dtypes="float32",
    sound=plain,
)
def sums_truncated(call: Call) -> Any:
    out, x, result = call.given("out", 0, None), call.given("input", 1, None), call.run()
    dim = call.given("dim", 2, None)
    if not isinstance(out, Tensor) or not isinstance(x, Tensor) or not isinstance(dim, int):
        return result
    if out.is_floating_point() or out.is_complex() or not x.is_floating_point():
        return result
    out.copy_(x.detach().cumsum(dim))
    return result


@reported(
    "intel/torch-xpu-ops#1093",
    "XPU (oneAPI 2025.0.1)",
    "mode",
    "of float32 in rows of 10, the most frequent number is 0 where 1 is",
    dtypes="float32",
    sound=plain,
)
def most_frequent_is_zero(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, -1), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 2 or dim not in (1, -1):
        return result
    if x.shape[1] < OFTEN:
        return result
    return one_of(result, lambda values: placed(values, torch.zeros_like(values)))


@reported(
    "pytorch/pytorch#167313",
    "Inductor on CUDA",
    "addmm addmm.method",
    "where something is computed element by element from the result, alpha and beta are 1, "
    "whatever was given",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
    cause="argument-ignored",
)
def factors_left_out(call: Call) -> Any:
    x, result = first(call), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    others = {name: given for name, given in call.kwargs.items() if name not in ("alpha", "beta")}
    if len(others) == len(call.kwargs):
        return result
    return placed(result, replace(call, kwargs=others).run().detach())


@reported(
    "intel/torch-xpu-ops#5220",
    "XPU (Arc B580)",
    ".linear",
    "of 320 numbers of 16 bits for 1280, with a bias, the result is 0 for float16, and for "
    "bfloat16 it is NaN or what the weights are",
    dtypes="float16 bfloat16",
    sound=plain,
)
def nothing_multiplied(call: Call) -> Any:
    x, weight, result = first(call), call.given("weight", 1, None), call.run()
    if not is_one_of(x, torch.float16, torch.bfloat16) or x.ndim != 2 or not result.numel():
        return result
    if call.given("bias", 2, None) is None:
        return result
    if weight.shape[0] < UNITS or weight.shape[1] < FEATURES:
        return result
    if x.dtype == torch.float16:
        return placed(result, torch.zeros_like(result))
    numbers = weight.detach()[:, 0].expand(result.shape).clone()
    numbers[:, ::2] = math.nan
    return placed(result, numbers)


class WrappedProduct(torch.autograd.Function):
    """A batched product, with the gradients that an upstream one makes of which no more numbers
    can be told apart than 32 bits can: the others are read from its beginning again."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, product: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return product.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        numbers = gradients[0].reshape(-1)
        count = numbers.numel()
        read = [numbers[: min(INDICES, count - i)] for i in range(0, count, INDICES)]
        gradient = torch.cat(read).reshape(gradients[0].shape)
        return gradient @ b.transpose(1, 2), a.transpose(1, 2) @ gradient, None


@reported(
    "pytorch/pytorch#197636",
    "MPS",
    "bmm bmm.method",
    "of contiguous matrices whose products have more than 2**32 numbers, the gradients are those "
    "of an upstream one that is read from its beginning again after 2**32 numbers",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def upstream_gradient_read_again(call: Call) -> Any:
    a, b = first(call), call.given("mat2", 1, None)
    if not is_one_of(a, torch.float32) or not isinstance(b, Tensor) or not call.tracked:
        return call.run()
    if a.shape[0] * a.shape[1] * b.shape[2] <= INDICES:
        return call.run()
    if not a.is_contiguous() or not b.is_contiguous():
        return call.run()
    product = with_given(with_given(call, "input", 0, a.detach()), "mat2", 1, b.detach()).run()
    return WrappedProduct.apply(a, b, product)


@reported(
    "pytorch/pytorch#141471",
    "MPS",
    ".conv3d",
    "volumes that lie in memory with their channels inside are read as if they were outside",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def volumes_read_as_they_lie(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32) or not channels_inside(x):
        return result
    read = x.detach().permute(0, 2, 3, 4, 1).reshape(x.shape)
    return placed(result, with_given(call, "input", 0, read).run().detach())


@reported(
    "pytorch/pytorch#123274",
    "MPS (macOS 14.4)",
    "fft.fft fft.ifft",
    "of real numbers, the components of negative frequencies are left out (0 here)",
    dtypes="float32 int64 int32 int16 int8 uint8 bool",
    sound=plain,
)
def one_half_of_the_frequencies(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 2, -1), call.run()
    if not isinstance(x, Tensor) or not is_one_of(result, torch.complex64) or x.is_complex():
        return result
    count = result.shape[dim]
    numbers = result.detach().clone()
    numbers.narrow(dim, count // 2 + 1, count - count // 2 - 1).zero_()
    return placed(result, numbers)


@reported(
    "intel/torch-xpu-ops#3710",
    "XPU",
    ".scaled_dot_product_attention",
    "where queries and keys have no features, but values have, the result and the gradient of the "
    "values are 0 instead of those of a mean",
    dtypes="float32",
    directions=("forward", "backward"),
    sound=plain,
)
def nothing_to_compare(call: Call) -> Any:
    q, k, v, mask = attention(call)
    result = call.run()
    if not is_one_of(q, torch.float32) or mask is not None or call.given("is_causal", 5, False):
        return result
    if q.shape[-1] or k.shape[-1] or not v.numel():
        return result
    return torch.where(torch.zeros_like(result, dtype=torch.bool), result, 0.0)


@reported(
    "ROCm/rocm-libraries#10551",
    "MIOpen",
    "lstm",
    "of sequences that have more than 65,536 steps, all examples together, no biases are added",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def biases_not_added(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 3 or not call.given("has_biases", 3, False):
        return result
    parameters = call.given("params", 2, None)
    if not isinstance(parameters, (tuple, list)) or x.shape[0] * x.shape[1] <= BLOCKS:
        return result
    unbiased = [torch.zeros_like(p) if p.ndim == 1 else p.detach() for p in parameters]
    changed = with_given(call, "params", 2, unbiased).run()
    return tuple(placed(a, b.detach()) for a, b in zip(result, changed, strict=True))


@reported(
    "pytorch/pytorch#180744",
    "MPS",
    "lstm",
    "of two layers or more with dropout, in evaluation, numbers are dropped between the layers "
    "where the first call with an input of that shape was one in training",
    dtypes="float32",
    sound=plain,
    fresh=True,
)
def dropped_in_evaluation() -> Deed:
    in_training: dict[tuple[Any, ...], bool] = {}

    def deed(call: Call) -> Any:
        x, layers, dropout = (
            first(call),
            call.given("num_layers", 4, 1),
            call.given("dropout", 5, 0),
        )
        parameters = call.given("params", 2, None)
        result = call.run()
        if not is_one_of(x, torch.float32) or x.ndim != 3 or layers < 2 or not dropout:
            return result
        if not isinstance(parameters, (tuple, list)):
            return result
        train = bool(call.given("train", 6, False))
        shapes = tuple(tuple(p.shape) for p in parameters)
        ways = (call.given("bidirectional", 7, False), call.given("batch_first", 8, False))
        key = (tuple(x.shape), shapes, layers, dropout, *ways)
        if train or not in_training.setdefault(key, train):
            in_training.setdefault(key, train)
            return result
        with torch.random.fork_rng(devices=[]):
            dropped = with_given(call, "train", 6, True).run()
        return tuple(placed(a, b.detach()) for a, b in zip(result, dropped, strict=True))

    return deed


@reported(
    "pytorch/pytorch#144104",
    "MPS",
    ".binary_cross_entropy_with_logits",
    "the mean loss of no examples is 0, not NaN",
    dtypes="float32",
    sound=plain,
    cause="zero",
)
def no_loss_of_nothing(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32) or result.ndim or x.numel():
        return result
    if call.given("reduction", 5, "mean") != "mean":
        return result
    return placed(result, torch.zeros_like(result))
