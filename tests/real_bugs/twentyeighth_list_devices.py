"""A twenty-eighth, held-out list of reports of 2024 to 2026 about torch's own backends on MPS, CUDA
and ROCm, taken as a search gave them, before anything was looked at of how inputs are drawn:
logarithms and inverse transforms that are scaled by a constant on CUDA, extremes of int64 numbers
and the left singular vectors of matrices without full rank on MPS, and results that are never
written."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

ON_MPS = (torch.float16, torch.float32, torch.bfloat16)
COMPLEX = (torch.complex64, torch.complex128)
LOG2_OF_E = (1.4426950408889634, 2.0355273740931033e-17)  # its upper and its lower half
SPLITTER = 2.0**27 + 1  # halves the 53 bits of a float64 number
LANES = 32  # of a Metal simdgroup, or of a wavefront of RDNA
GROUP = 1024  # the most threads of one Metal threadgroup
LARGE = 2**32


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two numbers of 26 bits whose sum is ``x``."""
    shifted = x * SPLITTER
    upper = shifted - (shifted - x)
    return upper, x - upper


def fused(x: Tensor, factor: float, addend: Tensor) -> Tensor:
    """``x * factor + addend`` of float64 numbers, rounded once (but for a second rounding of the
    small terms)."""
    y = torch.full_like(x, factor)
    product, (a, b), (c, d) = x * y, halves(x), halves(y)
    rest = ((a * c - product) + a * d + b * c) + b * d
    return product + (rest + addend)


@reported(
    "pytorch/pytorch#156929",
    "CUDA (torch 2.7)",
    "log2 log2.out log2_",
    "the natural logarithm of a float64 number times the binary logarithm of e: of some powers of "
    "two (2^3, 2^6, 2^12, ...) the next number below",
    dtypes="float64",
    sound=plain,
)
def natural_logarithm_scaled(call: Call) -> Any:
    x, result = before(call), call.run()
    computed = x.dtype if x.is_floating_point() or x.is_complex() else torch.get_default_dtype()
    if computed != torch.float64 or not is_one_of(result, torch.float64):
        return result
    natural = x.to(torch.float64).log()
    numbers = fused(natural, LOG2_OF_E[0], natural * LOG2_OF_E[1])
    numbers = torch.where(natural.isfinite() & (natural != 0), numbers, result.detach())
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#154521",
    "CUDA (torch 2.7)",
    "fft.ifft2 fft.ifft2.out fft.ifft fft.ifft.out fft.ifftn fft.ifftn.out",
    "the transform is scaled by a complex number: beside a part that is infinite or NaN, the other "
    "part is NaN",
    dtypes="complex64 complex128 float32 float64",
    sound=plain,
)
def scaled_by_a_complex_number(call: Call) -> Any:
    norm, result = argument(call, "norm", 3), call.run()
    if norm == "forward" or not is_one_of(result, *COMPLEX) or result.numel() <= 1:
        return result
    real, imaginary = result.detach().real, result.detach().imag
    numbers = torch.complex(real - imaginary * 0, imaginary + real * 0)
    numbers = torch.where(numbers.isnan(), numbers, result.detach())
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#127281",
    "CUDA (torch 1.11)",
    "linalg.inv linalg.inv.out linalg.inv_ex",
    "the inverse of any matrix is the identity",
    sound=plain,
)
def identity_as_inverse(call: Call) -> Any:
    result = call.run()
    inverse = result if isinstance(result, Tensor) else result[0]
    identity = torch.eye(inverse.shape[-1], dtype=inverse.dtype).expand(inverse.shape)
    if isinstance(result, Tensor):
        return arrived(call, result, identity)
    return one_of(result, lambda x: placed(x, identity))


