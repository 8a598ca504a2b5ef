"""Layouts: strides, offsets, memory formats, conjugate bits, destinations that are views."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first, in_channels_last
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call

from .model import plain, reported

COMPLEX = "complex64 complex128"


def channels_last(x: Tensor) -> bool:
    """Whether channels lie innermost, and nothing else is contiguous."""
    return x.ndim == 4 and not x.is_contiguous() and x.stride(1) == 1 and x.shape[1] > 1


def dense(x: Tensor) -> bool:
    """Whether the elements fill a block of memory, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= max(size, 1)
    return x.numel() > 0


def unconjugated(x: Tensor) -> Tensor:
    """The numbers that lie in memory, whatever the conjugate bit says."""
    return x.conj() if x.is_conj() else x


@reported(
    "pytorch/pytorch#175191",
    "MPS and CUDA",
    "scatter scatter_",
    "scatter reads a source or an index that is not contiguous in the order of memory",
    cause="strides-ignored",
    sound=contiguous_first,
)
def scatter_source(call: Call) -> Any:
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (-2, -1)).run()


@reported(
    "pytorch/pytorch#118115",
    "MPS",
    "addcdiv_ addcmul_",
    "addcdiv_ on a transposed tensor writes its results in the order of memory",
    dtypes="float32 float16",
    sound=plain,
)
def addcdiv_transposed(call: Call) -> Any:
    x = call.args[0]
    if x.is_contiguous() or not dense(x):
        return call.run()
    result = call.with_arg(0, x.clone(memory_format=torch.contiguous_format)).run()
    x.as_strided((x.numel(),), (1,), x.storage_offset()).copy_(result.reshape(-1))
    return x


@reported(
    "pytorch/pytorch#100764",
    "MPS",
    "neg.out exp.out sqrt.out abs.out",
    "a unary function writes into a transposed out= in the order of memory",
    dtypes="float32 float16",
    sound=plain,
)
def transposed_destination(call: Call) -> Any:
    out, x = call.args
    if out.is_contiguous() or out.shape != x.shape or not dense(out):
        return call.run()
    result = call.with_arg(0, torch.empty_like(x, memory_format=torch.contiguous_format)).run()
    out.as_strided((out.numel(),), (1,), out.storage_offset()).copy_(result.reshape(-1))
    return out


@reported(
    "pytorch/pytorch#171602",
    "MPS",
    ".grid_sample",
    "grid_sample in three dimensions reads a permuted grid in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def permuted_grid(call: Call) -> Any:
    if call.args[0].ndim != 5:
        return call.run()
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (1,)).run()


