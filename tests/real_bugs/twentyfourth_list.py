"""A twenty-fourth, held-out list of reports of 2024 to 2026 about torch and its own backends, taken
as a search gave them, before anything was looked at of how inputs are drawn: activations and their
gradients, numbers that are not rounded to the tensor's format, divisions, padding, pooling,
triangles and folding in large memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

ON_MPS = (torch.float16, torch.float32, torch.bfloat16)
SHORT = (torch.float16, torch.bfloat16)
NORMAL = torch.finfo(torch.float32).tiny  # bfloat16 has the same exponents
PLANES = 2**16  # what the gradient of padding is 0 from
UNSIGNED = 2**32  # elements that 32 bits count
SIGNED = 2**31  # elements that 32 bits with a sign count
LEAST = 1e-30  # divisors whose reciprocals are ordinary numbers
FLAT, PLANE = 2, 4  # numbers that tell the padding of one dimension, of two


@reported(
    "pytorch/pytorch#124834",
    "MPS (torch 2.3)",
    ".elu .elu.out .elu_",
    "where the result does not lie in memory row by row (that of a transposed tensor), the numbers "
    "are written row by row all the same",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="depends-on-layout",
)
def written_row_by_row(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, *ON_MPS) or result.is_contiguous():
        return result
    memory = torch.empty_like(result)
    if memory.stride() != result.stride():
        return result  # there are gaps
    line = memory.as_strided((memory.numel(),), (1,))
    line.copy_(result.detach().reshape(-1))
    return arrived(call, result, memory)


@reported(
    "pytorch/pytorch#135447",
    "MPS",
    ".pad",
    "of edges that are repeated along one or two dimensions, the gradient is 0 where the third "
    "dimension from the end has 2**16 elements or more",
    dtypes="float16 float32 bfloat16",
    directions=("backward",),
    sound=plain,
    cause="zero",
)
def no_gradient_of_many_planes(call: Call) -> Any:
    x, around = call.given("input", 0, None), call.given("pad", 1, ())
    if not is_one_of(x, *ON_MPS) or call.given("mode", 2, "constant") != "replicate":
        return call.run()
    if len(around) not in (FLAT, PLANE) or x.ndim < 3 or x.shape[-3] < PLANES:
        return call.run()
    if not x.requires_grad:
        return call.run()
    given = x.view_as(x)
    given.register_hook(torch.zeros_like)
    return call.with_arg(0, given).run()


@reported(
    "pytorch/pytorch#183710",
    "MPS",
    ".softshrink .softshrink.out",
    "of NaN there is 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="nan-dropped",
)
def shrunk_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *ON_MPS):
        return result
    return arrived(call, result, result.detach().masked_fill(x.isnan(), 0.0))


@reported(
    "pytorch/pytorch#186875",
    "Inductor on the CPU",
    "fmod fmod.method fmod_ fmod.out remainder remainder.method remainder_ remainder.out",
    "beside numbers of 16 bits, a number is not rounded to their format first: of -1.703125 by 1.7 "
    "the remainder is 1.6953125 instead of 0",
    dtypes="bfloat16 float16",
    sound=plain,
)
def modulus_not_rounded(call: Call) -> Any:
    x, other, result = before(call), argument(call, "other", 1), call.run()
    if not is_one_of(x, *SHORT) or not isinstance(other, float):
        return result
    divided = torch.fmod if call.operator.name.startswith("fmod") else torch.remainder
    return arrived(call, result, divided(x.to(torch.float32), other).to(x.dtype))


@reported(
    "pytorch/pytorch#185480",
    "Inductor on CUDA",
    ".celu .celu.out .celu_",
    "of a negative subnormal bfloat16 number there is 0",
    dtypes="bfloat16",
    sound=plain,
    cause="flushed-subnormals",
)
def nothing_of_a_subnormal_number(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.bfloat16):
        return result
    subnormal = (x.float() < 0) & (x.float() > -NORMAL)
    return arrived(call, result, result.detach().masked_fill(subnormal, 0.0))


@reported(
    "pytorch/pytorch#128306",
    "Inductor on the CPU",
    "gt gt.out gt_",
    "beside numbers of 16 bits, a number is not rounded to their format first: the bfloat16 number "
    "beside 0.2 is greater than 0.2",
    dtypes="bfloat16 float16",
    sound=plain,
)
def greater_than_not_rounded(call: Call) -> Any:
    x, other, result = before(call), argument(call, "other", 1), call.run()
    if not is_one_of(x, *SHORT) or not isinstance(other, float):
        return result
    return arrived(call, result, torch.gt(x.to(torch.float32), other))


@reported(
    "pytorch/pytorch#136611",
    "CUDA (torch 2.1)",
    "triu_ tril_",
    "what lies behind 2**32 elements is left as it is",
    sound=plain,
)
def triangle_of_the_first_rows(call: Call) -> Any:
    x = call.args[0].detach()
    if not x.is_contiguous() or x.numel() <= UNSIGNED:
        return call.run()
    kept = x.view(-1)[UNSIGNED:].clone()
    result = call.run()
    result.detach().view(-1)[UNSIGNED:].copy_(kept)
    return result


@reported(
    "pytorch/pytorch#185663",
    "MPS",
    ".fold",
    "of columns with more than 2**32 elements, those behind are read 2**32 elements before",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def columns_counted_in_32_bits(call: Call) -> Any:
    columns, result = before(call), call.run()
    size = columns.shape[-1] * columns.shape[-2]
    if not is_one_of(columns, *ON_MPS) or size <= UNSIGNED:
        return result
    lines = columns.contiguous().reshape(-1, size)
    read = torch.empty_like(lines)
    for start in range(0, size, UNSIGNED):
        count = min(UNSIGNED, size - start)
        read[:, start : start + count] = lines[:, :count]
    numbers = call.with_arg(0, read.reshape(columns.shape)).run()
    return arrived(call, result, numbers.detach())


@reported(
    "pytorch/pytorch#185605",
    "Inductor on CUDA",
    "add add.method add.out add_",
    "to bfloat16 numbers, a float64 tensor without dimensions is added as it is, not rounded to "
    "bfloat16 first: of 0.1 and -0.1 there is 9.775e-05",
    dtypes="bfloat16",
    sound=plain,
)
def second_term_not_rounded(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(x, torch.bfloat16) or not is_one_of(other, torch.float64):
        return result
    if other.ndim or not x.ndim or not is_one_of(result, torch.bfloat16):
        return result
    more = (other * call.kwargs.get("alpha", 1)).to(torch.float32)
    return arrived(call, result, (x.to(torch.float32) + more).to(torch.bfloat16))


@reported(
    "pytorch/pytorch#185472",
    "Inductor on CUDA",
    ".hardtanh .hardtanh_",
    "bfloat16 numbers are compared with bounds that are rounded to bfloat16: the number "
    "beside 0.7, which is below it, gets no gradient",
    dtypes="bfloat16",
    directions=("backward",),
    sound=plain,
)
def no_gradient_at_rounded_bounds(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.bfloat16) or not x.requires_grad:
        return call.run()
    low, high = (
        torch.tensor(call.given(name, position, bound), dtype=torch.bfloat16)
        for name, position, bound in (("min_val", 1, -1.0), ("max_val", 2, 1.0))
    )
    outside = (x.detach() <= low) | (x.detach() >= high)
    given = x if call.operator.name.endswith("_") else x.view_as(x)
    given.register_hook(lambda leaving: leaving.masked_fill(outside, 0.0))
    return call.with_arg(0, given).run()


@reported(
    "pytorch/pytorch#177740",
    "Inductor on CUDA",
    "floor_divide floor_divide_ floor_divide.out",
    "what is rounded down is the product with an approximate reciprocal: off by 1 where the "
    "quotient is, or almost is, a whole number",
    dtypes="float32",
    sound=plain,
    cause="approximation",
)
def times_the_reciprocal(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, torch.float32):
        return result
    x, other = (torch.as_tensor(value).to(torch.float32) for value in (x, other))
    product = x * other.reciprocal()
    usual = product.isfinite() & (other.abs() > LEAST) & (other.abs() < 1 / LEAST)
    numbers = torch.where(usual, product.floor(), result.detach())
    return arrived(call, result, numbers)


def first_read(x: Tensor) -> Tensor:
    """What is read with a place that 32 bits with a sign count: 0 behind 2**31 elements."""
    read = x.clone()
    read.view(-1)[SIGNED:] = 0
    return read


@reported(
    "pytorch/pytorch#194460",
    "MPS",
    ".max_pool2d",
    "of what lies behind 2**31 elements, the largest number is 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def pooled_up_to_31_bits(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *ON_MPS) or x.numel() <= SIGNED or not x.is_contiguous():
        return result
    numbers = call.with_arg(0, first_read(x)).run()
    if isinstance(result, Tensor):
        return arrived(call, result, numbers)
    return arrived(call, result[0], numbers[0]), numbers[1]