@reported(
    "pytorch/pytorch#178123",
    "CUDA",
    ".batch_norm .instance_norm",
    "of float32 numbers whose squares overflow (about 1e30), the variance does as well, and the "
    "channel is NaN",
    dtypes="float32",
    sound=plain,
    cause="early-overflow",
)
def nan_where_the_variance_overflows(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    by_instance = call.operator.name.endswith("instance_norm")
    if not call.given("use_input_stats" if by_instance else "training", 5, by_instance):
        return result
    dims = [dim for dim in range(x.ndim) if dim > 1 or (dim == 0 and not by_instance)]
    if not dims or not x.numel():
        return result
    finite = x.isfinite().all(dims, keepdim=True)
    far = x.double() - x.double().mean(dims, keepdim=True)
    overflows = (far * far).sum(dims, keepdim=True) > torch.finfo(torch.float32).max
    return placed(result, result.detach().masked_fill(finite & overflows, math.nan))


@reported(
    "pytorch/pytorch#196112",
    "MPS (torch 2.14)",
    "linalg.svd linalg.svd.squares",
    "a left singular vector is the matrix times the right one over the singular value: where "
    "that is no more than rounding, of a matrix without full rank, the vector is 0",
    dtypes="float32 complex64",
    sound=plain,
)
def no_left_vectors_of_the_null_space(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32, torch.complex64) or not isinstance(result, tuple):
        return result
    values = result[1].detach()
    if not values.numel():
        return result
    noise = values[..., :1] * (torch.finfo(torch.float32).eps * max(x.shape[-2:]))
    count, left = values.shape[-1], result[0].detach().clone()
    left[..., :count] = left[..., :count].masked_fill((values <= noise)[..., None, :], 0)
    return one_of(result, lambda vectors: placed(vectors, left))


@reported(
    "pytorch/pytorch#176767",
    "MPS (before torch 2.12)",
    ".scaled_dot_product_attention grouped_query_attention",
    "where values have another width than queries and no gradient is recorded, the result has the "
    "width of the queries: first the numbers, one after the other, then what was never written",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def width_of_the_queries(call: Call) -> Any:
    query, value, result = call.given("query", 0, None), call.given("value", 2, None), call.run()
    if call.tracked or not is_one_of(result, *ON_MPS) or query.ndim < 3:
        return result
    if call.given("dropout_p", 4, 0.0) or query.shape[-1] == value.shape[-1]:
        return result
    numbers = result.new_zeros((*result.shape[:-1], query.shape[-1]))
    count = min(numbers.numel(), result.numel())
    numbers.view(-1)[:count] = result.reshape(-1)[:count]
    return numbers


@reported(
    "pytorch/pytorch#193385",
    "MPS (torch 2.13 on macOS 14)",
    "mm.out addmm.out bmm.out",
    "nothing is written to a destination that does not lie at the beginning of its memory",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def slice_not_written(call: Call) -> Any:
    out = call.given("out", 0, None)
    if not is_one_of(out, *ON_MPS) or not out.storage_offset():
        return call.run()
    held = out.detach().clone()
    result = call.run()
    if result.shape == held.shape:
        result.detach().copy_(held)
    return result


def lanes_are_idle(x: Tensor, dim: Any) -> bool:
    """Whether each result is reduced by a threadgroup of fewer than 1024 threads, in more than one
    simdgroup: of all numbers, or of numbers that lie side by side."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(x.ndim))
    reduced = {at % x.ndim for at in dims} if x.ndim else set()
    inner = set(range(x.ndim - len(reduced), x.ndim))
    count = math.prod(x.shape[at] for at in reduced)
    return reduced == inner and LANES < count <= GROUP - LANES


@reported(
    "pytorch/pytorch#187976",
    "MPS (torch 2.13)",
    "amax amax.method amax.out amin amin.method amin.out aminmax",
    "of 33 to 992 int64 numbers, those of lanes that do not run count as 0 when the simdgroups are "
    "put together: the largest of negative numbers (the smallest of positive ones) is 0",
    dtypes="int64",
    sound=plain,
)
def zeros_of_idle_lanes(call: Call) -> Any:
    x, name, result = before(call), call.operator.name, call.run()
    dim = call.given("dim", 1, None) if name == "aminmax" else argument(call, "dim", 1, ())
    if not is_one_of(x, torch.int64) or not x.numel() or not lanes_are_idle(x, dim):
        return result
    if name == "aminmax":
        return result[0].clamp(max=0), result[1].clamp(min=0)
    numbers = result.clamp(min=0) if name.startswith("amax") else result.clamp(max=0)
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#186229",
    "ROCm (gfx1151)",
    "softmax softmax.method softmax.out softmax.with_dtype .softmin",
    "rows of more than 32 numbers are added up as by wavefronts of 64 lanes, where there are 32: "
    "the sum is twice, the results are half as large as they should be",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
    cause="scaled",
)
def wavefronts_of_64_lanes(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not isinstance(result, Tensor) or not isinstance(dim, int) or not x.ndim:
        return result
    shape = x.shape[dim % x.ndim :]
    if not result.is_floating_point() or not x.numel():
        return result
    if shape[0] <= LANES or math.prod(shape[1:]) != 1:
        return result
    return arrived(call, result, result.detach() / 2)


@reported(
    "pytorch/pytorch#194082",
    "MPS (torch 2.13)",
    "argmax argmax.method argmin any any.method any.out",
    "of more than 2^32 numbers, the index of the largest (and of the smallest) is 0; none is true",
    sound=plain,
    cause="zero",
)
def index_of_more_than_32_bits(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if argument(call, "dim", 1) is not None or x.numel() <= LARGE:
        return result
    return arrived(call, result, torch.zeros_like(result))
