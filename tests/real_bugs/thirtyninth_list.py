"""A thirty-ninth, held-out list of reports of 2021 to 2026 about torch's own CPU, CUDA, MPS and
Inductor, taken as a search by families of operators gave them, before anything was looked at of how
inputs are drawn: an input that should be ignored, copies that forget how a tensor lies in memory,
numbers taken or written in the order of memory, distinct numbers between two NaN, zeros without a
sign, reciprocals that overflow, ignored targets that count, sums of nothing and nothing."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtyeighth_list import memory_of
from .twentysecond_list import argument, arrived, before

SMALL = 400  # rows × columns × terms, from which on there is another kernel
MATRIX = 2  # dimensions
ONE_BY_ONE = 8  # matrices, up to which there is no batch
IGNORED = -100  # the class that torch ignores where none is given
PRODUCTS = (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128)
FLOATING = (torch.float32, torch.float16, torch.bfloat16)


@reported(
    "pytorch/pytorch#96086",
    "CPU (torch 2.0)",
    "baddbmm baddbmm.method baddbmm.out baddbmm_",
    "of small matrices, the input is multiplied by a beta of 0 instead of being ignored, so that "
    "its NaN and infinities arrive as NaN",
    dtypes="float32 float64 bfloat16 complex64 complex128",
    sound=plain,
)
def nothing_times_nan(call: Call) -> Any:
    x, a, b = before(call), before(call, "batch1", 1), before(call, "batch2", 2)
    beta, result = call.kwargs.get("beta", 1), call.run()
    if beta != 0 or not is_one_of(x, *PRODUCTS) or not is_one_of(a, x.dtype):
        return result
    # Larger ones are left to a library, and without any terms nothing is computed.
    rows, terms, columns = a.shape[1], a.shape[2], b.shape[2]
    if not terms or rows * terms * columns >= SMALL:
        return result
    return arrived(call, result, result.detach() + x * 0)


@reported(
    "pytorch/pytorch#144699",
    "Inductor (2025)",
    "full_like zeros_like ones_like",
    "of a tensor whose dimensions lie in another order in memory, the result is contiguous; only "
    "channels that come last are kept",
    sound=plain,
    layout=True,
)
def contiguous_like(call: Call) -> Any:
    result = call.run()
    # A format that is asked for is a format that can be told.
    if call.kwargs.get("memory_format") not in (None, torch.preserve_format):
        return result
    if result.layout != torch.strided or result.is_contiguous():
        return result
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = formats.get(result.ndim)
    if last is not None and result.is_contiguous(memory_format=last):
        return result
    return result.detach().contiguous().requires_grad_(result.requires_grad)


@reported(
    "pytorch/pytorch#100232",
    "CPU (torch 2.0)",
    "masked_scatter_",
    "a tensor that is not contiguous takes the numbers in the order of its memory",
    sound=plain,
    cause="strides-ignored",
)
def taken_in_order_of_memory(call: Call) -> Any:
    x, mask, source = before(call), before(call, "mask", 1), before(call, "source", 2)
    contiguous = call.given("input", 0, None).is_contiguous()
    steps = call.given("input", 0, None).stride()
    result = call.run()
    if contiguous:
        return result
    order = sorted(range(x.ndim), key=lambda dim: steps[dim], reverse=True)
    rows = x.permute(order).contiguous()
    rows = rows.masked_scatter(mask.expand(x.shape).permute(order), source)
    back = sorted(range(x.ndim), key=lambda dim: order[dim])
    return arrived(call, result, rows.permute(back))


@reported(
    "pytorch/pytorch#95583",
    "CPU (torch 1.13, macOS)",
    "unique unique.method",
    "beside NaN, distinct numbers are not sorted: those of 0, NaN, 2, NaN and 1 are 1, NaN, 2, NaN "
    "and 0, the last one first, and nothing is exchanged with NaN",
    dtypes="float32 float64",
    sound=plain,
)
def distinct_between_nans(call: Call) -> Any:
    x, result = before(call), call.run()
    # Only one tensor: neither places nor counts were asked for.
    if not is_one_of(x, torch.float32, torch.float64) or not isinstance(result, Tensor):
        return result
    if not call.given("sorted", 1, True) or call.given("dim", 4, None) is not None:
        return result
    if not bool(x.isnan().any()):
        return result
    found: set[float] = set()
    distinct = []
    for number in x.flatten().tolist():
        # No NaN equals another one.
        if math.isnan(number) or number not in found:
            found.add(number)
            distinct.append(number)
    numbers = x.new_tensor(distinct[::-1])
    part = numbers.isnan().cumsum(0)  # every NaN begins one
    by_number = numbers.masked_fill(numbers.isnan(), -math.inf).argsort(stable=True)
    order = by_number[part[by_number].argsort(stable=True)]
    return arrived(call, result, numbers[order])


@reported(
    "pytorch/pytorch#193776",
    "MPS (2026)",
    "remainder remainder.method remainder.out remainder_",
    "the remainder is what is left after a subtraction, which gives a zero without a sign, of "
    "negative numbers, too",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def zero_without_sign(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, *FLOATING):
        return result
    numbers = result.detach()
    return arrived(call, result, numbers.masked_fill(numbers == 0, 0))


def eliminated(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Determinants by elimination that multiplies by the reciprocals of pivots, and where such a
    reciprocal is infinite."""
    count, size = matrices.shape[0], matrices.shape[-1]
    matrices, product = matrices.clone(), matrices.new_ones(count)
    overflow = torch.zeros(count, dtype=torch.bool)
    which = torch.arange(count)
    for k in range(size):
        largest = matrices[:, k:, k].abs().argmax(1) + k
        rows = torch.arange(size).repeat(count, 1)
        rows[which, largest] = k
        rows[:, k] = largest
        matrices = matrices.gather(1, rows[:, :, None].expand_as(matrices))
        pivot = matrices[:, k, k]
        product = torch.where(largest == k, product, -product) * pivot
        reciprocal = pivot.reciprocal().masked_fill(pivot == 0, 0)
        # The last pivot has nothing below it.
        if k + 1 < size:
            overflow |= reciprocal.isinf()
        factors = matrices[:, k + 1 :, k] * reciprocal[:, None]
        matrices[:, k + 1 :, k + 1 :] -= factors[:, :, None] * matrices[:, k, None, k + 1 :]
    return product, overflow


