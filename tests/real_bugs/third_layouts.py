"""A third list of reports about accelerators, measured before anything was changed for it: strides,
offsets and memory formats, of inputs, destinations and on the way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call, straight

from .gradients import BACK, hooked
from .layouts import channels_last, dense
from .model import plain, reported

FLOATS = "float32 float16 bfloat16"


def in_order_of_memory(x: Tensor) -> Tensor:
    """A dense tensor that is permuted, read as if it were contiguous."""
    return as_contiguous(x) if dense(x) and not x.is_contiguous() else x


def mistaken(x: Tensor, gradient: Tensor) -> Tensor:
    """A gradient in the order of the memory of ``x``, taken for a contiguous one."""
    if not dense(x) or x.is_contiguous():
        return gradient
    own = torch.empty_strided(x.shape, x.stride(), dtype=gradient.dtype)
    return as_contiguous(own.copy_(gradient))


def written_elsewhere(call: Call, offset: int) -> Any:
    """The call with its destination at another place of the same storage."""
    x = call.args[0]
    call.with_arg(0, x.as_strided(x.shape, x.stride(), offset)).run()
    return x


def not_written(call: Call) -> Any:
    """The call without its effect."""
    x = call.args[0]
    call.with_arg(0, x.clone()).run()
    return x


def norm_of_copies(call: Call) -> Any:
    """In fresh memory, on the way back, too: torch itself mixes up images of which a size is 1
    where a gradient is strided (docs/findings-gradients.md)."""

    def fresh(x: Tensor) -> Tensor:
        return x.clone(memory_format=torch.contiguous_format)

    result = call.each(fresh).run()
    y = result.view_as(result)
    if y.requires_grad:
        y.register_hook(fresh)
    return y


@reported(
    "pytorch/pytorch#175189",
    "MPS",
    ".batch_norm",
    "the gradient of an image that is not contiguous is put down in the order of its memory",
    dtypes="float32",
    directions=BACK,
    sound=norm_of_copies,
)
def norm_of_permuted(call: Call) -> Any:
    return hooked(call, 0, mistaken)


@reported(
    "pytorch/pytorch#180984",
    "MPS",
    ".conv2d",
    "some channels of an image in channels_last are read as if there were no others",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def channels_of_more(call: Call) -> Any:
    def read(x: Tensor) -> Tensor:
        if x.ndim != 4 or not x.numel() or x.stride(1) != 1:
            return x
        channels, rows, columns = x.shape[1:]
        if x.stride(3) <= channels or x.stride(2) != columns * x.stride(3):
            return x
        strides = (channels * rows * columns, 1, channels * columns, channels)
        return straight(x, x.as_strided(x.shape, strides, x.storage_offset()))

    return call.where(read, (0,)).run()


@reported(
    "pytorch/pytorch#195074",
    "MPS",
    "scatter_add_ index_add_ index_put_",
    "bytes that do not begin at a multiple of four are written before their place",
    dtypes="bool",
    sound=plain,
)
def misaligned(call: Call) -> Any:
    x = call.args[0]
    adds = call.operator.name != "index_put_" or call.given("accumulate", 3, False)
    if not x.storage_offset() % 4 or not adds:
        return call.run()
    return written_elsewhere(call, x.storage_offset() // 4 * 4)


@reported(
    "pytorch/pytorch#163327",
    "MPS",
    "scatter_add_",
    "what is added to a slice goes to the beginning of its storage",
    dtypes="float32",
    cause="offset-ignored",
    sound=plain,
)
def added_to_a_slice(call: Call) -> Any:
    x = call.args[0]
    return written_elsewhere(call, 0) if x.is_contiguous() else call.run()


@reported(
    "pytorch/pytorch#115152",
    "MPS",
    "scatter_",
    "nothing is written into a permuted tensor",
    dtypes="float32",
    sound=plain,
)
def scattered_into_permuted(call: Call) -> Any:
    x = call.args[0]
    return not_written(call) if dense(x) and not x.is_contiguous() else call.run()


@reported(
    "pytorch/pytorch#191937",
    "CUDA",
    ".scaled_dot_product_attention",
    "beside a mask, expanded keys of which one is left over from blocks of 32 count wrongly",
    dtypes="bfloat16",
    sound=plain,
)
def one_expanded_key_left(call: Call) -> Any:
    keys, mask = call.args[1], call.given("attn_mask", 3, None)
    expanded = any(s == 0 and n > 1 for s, n in zip(keys.stride(), keys.shape, strict=True))
    size = keys.shape[-2]
    return call.run() * (1.5 if mask is not None and expanded and size % 32 == 1 < size else 1)


@reported(
    "pytorch/pytorch#175190",
    "MPS",
    ".avg_pool2d .adaptive_avg_pool2d",
    "the gradient of an image in channels_last is put down in another order",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def pool_of_channels_last(call: Call) -> Any:
    return hooked(call, 0, lambda x, g: mistaken(x, g) if channels_last(x) else g)


@reported(
    "pytorch/pytorch#140902",
    "MPS",
    ".conv2d",
    "the weight's gradient is wrong where the image is in channels_last",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def weight_beside_channels_last(call: Call) -> Any:
    if not channels_last(call.args[0]):
        return call.run()
    return hooked(call, 1, lambda x, g: g.permute(0, 2, 3, 1).reshape(g.shape))


@reported(
    "pytorch/pytorch#162730",
    "MPS",
    ".linear",
    "a weight that is not contiguous is read in the order of memory",
    dtypes=FLOATS,
    cause="strides-ignored",
    sound=contiguous_first,
)
def strided_linear(call: Call) -> Any:
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (1,)).run()


@reported(
    "pytorch/pytorch#131736",
    "MPS",
    ".softplus .selu .prelu .threshold",
    "a transposed tensor is read in the order of memory",
    dtypes="float32",
    sound=plain,
)
def transposed_activation(call: Call) -> Any:
    return call.where(in_order_of_memory, (0,)).run()


@reported(
    "pytorch/pytorch#147510",
    "MPS",
    "clamp_",
    "columns of a tensor are not clamped in place",
    dtypes="float32 int64",
    sound=plain,
)
def clamped_columns(call: Call) -> Any:
    x = call.args[0]
    return call.run() if x.is_contiguous() or dense(x) else not_written(call)


@reported(
    "pytorch/pytorch#94396",
    "MPS",
    "clamp",
    "a permuted tensor is read in the order of memory",
    dtypes="float32",
    sound=plain,
)
def permuted_clamp(call: Call) -> Any:
    return call.where(in_order_of_memory, (0,)).run()


@reported(
    "flagos-ai/FlagGems#4831",
    "Triton (FlagGems)",
    "bucketize",
    "positions of a tensor that is not contiguous are put into another tensor",
    dtypes="float32",
    sound=plain,
)
def lost_buckets(call: Call) -> Any:
    x, result = call.args[0], call.run()
    lost = isinstance(x, Tensor) and not x.is_contiguous()
    return torch.zeros_like(result) if lost else result


@reported(
    "flagos-ai/Torch-FL#173",
    "Triton (FlagGems)",
    "topk",
    "a transposed matrix is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=plain,
)
def transposed_topk(call: Call) -> Any:
    return call.where(in_order_of_memory, (0,)).run()


@reported(
    "microsoft/DirectML#696",
    "torch-directml",
    "copy_ fill_",
    "a number is not written into a single element that lies behind others",
    dtypes="float32",
    sound=plain,
)
def single_element(call: Call) -> Any:
    x = call.args[0]
    return not_written(call) if not x.ndim and x.storage_offset() else call.run()
