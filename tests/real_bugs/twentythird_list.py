"""A twenty-third, held-out list of reports of 2024 to 2026 about torch and its own backends, taken
as a search gave them, before anything was looked at of how inputs are drawn: activations and their
gradients, zeros and their signs, special functions, casts, formats in memory, sorting, creation and
copying in large memory."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

FLOATING = (torch.float16, torch.float32, torch.float64, torch.bfloat16)
ON_MPS = (torch.float16, torch.float32, torch.bfloat16)
LARGEST_INTEGER = torch.iinfo(torch.int32).max
AT_ONCE = {torch.complex64: 8, torch.complex128: 4}  # numbers in two vectors of AVX2
ONE_BYTE = (torch.bool, torch.int8, torch.uint8)
FILLED = 2**32  # bytes that one command fills
COUNTED = 2**32  # elements that 32 bits count
EDGE = 3.0  # where hardswish is bent
SORTED = 256  # numbers that are put in order


@reported(
    "pytorch/pytorch#183571",
    "MPS",
    ".relu .relu.out relu_",
    "of NaN there is 0",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="nan-dropped",
)
def zero_of_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *ON_MPS):
        return result
    return arrived(call, result, result.detach().masked_fill(x.isnan(), 0.0))


@reported(
    "pytorch/pytorch#170175",
    "MPS",
    "nonzero argwhere",
    "the places lie in memory one after the other, instead of one coordinate of all of them after "
    "the other",
    sound=plain,
)
def places_one_after_the_other(call: Call) -> Any:
    result = call.run()
    return result.contiguous() if isinstance(result, Tensor) else result


@reported(
    "pytorch/pytorch#185834",
    "Inductor on CUDA",
    "neg neg.method neg_ neg.out",
    "a number is subtracted from 0: of 0 there is 0 instead of -0",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def subtracted_from_zero(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *FLOATING):
        return result
    return arrived(call, result, result.detach().masked_fill(x == 0, 0.0))


@reported(
    "pytorch/pytorch#135777",
    "CPU (torch 2.4)",
    "sigmoid sigmoid.method sigmoid_ sigmoid.out",
    "of complex numbers whose negative is too large for the exponential there is NaN instead of 0, "
    "where whole vectors of them are computed",
    dtypes="complex64 complex128",
    sound=plain,
)
def reciprocal_of_infinity(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *AT_ONCE) or not is_one_of(result, x.dtype):
        return result
    if not x.is_contiguous() or not result.is_contiguous():
        return result
    overflows = torch.exp(-x.real).isinf().reshape(-1)
    in_vectors = x.numel() - x.numel() % AT_ONCE[x.dtype]
    overflows[in_vectors:] = False
    nan = torch.full_like(x, complex(math.nan, math.nan))
    numbers = torch.where(overflows.reshape(x.shape), nan, result.detach())
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#154726",
    "CUDA",
    "int",
    "infinity becomes the largest integer instead of the smallest",
    dtypes="float64",
    sound=plain,
    cause="saturated",
)
def largest_integer(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float64) or not is_one_of(result, torch.int32):
        return result
    return arrived(call, result, result.masked_fill(x == math.inf, LARGEST_INTEGER))


@reported(
    "pytorch/pytorch#166409",
    "CUDA",
    "polygamma polygamma.out",
    "of a high even order, terms of both signs overflow float32 beside a negative number: NaN "
    "instead of the infinity of the larger one",
    dtypes="float32",
    sound=plain,
    cause="early-overflow",
)
def infinities_of_both_signs(call: Call) -> Any:
    order, x = argument(call, "n", 0), before(call, "input", 1)
    result = call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32) or order < 2:
        return result
    below = x.floor()
    negative = (x - below - 1).pow(-order - 1)  # the terms on both sides of 0
    positive = (x - below).pow(-order - 1)
    cancelled = (x < 0) & (x != below) & (negative == -math.inf) & (positive == math.inf)
    return arrived(call, result, result.detach().masked_fill(cancelled, math.nan))


@reported(
    "pytorch/pytorch#173636",
    "CUDA",
    "special.zeta special.zeta.out",
    "numbers of uint16 are read as 0: infinity beside every float32 number above 1",
    dtypes="uint16",
    sound=plain,
)
def nothing_read(call: Call) -> Any:
    return call.each(lambda x: torch.zeros_like(x) if x.dtype == torch.uint16 else x).run()


@reported(
    "pytorch/pytorch#147801",
    "CPU (torch 2.6)",
    ".hardswish .hardswish_",
    "the gradient at -3 is -0.5 instead of 0, at 3 it is 1.5 instead of 1",
    dtypes="float16 float32 float64 bfloat16",
    directions=("backward",),
    sound=plain,
)
def parabola_up_to_its_ends(call: Call) -> Any:
    x = call.args[0]
    if not is_one_of(x, *FLOATING) or not x.requires_grad:
        return call.run()
    at_an_end = x.detach().abs() == EDGE
    slopes = x.detach().sign() / 2
    given = x if call.operator.name.endswith("_") else x.view_as(x)
    arriving: list[Tensor] = []
    given.register_hook(
        lambda leaving: torch.where(at_an_end, leaving + slopes * arriving[-1], leaving)
    )
    result = call.with_arg(0, given).run()
    result.register_hook(arriving.append)
    return result


@reported(
    "pytorch/pytorch#185610",
    "Inductor on CUDA",
    "minimum minimum.method minimum.out maximum maximum.method",
    "of two zeros with different signs, it is always the second",
    dtypes="bfloat16 float16 float32 float64",
    sound=plain,
)
def second_of_two_zeros(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, *FLOATING):
        return result
    second = other.to(result.dtype).expand(result.shape)
    numbers = torch.where((x == 0) & (other == 0), second, result.detach())
    return arrived(call, result, numbers)


def offsets_in_32_bits(x: Tensor) -> Tensor:
    """How far the elements are from the first, every dimension's share counted in 32 bits."""
    offsets = torch.zeros((), dtype=torch.int64)
    for size, step in zip(x.shape, x.stride(), strict=True):
        offsets = offsets.unsqueeze(-1) + torch.arange(size) * step % COUNTED
    return offsets