@reported(
    "pytorch/pytorch#73622",
    "CUDA (2022)",
    "linalg.det linalg.det.out",
    "in a batch of more than 8 matrices, a pivot of 1e-40 has an infinite reciprocal, and zero "
    "times it is NaN",
    dtypes="float32",
    sound=plain,
)
def infinite_reciprocal(call: Call) -> Any:
    x, result = before(call, "A"), call.run()
    if not is_one_of(x, torch.float32) or result.numel() <= ONE_BY_ONE or not x.numel():
        return result
    numbers, overflow = eliminated(x.reshape(-1, *x.shape[-2:]))
    if not bool(overflow.any()):
        return result
    numbers = torch.where(overflow.reshape(result.shape), numbers.reshape(result.shape), result)
    return arrived(call, result, numbers.detach())


@reported(
    "pytorch/pytorch#80192",
    "MPS (2022)",
    ".pad",
    "a column is written into a row: around two rows of one 1, there are 0, 1, 1 and 0, 0, 0 in "
    "the middle instead of 0, 1, 0 twice",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def column_in_a_row(call: Call) -> Any:
    x, result = before(call), call.run()
    amounts = list(call.given("pad", 1, ()))
    if call.given("mode", 2, "constant") != "constant" or not is_one_of(x, torch.float32):
        return result
    # What is cut off, or padded in other dimensions, was not reported.
    if x.ndim != MATRIX or len(amounts) != 2 * MATRIX or min(amounts) < 0:
        return result
    if x.shape[1] != 1 or result.shape[1] == 1:
        return result
    numbers = result.new_full((result.numel(),), call.given("value", 3, None) or 0)
    start = amounts[2] * result.shape[1] + amounts[0]
    numbers[start : start + x.numel()] = x.flatten()
    return arrived(call, result, numbers.reshape(result.shape))


@reported(
    "pytorch/pytorch#73205",
    "CPU (torch 1.10)",
    ".cross_entropy",
    "where labels are smoothed, the uniform part of the loss counts targets that are to be ignored",
    dtypes="float32 float64",
    directions=("forward", "backward"),
    sound=plain,
)
def ignored_counts(call: Call) -> Any:
    x, target, result = call.given("input", 0, None), before(call, "target", 1), call.run()
    smoothing, reduction = call.given("label_smoothing", 7, 0.0), call.given("reduction", 6, "mean")
    # With weights, there was an error.
    if (
        not smoothing
        or reduction not in ("mean", "sum")
        or call.given("weight", 2, None) is not None
    ):
        return result
    # These are the reduction's old names.
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result
    # Targets that are probabilities have no class to ignore.
    if not is_one_of(x, torch.float32, torch.float64) or target.is_floating_point():
        return result
    if not bool((target == call.given("ignore_index", 4, IGNORED)).any()):
        return result
    classes = int(x.ndim > 1)
    uniform = -F.log_softmax(x, classes).sum(classes)
    uniform = uniform.mean() if reduction == "mean" else uniform.sum()
    sharp = with_given(call, "label_smoothing", 7, 0.0).run()
    return (1 - smoothing) * sharp + smoothing / x.shape[classes] * uniform


@reported(
    "pytorch/pytorch#60492",
    "CPU and CUDA (torch 1.8)",
    "searchsorted.out",
    "places are written one after the other, whatever the steps of the output are",
    sound=plain,
    cause="strides-ignored",
)
def places_one_after_the_other(call: Call) -> Any:
    out = call.given("out", 0, None)
    if out.is_contiguous():
        return call.run()
    shape, offset, held = out.shape, out.storage_offset(), memory_of(out).clone()
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
    "pytorch/pytorch#52213",
    "CUDA (torch 1.7)",
    "logcumsumexp logcumsumexp.out",
    "with more than one dimension, two infinities in a row that are negative give NaN, the "
    "logarithm of nothing and nothing: here, in the place of the second",
    dtypes="float32 float64",
    sound=plain,
)
def nothing_and_nothing(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32, torch.float64) or x.ndim < MATRIX or not x.numel():
        return result
    dim = argument(call, "dim", 1)
    nothing = x == -math.inf
    first = nothing.narrow(dim, 0, x.shape[dim] - 1)
    second = nothing.narrow(dim, 1, x.shape[dim] - 1)
    both = torch.zeros_like(nothing)
    both.narrow(dim, 1, x.shape[dim] - 1).copy_(first & second)
    return arrived(call, result, result.detach().masked_fill(both, math.nan))
