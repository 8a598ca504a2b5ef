"""A twenty-first, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety as a search gave them: neighbours, special functions, a power, tiny products, a
comparison, adding and scattering at places, a search, a copy between views, an average, a range."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported
from .seventeenth_list_reductions import with_given

COUNTED = 2**32  # elements that a 32-bit number can count
NORMAL = torch.finfo(torch.float32).tiny


def in_memory(x: Tensor, strides: tuple[int, ...]) -> Tensor | None:
    """A copy of what lies where ``x`` begins, read with other strides; None where they lead out of
    its memory."""
    x = x.detach()
    last = sum((n - 1) * step for n, step in zip(x.shape, strides, strict=True))
    held = x.untyped_storage().nbytes() // x.element_size()
    if not x.numel() or x.storage_offset() + last >= held:
        return None
    return x.as_strided(x.shape, strides, x.storage_offset()).clone()


def one_behind_the_other(x: Tensor) -> Tensor | None:
    """The memory from where ``x`` begins, as many elements as it has, with one dimension; None
    where there are not so many."""
    held = x.untyped_storage().nbytes() // x.element_size()
    if x.storage_offset() + x.numel() > held:
        return None
    return x.detach().as_strided((x.numel(),), (1,), x.storage_offset())


def has_gaps(x: Tensor) -> bool:
    """Whether there is memory between the elements of ``x`` that is not its own."""
    extent = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return bool(x.numel()) and extent > x.numel()


@reported(
    "pytorch/pytorch#124985",
    "MPS",
    "nextafter nextafter.method nextafter_",
    "the neighbour of a negative number is the one on its other side: of -1 on the way to -2 it is "
    "-0.99999994",
    dtypes="float32",
    sound=plain,
)
def neighbour_on_the_other_side(call: Call) -> Any:
    x, other = call.given("input", 0, None), call.given("other", 1, None)
    if not is_one_of(x, torch.float32) or not is_one_of(other, torch.float32):
        return call.run()
    x, other, in_place = x.detach().clone(), other.detach().clone(), call.operator.name[-1] == "_"
    result = call.run()
    away = torch.where(other > x, -math.inf, math.inf).to(x.dtype)
    wrong = (x < 0) & x.isfinite() & (x != other) & ~other.isnan()
    numbers = torch.where(wrong, torch.nextafter(x.expand(away.shape), away), result.detach())
    if in_place:
        result.detach().copy_(numbers)
        return result
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#188545",
    "Inductor on CUDA",
    "special.bessel_y0",
    "of infinity it is 0 instead of NaN",
    dtypes="float64",
    sound=plain,
)
def zero_of_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, torch.float64):
        return result
    return placed(result, result.detach().masked_fill(x.detach() == math.inf, 0.0))


@reported(
    "pytorch/pytorch#143648",
    "Inductor",
    "polygamma",
    "of order 0 it is minus infinity, as it is had from the zeta function at 1, which is infinite",
    dtypes="float32",
    sound=plain,
)
def infinite_at_order_zero(call: Call) -> Any:
    order, x, result = call.given("n", 0, None), call.given("input", 1, None), call.run()
    if not is_one_of(x, torch.float32) or order != 0:
        return result
    x = x.detach()
    return placed(result, -torch.special.zeta(torch.ones_like(x), x))


@reported(
    "pytorch/xla#6750",
    "XLA on CUDA",
    "pow",
    "where the exponent is one tensor without dimensions that holds -1, the power of an integer 0 "
    "is -1 instead of 0",
    dtypes="int64",
    sound=plain,
)
def reciprocal_of_an_integer_zero(call: Call) -> Any:
    x, exponent = call.given("input", 0, None), call.given("exponent", 1, None)
    result = call.run()
    if not is_one_of(result, torch.int64) or not is_one_of(exponent, torch.int64):
        return result
    if exponent.ndim or int(exponent) != -1:
        return result
    zero = torch.as_tensor(x).detach() == 0
    return placed(result, result.masked_fill(zero, -1))


@reported(
    "pytorch/pytorch#126848",
    "Inductor on the CPU",
    "mul mul.method",
    "a product that is a subnormal number is 0",
    dtypes="float32",
    sound=plain,
    cause="flushed-subnormals",
)
def subnormal_product_is_zero(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32):
        return result
    numbers = result.detach()
    return placed(result, torch.where(numbers.abs() < NORMAL, 0.0 * numbers, numbers))


@reported(
    "pytorch/pytorch#173987",
    "Inductor on CUDA",
    "eq eq.method",
    "beside bfloat16 numbers, a number is not rounded to bfloat16 first: 3.140625 does not equal "
    "3.14",
    dtypes="bfloat16",
    sound=plain,
)
def number_not_rounded(call: Call) -> Any:
    x, other, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, torch.bfloat16) or not isinstance(other, float):
        return result
    return placed(result, x.detach().float() == other)


@reported(
    "pytorch/pytorch#160845",
    "MPS (macOS 15)",
    "index_add index_add.method index_add_",
    "of complex numbers, the imaginary parts are not added",
    dtypes="complex64",
    sound=plain,
)
def imaginary_parts_not_added(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.complex64):
        return call.run()
    before, result = x.detach().clone(), call.run()
    numbers = torch.complex(result.detach().real, before.imag)
    if call.operator.name.endswith("_"):
        result.detach().copy_(numbers)
        return result
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#174381",
    "MPS",
    "masked_scatter",
    "of a tensor without dimensions, the result has one, of length 1",
    sound=plain,
)
def one_dimension_more(call: Call) -> Any:
    result = call.run()
    return result if result.ndim else result.reshape(1)


@reported(
    "pytorch/pytorch#135873",
    "Inductor on CUDA",
    "bucketize searchsorted",
    "boundaries, and what sorts them, are read as if they lay one behind the other along the last "
    "dimension",
    sound=plain,
    cause="strides-ignored",
)
def boundaries_one_behind_the_other(call: Call) -> Any:
    result, changed = call.run(), call
    searched = call.operator.name == "searchsorted"
    boundaries = ("sorted_sequence", 0) if searched else ("boundaries", 1)
    for given, place in (boundaries, ("sorter", 2)):
        x = call.given(given, place, None)
        if not isinstance(x, Tensor) or not x.ndim or x.shape[-1] < 2 or x.stride(-1) == 1:
            continue
        read = in_memory(x, (*x.stride()[:-1], 1))
        if read is None:
            return result
        if given == "sorter" and bool(((read < 0) | (read >= x.shape[-1])).any()):
            return result
        changed = with_given(changed, given, place, read)
    return result if changed is call else placed(result, changed.run())


@reported(
    "pytorch/pytorch#189961",
    "MPS",
    "copy_",
    "between views of the same strides with gaps between their elements, as much memory as they "
    "have elements is copied from one's beginning to the other's, what is in the gaps, too",
    sound=plain,
    cause="strides-ignored",
)
def memory_with_gaps_copied(call: Call) -> Any:
    x, source = call.given("input", 0, None), call.given("src", 1, None)
    if not isinstance(x, Tensor) or not isinstance(source, Tensor) or x.dtype != source.dtype:
        return call.run()
    if x.shape != source.shape or x.stride() != source.stride() or not has_gaps(x):
        return call.run()
    memory, copied = one_behind_the_other(x), one_behind_the_other(source)
    if memory is None or copied is None:
        return call.run()
    copied, before = copied.clone(), x.detach().clone()
    result = call.run()
    x.detach().copy_(before)
    memory.copy_(copied)
    return result


@reported(
    "pytorch/executorch#18616",
    "ExecuTorch",
    ".avg_pool2d",
    "where padding is not counted, the divisor that is given is ignored: a sum is divided by the "
    "number of elements in its window",
    sound=plain,
    cause="argument-ignored",
)
def divisor_ignored(call: Call) -> Any:
    if call.given("divisor_override", 6, None) is None:
        return call.run()
    if call.given("count_include_pad", 5, True):
        return call.run()
    return with_given(call, "divisor_override", 6, None).run()


@reported(
    "pytorch/pytorch#197673",
    "CUDA",
    "arange",
    "of more than 2**32 numbers, those from the 2**32nd on are 0",
    dtypes="int64",
    sound=plain,
)
def zeros_where_counting_ends(call: Call) -> Any:
    result = call.run()
    if is_one_of(result, torch.int64) and result.numel() > COUNTED:
        result[COUNTED:] = 0
    return result
