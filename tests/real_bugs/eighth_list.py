"""An eighth, held-out list of reports of 2024 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: values, dtypes, strides, arguments. Sizes, precision and
gradients are in :mod:`.eighth_list_sizes`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call, one_of

from .layouts import dense
from .model import plain, reported

F = torch.nn.functional
LINES = 128  # elements of four vectors of uint8


@reported(
    "pytorch/pytorch#147889",
    "MPS",
    "bitwise_left_shift",
    "a number shifted by a tensor: the tensor is shifted by the number",
    dtypes="int8 int16 int32 int64 uint8",
    sound=plain,
)
def operands_swapped(call: Call) -> Any:
    x, y = call.args[:2]
    number = not isinstance(x, Tensor) or not x.ndim
    if not number or not isinstance(y, Tensor) or not y.ndim:
        return call.run()
    return call.with_arg(0, y).with_arg(1, x).run()


@reported(
    "tracel-ai/burn#5626",
    "burn on wgpu (Metal)",
    ".conv2d",
    "a large 1x1 kernel, an odd number of blocks of 8 channels: one block more is read and added",
    dtypes="float32",
)
def one_block_more(call: Call) -> Any:
    x, weight = call.args[:2]
    if any(call.given(name, i, d) != d for name, i, d in (("dilation", 5, 1), ("groups", 6, 1))):
        return call.run()
    stride, padding = call.given("stride", 3, 1), call.given("padding", 4, 0)
    if stride not in (1, (1, 1), [1, 1]) or padding not in (0, (0, 0), [0, 0], "valid", "same"):
        return call.run()
    large = weight.shape[0] >= 208 and weight.shape[1] >= 104
    pixels = x.numel() // max(x.shape[-3], 1)
    if weight.shape[2:] != (1, 1) or weight.shape[1] % 16 != 8 or not large or pixels < 4096:
        return call.run()
    rows = x.movedim(-3, -1)
    after = rows.reshape(-1, rows.shape[-1]).roll(-1, 0)[:, :8].reshape(*rows.shape[:-1], 8)
    extra = after @ weight[:, :8, 0, 0].roll(-1, 0).mT
    return call.run() + extra.movedim(-1, -3)


@reported(
    "openvinotoolkit/openvino#37499",
    "OpenVINO on the GPU",
    "matmul",
    "one matrix by several: only the first product is written",
    dtypes="float32 float16",
    sound=plain,
)
def first_product_only(call: Call) -> Any:
    a, b = call.args[:2]
    result = call.run()
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != 1 or b.shape[0] < 2:
        return result
    return torch.cat((result[:1], torch.zeros_like(result[1:])))


@reported(
    "tenstorrent/tt-metal#53908",
    "TT-NN",
    "eq ne lt le gt ge",
    "compared with a number: by the bits of the difference, so that -0 is below 0, infinity is not "
    "equal to itself and NaN is above everything",
    dtypes="float32 bfloat16",
    sound=plain,
)
def bits_of_difference(call: Call) -> Any:
    x, number = call.args[:2]
    if isinstance(number, (Tensor, bool)) or x.dtype not in (torch.float32, torch.bfloat16):
        return call.run()
    gap = x - torch.tensor(number, dtype=x.dtype)
    gap = torch.where(gap.isnan(), math.nan, gap).contiguous()
    bits = gap.view(torch.int32 if x.dtype == torch.float32 else torch.int16)
    return call.with_arg(0, bits).with_arg(1, 0).run()


@reported(
    "tenstorrent/tt-metal#42694",
    "TT-NN",
    ".scaled_dot_product_attention",
    "the mask that is added is scaled, too",
    dtypes="bfloat16",
)
def scaled_mask(call: Call) -> Any:
    mask, scale = call.given("attn_mask", 3, None), call.kwargs.get("scale")
    if not isinstance(mask, Tensor) or mask.dtype == torch.bool or not call.args[0].shape[-1]:
        return call.run()
    factor = 1 / math.sqrt(call.args[0].shape[-1]) if scale is None else scale
    if factor in (0, 1):
        return call.run()
    if len(call.args) > 3:
        return call.with_arg(3, mask * factor).run()
    return Call(call.operator, call.args, dict(call.kwargs) | {"attn_mask": mask * factor}).run()


@reported(
    "pytorch/pytorch#186367",
    "MPS",
    ".layer_norm",
    "a variance below 1e-6 counts as 0",
    dtypes="float32 float16 bfloat16",
)
def small_variance(call: Call) -> Any:
    x, shape, result = call.args[0], call.given("normalized_shape", 1, ()), call.run()
    dims = list(range(-len(shape), 0))
    if not x.numel():
        return result
    variance = x.float().var(dims, correction=0, keepdim=True)
    small = (variance > 0) & (variance < 1e-6)
    normed = (x.float() - x.float().mean(dims, keepdim=True)) / math.sqrt(
        call.given("eps", 4, 1e-5)
    )
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    normed = normed if weight is None else normed * weight.float()
    normed = normed if bias is None else normed + bias.float()
    return torch.where(small, normed.to(result.dtype), result)


@reported(
    "pytorch/pytorch#117215",
    "CPU",
    "all any",
    "down columns, 128 at a time: the bits are combined, not whether there are any",
    dtypes="uint8",
    sound=plain,
)
def bits_of_columns(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    if x.dtype != torch.uint8 or isinstance(dim, bool) or not isinstance(dim, int) or x.ndim < 2:
        return result
    dim %= x.ndim
    width = math.prod(x.shape[dim + 1 :])
    whole = width - width % LINES
    if not x.is_contiguous() or not whole or not x.numel():
        return result
    rows = x.reshape(-1, x.shape[dim], width)
    ones = call.operator.name == "all"
    bits = torch.full_like(rows[:, 0], int(ones))
    for i in range(rows.shape[1]):
        bits = bits & rows[:, i] if ones else bits | rows[:, i]
    flat = result.reshape(-1, width)
    return torch.cat((bits[:, :whole], flat[:, whole:]), 1).reshape(result.shape)


@reported(
    "ml-explore/mlx#2475",
    "MLX",
    "sum prod",
    "unsigned bytes are read as signed ones",
    dtypes="uint8",
    sound=plain,
)
def signed_bytes(call: Call) -> Any:
    if call.args[0].dtype != torch.uint8 or call.kwargs.get("dtype") is not None:
        return call.run()
    return call.where(lambda x: x.view(torch.int8), (0,)).run()


@reported(
    "pytorch/pytorch#197091",
    "Inductor",
    "ldexp",
    "the result has the dtype of the mantissa, float32 where that is not floating point",
    dtypes="float16 bfloat16 int32 int64 bool",
    sound=plain,
)
def dtype_of_mantissa(call: Call) -> Any:
    x, result = call.args[0], call.run()
    return result.to(x.dtype if x.is_floating_point() else torch.float32)


@reported(
    "pytorch/pytorch#191308",
    "Inductor on the CPU",
    "bmm matmul",
    "batches of integers, one row or one column: a product and a sum, which is int64",
    dtypes="int8 int16 int32 uint8",
    sound=plain,
)
def wide_integers(call: Call) -> Any:
    a, b = call.args[:2]
    if min(a.ndim, b.ndim) < 3 or a.is_floating_point() or a.is_complex():
        return call.run()
    if a.shape[-2] != 1 and b.shape[-1] != 1:
        return call.run()
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)


@reported(
    "jax-ml/jax#37751",
    "JAX",
    "xlogy special.xlog1py",
    "0 times the logarithm of NaN is 0",
    dtypes="float32 float64",
    sound=plain,
)
def nothing_of_nan(call: Call) -> Any:
    x, y, result = *call.args[:2], call.run()
    return torch.where(torch.as_tensor(x == 0) & torch.as_tensor(y != y), 0, result)


@reported(
    "pytorch/pytorch#182343",
    "Inductor on CUDA",
    "searchsorted",
    "a slice of boundaries is read from the beginning of what it is a slice of",
    dtypes="float32 int32 int64",
    cause="offset-ignored",
    sound=contiguous_first,
)
def slice_of_boundaries(call: Call) -> Any:
    return call.where(lambda x: x.as_strided(x.shape, x.stride(), 0), (0,)).run()


@reported(
    "flagos-ai/FlagGems#6017",
    "Triton (FlagGems)",
    "scatter_add_ scatter_add",
    "of matrices, the index, the source and what is added to are taken to be contiguous",
    dtypes="float32",
    cause="strides-ignored",
    sound=plain,
)
def matrices_contiguous(call: Call) -> Any:
    x, dim, index, source = call.args[:4]
    if x.ndim != 2 or index.ndim != 2 or not index.numel():
        return call.run()
    read = as_contiguous(index).clamp(0, x.shape[dim] - 1)
    call = call.with_arg(2, read).with_arg(3, as_contiguous(source))
    room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    if call.operator.name == "scatter_add" or x.is_contiguous() or room < x.numel():
        return call.run()
    call.with_arg(0, x.as_strided(x.shape, (x.shape[1], 1), x.storage_offset())).run()
    return x


@reported(
    "pytorch/pytorch#124621",
    "MPS",
    ".mse_loss",
    "not reduced, of a permuted tensor: the losses are written in the order of memory",
    dtypes="float32 float16",
    sound=plain,
)
def permuted_losses(call: Call) -> Any:
    result = call.run()
    if call.given("reduction", 4, "mean") != "none" or result.is_contiguous() or not dense(result):
        return result

    def written(y: Tensor) -> Tensor:
        out = torch.empty_strided(y.shape, y.stride(), dtype=y.dtype)
        out.as_strided((y.numel(),), (1,)).copy_(y.reshape(-1))
        return out

    return one_of(result, written)