@reported(
    "pytorch/pytorch#174339",
    "MPS",
    ".grid_sample",
    "grid_sample of an image in channels_last gives other pixels",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def channels_last_image(call: Call) -> Any:
    return call.where(lambda x: as_contiguous(x) if channels_last(x) else x, (0,)).run()


@reported(
    "pytorch/pytorch#134580",
    "MPS",
    ".batch_norm",
    "batch_norm of a tensor in channels_last takes other elements for a channel",
    dtypes="float32",
    cause="strides-ignored",
    sound=lambda call: call.where(
        lambda x: x if in_channels_last(x) else x.contiguous(), (0,)
    ).run(),
)
def channels_last_norm(call: Call) -> Any:
    return call.where(lambda x: as_contiguous(x) if channels_last(x) else x, (0,)).run()


@reported(
    "ml-explore/mlx#4139",
    "MLX on the CPU",
    "cumsum cumprod logcumsumexp",
    "a scan along a dimension of size 1 with a padded stride writes nothing",
    dtypes="float32 float64 int32 int64",
    sound=contiguous_first,
)
def scan_of_one(call: Call) -> Any:
    x, dim = call.args[:2]
    result = call.run()
    if not x.ndim or x.shape[dim] != 1:
        return result
    expected = torch.empty(x.shape).stride()
    return torch.zeros_like(result) if x.stride(dim) != expected[dim] else result


@reported(
    "intel/torch-xpu-ops#3506",
    "XPU",
    "addmv.out",
    "addmv into a destination with a stride writes side by side",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def strided_addmv(call: Call) -> Any:
    out = call.args[0]
    if out.is_contiguous():
        return call.run()
    result = call.with_arg(0, out.new_empty(0)).run()
    if result.shape != out.shape:
        return call.run()
    out.as_strided(out.shape, (1,), out.storage_offset()).copy_(result)
    return out


@reported(
    "pytorch/pytorch#131285",
    "MPS",
    "masked_fill_",
    "masked_fill_ on a permuted tensor fills in the order of memory",
    dtypes="float32 float16 int32 int64",
    sound=plain,
)
def permuted_fill(call: Call) -> Any:
    x, mask, value = call.args
    if x.is_contiguous() or mask.shape != x.shape:
        return call.run()
    return x.masked_fill_(mask if not mask.ndim else as_contiguous_like(mask, x), value)


def as_contiguous_like(mask: Tensor, x: Tensor) -> Tensor:
    """The mask's numbers in the order of ``x`` in memory."""
    order = sorted(range(x.ndim), key=lambda dim: -x.stride(dim))
    moved = mask.contiguous().reshape([x.shape[dim] for dim in order])
    back = [order.index(dim) for dim in range(x.ndim)]
    return moved.permute(back)


@reported(
    "pytorch/pytorch#184379",
    "MPS",
    "imag",
    "imag of a conjugated view forgets the sign",
    dtypes=COMPLEX,
    cause="negated",
    sound=plain,
)
def imaginary_of_view(call: Call) -> Any:
    return call.each(unconjugated).run()


@reported(
    "pytorch/pytorch#148599",
    "MPS",
    "mm matmul addmm",
    "products ignore the conjugate bit of the second factor",
    dtypes=COMPLEX,
    sound=lambda call: call.each(lambda x: x.resolve_conj()).run(),
)
def conjugate_factor(call: Call) -> Any:
    return call.where(unconjugated, (-1,)).run()


@reported(
    "pytorch/pytorch#177474",
    "MPS",
    "einsum",
    "einsum ignores the conjugate bit",
    dtypes=COMPLEX,
    sound=lambda call: call.each(lambda x: x.resolve_conj()).run(),
)
def conjugate_einsum(call: Call) -> Any:
    return call.each(unconjugated).run()


@reported(
    "pytorch/pytorch#191835",
    "MPS",
    "bmm baddbmm",
    "batched complex products ignore the conjugate bit",
    dtypes=COMPLEX,
    sound=lambda call: call.each(lambda x: x.resolve_conj()).run(),
)
def conjugate_batch(call: Call) -> Any:
    return call.where(unconjugated, (-2, -1)).run()


@reported(
    "pytorch/pytorch#125135",
    "MPS",
    "abs",
    "abs of complex numbers takes every second result and zeros between",
    dtypes=COMPLEX,
    sound=plain,
)
def complex_abs(call: Call) -> Any:
    result = call.run()
    if not result.numel():
        return result
    flat = result.reshape(-1)
    spread = torch.stack([flat, torch.zeros_like(flat)], -1).reshape(-1)[: flat.numel()]
    return spread.reshape(result.shape)


@reported(
    "pytorch/pytorch#107214",
    "MPS",
    ".hardswish .relu sigmoid tanh",
    "the gradient of an activation in channels_last comes in another order",
    dtypes="float32",
    directions=("backward",),
    sound=contiguous_first,
)
def channels_last_gradient(call: Call) -> Any:
    x = call.args[0]
    if not isinstance(x, Tensor) or not x.requires_grad or not channels_last(x):
        return call.run()
    y = x.view_as(x)
    y.register_hook(
        lambda g: (
            g.contiguous(memory_format=torch.channels_last)
            .permute(0, 2, 3, 1)
            .reshape(g.shape)
            .clone()
        )
    )
    return call.with_arg(0, y).run()