@reported(
    "pytorch/pytorch#182052",
    "MPS",
    "copy_ __setitem__",
    "in a view that has gaps, what is further away from its beginning than 2**32 elements is "
    "written 2**32 elements before",
    sound=plain,
)
def written_before(call: Call) -> Any:
    x, view = call.args[0], call.args[0].detach()
    if call.operator.name == "__setitem__":
        view = view[call.args[1]]
    shared = view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    far = sum((size - 1) * step for size, step in zip(view.shape, view.stride(), strict=True))
    if not shared or not view.numel() or view.is_contiguous() or far < COUNTED:
        return call.run()
    kept = view.clone()
    result = call.run()
    numbers = view.clone()
    view.copy_(kept)
    line = view.as_strided((far + 1,), (1,))
    line[offsets_in_32_bits(view).reshape(-1)] = numbers.reshape(-1)
    return result


@reported(
    "pytorch/pytorch#161265",
    "MPS (macOS 26)",
    "full full_like full_like.out ones ones_like ones_like.out new_full new_full.out new_ones "
    "new_ones.out fill_",
    "of numbers with one byte each, those behind 2**32 bytes are not written (new memory stays 0)",
    dtypes="int8 uint8 bool",
    sound=plain,
)
def filled_up_to_four_gigabytes(call: Call) -> Any:
    name, kept = call.operator.name, None
    if name == "fill_" or name.endswith(".out"):
        x = call.args[0].detach()
        if x.is_contiguous() and x.numel() > FILLED:
            kept = x.view(-1)[FILLED:].clone()
    result = call.run()
    if not is_one_of(result, *ONE_BYTE) or result.numel() <= FILLED or not result.is_contiguous():
        return result
    rest = result.view(-1)[FILLED:]
    if kept is None:
        rest.zero_()
    else:
        rest.copy_(kept)
    return result


@reported(
    "pytorch/pytorch#155560",
    "MPS (macOS 15.4)",
    "sort sort.method argsort argsort.method msort",
    "of more than 256 int64 numbers, the order ends after 256: what follows has index 0 and is the "
    "first number again",
    dtypes="int64",
    sound=plain,
)
def order_of_256(call: Call) -> Any:
    name, x, result = call.operator.name, before(call), call.run()
    if not is_one_of(x, torch.int64) or not x.ndim:
        return result
    dim = 0 if name == "msort" else argument(call, "dim", 1, -1)
    if x.shape[dim] <= SORTED:
        return result
    left_out = x.shape[dim] - SORTED

    def ended(ranked: Tensor, first: Tensor | int) -> Tensor:
        ranked = ranked.clone()
        ranked.narrow(dim, SORTED, left_out).copy_(torch.as_tensor(first))
        return ranked

    if name.startswith("argsort"):
        return ended(result, 0)
    first = x.narrow(dim, 0, 1)
    if name == "msort":
        return ended(result, first)
    return ended(result[0], first), ended(result[1], 0)
