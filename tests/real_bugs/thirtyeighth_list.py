"""A thirty-eighth, held-out list of reports of 2020 to 2026 about torch's own CPU, CUDA, ROCm, MPS
and XPU, taken as a search by families of operators gave them, before anything was looked at of how
inputs are drawn: masks that hide every key, NaN that turns into zero, the greatest that are passed
over, triangles read and written in another order, medians of mostly NaN, magnitudes that overflow,
sequences in place of batches, rows of a kernel that are left out, vectors that never arrive."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtyseventh_list import pair
from .twentysecond_list import arrived, before

HEADS = 4  # dimensions of a batch of heads
ONE_CHANNEL = 1
KERNEL = [16, 16]
STRIDE = [10, 10]


def memory_of(x: Tensor) -> Tensor:
    """What lies in the memory of a tensor, from its very beginning, as one long vector."""
    x = x.detach()
    return x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)


def filled(numbers: Tensor, count: int) -> Tensor:
    """As many numbers as that; beyond the memory, there are zeros."""
    numbers = numbers[:count]
    return torch.cat([numbers, numbers.new_zeros(count - numbers.numel())])


@reported(
    "pytorch/pytorch#110213",
    "CUDA (torch 2.1)",
    ".scaled_dot_product_attention",
    "where a mask adds the least number to every key, there is NaN instead of a mean",
    dtypes="float32",
    sound=plain,
)
def nan_where_all_is_hidden(call: Call) -> Any:
    query, mask, result = call.given("query", 0, None), call.given("attn_mask", 3, None), call.run()
    # With other dimensions, there is another kernel.
    if not is_one_of(query, torch.float32) or query.ndim != HEADS:
        return result
    if not is_one_of(mask, torch.float32):
        return result
    hidden = (mask.detach() == torch.finfo(mask.dtype).min).all(-1, keepdim=True)
    return arrived(call, result, result.detach().masked_fill(hidden, math.nan))


@reported(
    "intel/torch-xpu-ops#1139",
    "XPU (before torch 2.6)",
    ".softshrink .softshrink.out",
    "NaN is neither above nor below the bounds, and turns into zero",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
    cause="nan-dropped",
)
def shrunk_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    return arrived(call, result, result.detach().masked_fill(x.isnan(), 0))


@reported(
    "intel/torch-xpu-ops#4604",
    "XPU (torch 2.14)",
    "topk topk.method",
    "a flag from an earlier step ends the search for the last of the greatest: 7, 6, 5, 5 and 5 "
    "instead of 9, 9, 9, 8 and 7; here, those are taken that begin with the one searched for",
    dtypes="float32",
    sound=plain,
)
def from_the_last_on(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not x.ndim or not result[0].numel():
        return result
    count, dim = call.given("k", 1, None), call.given("dim", 2, -1)
    largest = call.given("largest", 3, True)
    ordered, order = x.sort(dim=dim, descending=largest, stable=True)
    # Only one number that has no equal is searched for by its first digits.
    last = ordered.narrow(dim, count - 1, 1)
    alone = (x == last).sum(dim, keepdim=True) == 1
    start = min(count - 1, x.shape[dim] - count)
    values = torch.where(alone, ordered.narrow(dim, start, count), result[0].detach())
    indices = torch.where(alone, order.narrow(dim, start, count), result[1])
    return arrived(call, result[0], values), indices


def from_the_beginning(x: Tensor) -> Tensor:
    """What is read if a tensor is taken for one whose rows lie one after the other."""
    if x.is_contiguous():
        return x.detach()
    return filled(memory_of(x), x.numel()).reshape(x.shape)


@reported(
    "kulinseth/pytorch#297",
    "MPS (2023)",
    "linalg.solve_triangular",
    "matrices that are not contiguous are read row after row, from where their memory begins",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def triangles_row_after_row(call: Call) -> Any:
    a, b, result = call.given("A", 0, None), call.given("B", 1, None), call.run()
    if not is_one_of(a, torch.float32) or not is_one_of(b, torch.float32):
        return result
    if a.is_contiguous() and b.is_contiguous():
        return result
    read = with_given(call, "A", 0, from_the_beginning(a))
    with torch.no_grad():
        numbers = with_given(read, "B", 1, from_the_beginning(b)).run()
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#195861",
    "MPS (2026)",
    "linalg.solve_triangular.out",
    "an output that is not contiguous is wrong: here, it is written row after row",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def solved_row_after_row(call: Call) -> Any:
    out = call.given("out", 0, None)
    if not is_one_of(out, torch.float32) or out.is_contiguous():
        return call.run()
    shape, offset = out.shape, out.storage_offset()
    held = memory_of(out).clone()
    result = call.run()
    # An output of another shape gets memory that suits it.
    if result.shape != shape:
        return result
    end = min(held.numel(), offset + result.numel())
    held[offset:end] = result.detach().reshape(-1)[: end - offset]
    # What lies between the numbers of a view is not ours to write to.
    result.detach().copy_(held.as_strided(result.shape, result.stride(), offset))
    return result


@reported(
    "pytorch/pytorch#38018",
    "CUDA (torch 1.5)",
    "median median.method",
    "along a dimension, where the number in the middle is NaN, nothing is found and the result is "
    "what was in memory: here, zero",
    dtypes="float32 float64",
    sound=plain,
)
def median_of_mostly_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    # Without a dimension, there is no index to be found.
    if not is_one_of(x, torch.float32, torch.float64) or isinstance(result, Tensor) or not x.ndim:
        return result
    dim = call.given("dim", 1, None)
    values, indices = result
    # NaN comes last in the order, and of two in the middle the first is taken.
    numbers = (~x.isnan()).sum(dim, keepdim=values.ndim == x.ndim)
    lost = numbers <= (x.shape[dim] - 1) // 2
    if not bool(lost.any()):
        return result
    return (
        arrived(call, values, values.detach().masked_fill(lost, 0)),
        indices.masked_fill(lost, 0),
    )


@reported(
    "pytorch/pytorch#47358",
    "CPU (torch 1.8)",
    "abs abs.method abs.out sqrt sqrt.method sqrt.out sqrt_",
    "the magnitude is the root of a sum of squares, which overflow; a root has it minus the real "
    "part, where digits cancel out",
    dtypes="complex64 complex128",
    sound=plain,
)
def magnitude_by_squares(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex64, torch.complex128):
        return result
    magnitude = (x.real * x.real + x.imag * x.imag).sqrt()
    if call.operator.name.startswith("abs"):
        return arrived(call, result, magnitude)
    half = math.sqrt(2) / 2
    real, imag = half * (magnitude + x.real).sqrt(), half * (magnitude - x.real).sqrt()
    return arrived(call, result, torch.complex(real, imag.copysign(x.imag)))


@reported(
    "pytorch/pytorch#80306",
    "MPS (2022)",
    "lstm",
    "where batches come first, in the output sequences do",
    dtypes="float32",
    sound=plain,
    cause="transposed",
)
def sequences_first(call: Call) -> Any:
    result = call.run()
    # The other form has packed sequences, without batches.
    if not is_one_of(call.given("input", 0, None), torch.float32):
        return result
    if not isinstance(call.given("hx", 1, None), (tuple, list)):
        return result
    if not call.given("batch_first", 8, False):
        return result
    out, *states = result
    return (out.transpose(0, 1).contiguous(), *states)


@reported(
    "pytorch/pytorch#102968",
    "ROCm (torch 2.0, MI250X)",
    ".conv2d",
    "of one channel, with a kernel of 16 and a stride of 10, results are unrelated: here, the "
    "lower half of the kernel is left out",
    dtypes="float32",
    sound=plain,
)
def half_a_kernel(call: Call) -> Any:
    x, weight, result = before(call), before(call, "weight", 1), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(weight, torch.float32):
        return result
    if weight.shape[1] != ONE_CHANNEL or list(weight.shape[2:]) != KERNEL:
        return result
    if call.given("groups", 6, 1) != 1 or pair(call.given("stride", 3, 1)) != STRIDE:
        return result
    weight[:, :, KERNEL[0] // 2 :] = 0
    with torch.no_grad():
        numbers = with_given(call, "weight", 1, weight).run()
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#47098",
    "CPU (torch 1.8, aarch64, compiled by gcc 7.5)",
    "hypot hypot.out hypot_",
    "of 1 and 1 there is 1: what is computed for a vector never arrives, and the first argument "
    "comes out",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def first_argument(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(other, torch.float32):
        return result
    return arrived(call, result, x.expand(result.shape))
